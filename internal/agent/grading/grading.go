// Package grading compares the result of the query of an agent with that of the query which is known to answer the question.
//
// The order of rows, the names of columns and columns that the expected result does not have make no difference. Numbers are
// compared to four significant figures. There is no comparison of the numbers of rows by itself: it is a reason for a failure only
// if the rows differ.
package grading

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Verdict is the result of a comparison.
type Verdict string

// The verdicts.
const (
	// Pass: the results are the same.
	Pass Verdict = "pass"
	// Fail: they are not.
	Fail Verdict = "fail"
	// Review: they cannot be compared within the limits; a person has to look at them.
	Review Verdict = "review"
	// Errored: there is no result to compare.
	Errored Verdict = "error"
)

// Reason is why a verdict is not Pass.
type Reason string

// The reasons.
const (
	RowCountMismatch   Reason = "row count mismatch"
	MissingColumns     Reason = "missing columns"
	ValueMismatch      Reason = "value mismatch"
	UnexpectedRows     Reason = "unexpected rows"
	QueryError         Reason = "query error"
	GroundTruthFailed  Reason = "ground-truth query failed"
	GroundTruthMissing Reason = "ground truth not found"
	AgentError         Reason = "agent error"
	TooLarge           Reason = "results too large"
)

// Limits of results that are compared.
const (
	MaxRows    = 10_000
	MaxColumns = 64
	// maxSteps bounds the search for the columns that correspond.
	maxSteps = 2_000
)

// Result is the result of a query. Rows have a value for each column; nil stands for NULL.
type Result struct {
	Columns []string
	Rows    [][]*string
}

// Grade is the outcome of a comparison.
type Grade struct {
	Verdict Verdict
	Reason  Reason
	// Detail describes the difference for a person. It has no values of the data.
	Detail string
}

// Compare grades a result against the expected one.
func Compare(expected, actual *Result) Grade {
	for i, r := range []*Result{expected, actual} {
		if len(r.Rows) > MaxRows || len(r.Columns) > MaxColumns {
			name := []string{"expected", "actual"}[i]
			return Grade{Review, TooLarge, fmt.Sprintf("the %s result has %d rows and %d columns; compared are at most %d and %d", name, len(r.Rows), len(r.Columns), MaxRows, MaxColumns)}
		}
	}
	if len(actual.Columns) < len(expected.Columns) {
		return Grade{Fail, MissingColumns, fmt.Sprintf("%d columns are expected, the result has %d", len(expected.Columns), len(actual.Columns))}
	}
	want, got := columnsOf(expected), columnsOf(actual)
	if len(expected.Rows) != len(actual.Rows) {
		return rowsDiffer(expected, actual, want, got)
	}
	s := &search{want: want, got: got, rows: len(expected.Rows)}
	s.candidates()
	for i, all := range s.possible {
		if len(all) == 0 {
			return Grade{Fail, ValueMismatch, fmt.Sprintf("no column of the result has the values of the expected column %q", expected.Columns[i])}
		}
	}
	switch s.match(0, nil) {
	case found:
		return Grade{Verdict: Pass}
	case exhausted:
		return Grade{Review, TooLarge, "too many columns have the same values"}
	}
	return Grade{Fail, ValueMismatch, "each column has the expected values, but in other rows"}
}

// rowsDiffer returns the grade of results with different numbers of rows. Rows that are only more than expected are unexpected.
func rowsDiffer(expected, actual *Result, want, got [][]string) Grade {
	detail := fmt.Sprintf("%d rows are expected, the result has %d", len(expected.Rows), len(actual.Rows))
	if len(actual.Rows) < len(expected.Rows) {
		return Grade{Fail, RowCountMismatch, detail}
	}
	for _, column := range want {
		if !slices.ContainsFunc(got, func(other []string) bool { return contains(other, column) }) {
			return Grade{Fail, RowCountMismatch, detail}
		}
	}
	return Grade{Fail, UnexpectedRows, detail}
}

// contains reports whether all values of a column are in another one, as often.
func contains(all, some []string) bool {
	count := map[string]int{}
	for _, v := range all {
		count[v]++
	}
	for _, v := range some {
		if count[v]--; count[v] < 0 {
			return false
		}
	}
	return true
}

// columnsOf returns the normalized values of each column.
func columnsOf(r *Result) [][]string {
	out := make([][]string, len(r.Columns))
	for c := range out {
		out[c] = make([]string, len(r.Rows))
		for i, row := range r.Rows {
			if c < len(row) {
				out[c][i] = normalized(row[c])
			} else {
				out[c][i] = normalized(nil)
			}
		}
	}
	return out
}

// search looks for columns of the result whose rows are the expected rows.
type search struct {
	want, got [][]string
	rows      int
	// possible are the columns of got with the values of each column of want, in any order.
	possible [][]int
	steps    int
}

func (s *search) candidates() {
	sorted := func(column []string) []string { c := slices.Clone(column); slices.Sort(c); return c }
	got := make([][]string, len(s.got))
	for i, column := range s.got {
		got[i] = sorted(column)
	}
	s.possible = make([][]int, len(s.want))
	for i, column := range s.want {
		w := sorted(column)
		for j := range got {
			if slices.Equal(w, got[j]) {
				s.possible[i] = append(s.possible[i], j)
			}
		}
	}
}

type outcome int

const (
	none outcome = iota
	found
	exhausted
)

// match chooses a column for each expected one from n on. The rows of the chosen columns must be the expected rows.
func (s *search) match(n int, chosen []int) outcome {
	if n == len(s.want) {
		return found
	}
	for _, c := range s.possible[n] {
		if slices.Contains(chosen, c) {
			continue
		}
		if s.steps++; s.steps > maxSteps || s.steps*s.rows > 20*MaxRows*MaxColumns {
			return exhausted
		}
		next := append(slices.Clone(chosen), c)
		if !s.sameRows(next) {
			continue
		}
		if o := s.match(n+1, next); o != none {
			return o
		}
	}
	return none
}

// sameRows reports whether the rows of chosen columns are those of the first expected columns, in any order.
func (s *search) sameRows(chosen []int) bool {
	count := make(map[string]int, s.rows)
	for i := range s.rows {
		count[key(s.want, i, len(chosen), nil)]++
	}
	for i := range s.rows {
		k := key(s.got, i, len(chosen), chosen)
		if count[k]--; count[k] < 0 {
			return false
		}
	}
	return true
}

// key returns the values of a row, in the first n columns or in chosen ones.
func key(columns [][]string, row, n int, chosen []int) string {
	var out strings.Builder
	for i := range n {
		c := i
		if chosen != nil {
			c = chosen[i]
		}
		v := columns[c][row]
		out.WriteString(strconv.Itoa(len(v)))
		out.WriteByte(':')
		out.WriteString(v)
	}
	return out.String()
}

// figures is the number of significant figures to which numbers are compared.
const figures = 4

// times are the forms in which data sources write times.
var times = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999 UTC",
	"2006-01-02 15:04:05.999999999", time.DateOnly,
}

// maxNumber is the maximum length of a text that is read as a number, in bytes.
const maxNumber = 64

// normalized returns a value in the form in which values are compared. The first byte is its type.
func normalized(v *string) string {
	if v == nil {
		return "null"
	}
	text := strings.TrimSpace(*v)
	if number, ok := significant(text); ok {
		return "n" + number
	}
	switch lower := strings.ToLower(text); lower {
	case "true", "false":
		return "b" + lower
	}
	for _, form := range times {
		if t, err := time.Parse(form, text); err == nil {
			return "t" + t.UTC().Format(time.RFC3339Nano)
		}
	}
	return "s" + text
}

// significant returns a decimal number with its significant figures, and whether a text is one.
func significant(text string) (string, bool) {
	if text == "" || len(text) > maxNumber || strings.ContainsAny(text, "xXpP_iInN") { // no hexadecimal numbers, infinities and NaN
		return "", false
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(value, 0) {
		return "", false
	}
	exact, ok := new(big.Float).SetPrec(256).SetString(text)
	if !ok || exact.Sign() == 0 {
		return "0", ok
	}
	return exact.Text('e', figures-1), true
}
