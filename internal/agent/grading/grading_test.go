package grading

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// table returns a result of columns and rows, whose values are separated by spaces; - is NULL.
func table(columns string, rows ...string) *Result {
	r := &Result{Columns: strings.Fields(columns)}
	for _, row := range rows {
		var values []*string
		for _, text := range strings.Fields(row) {
			value := strings.ReplaceAll(text, "_", " ")
			if text == "-" {
				values = append(values, nil)
				continue
			}
			values = append(values, &value)
		}
		r.Rows = append(r.Rows, values)
	}
	return r
}

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		expected, actual *Result
		verdict          Verdict
		reason           Reason
	}{
		"the same":                     {table("a b", "x 1", "y 2"), table("a b", "x 1", "y 2"), Pass, ""},
		"another order of rows":        {table("a b", "x 1", "y 2"), table("a b", "y 2", "x 1"), Pass, ""},
		"other names":                  {table("a b", "x 1"), table("status count", "x 1"), Pass, ""},
		"another order of columns":     {table("a b", "x 1"), table("b a", "1 x"), Pass, ""},
		"more columns":                 {table("a", "x"), table("z a", "9 x"), Pass, ""},
		"four figures":                 {table("a", "1234.4"), table("a", "1234.1"), Pass, ""},
		"the fourth figure":            {table("a", "1234"), table("a", "1235"), Fail, ValueMismatch},
		"forms of numbers":             {table("a b c", "10 0 -1.5"), table("a b c", "1e1 0.000 -1.50"), Pass, ""},
		"numbers and text":             {table("a", "1"), table("a", "one"), Fail, ValueMismatch},
		"forms of booleans":            {table("a", "true"), table("a", "TRUE"), Pass, ""},
		"forms of times":               {table("a", "2026-11-23T00:00:00.000"), table("a", "2026-11-23"), Pass, ""},
		"zones":                        {table("a", "2026-11-23T01:00:00+01:00"), table("a", "2026-11-23_00:00:00_UTC"), Pass, ""},
		"NULL":                         {table("a", "-"), table("a", "-"), Pass, ""},
		"NULL is not the text":         {table("a", "-"), table("a", "null"), Fail, ValueMismatch},
		"infinity is text":             {table("a", "Inf"), table("a", "inf"), Fail, ValueMismatch},
		"no rows":                      {table("a"), table("b"), Pass, ""},
		"no columns":                   {table(""), table("b", "1"), Fail, UnexpectedRows},
		"fewer columns":                {table("a b", "1 2"), table("a", "1"), Fail, MissingColumns},
		"fewer rows":                   {table("a", "x", "y"), table("a", "x"), Fail, RowCountMismatch},
		"more rows":                    {table("a", "x"), table("a", "x", "y"), Fail, UnexpectedRows},
		"more rows with other values":  {table("a", "x"), table("a", "y", "z"), Fail, RowCountMismatch},
		"the same row twice":           {table("a", "x", "x", "y"), table("a", "x", "y", "y"), Fail, ValueMismatch},
		"values in other rows":         {table("a b", "x 1", "y 2"), table("a b", "x 2", "y 1"), Fail, ValueMismatch},
		"columns with the same values": {table("a b c", "1 2 x", "2 1 y"), table("c b a", "x 2 1", "y 1 2"), Pass, ""},
		"values with separators":       {table("a b", "1:a b"), table("a b", "1 a:b"), Fail, ValueMismatch},
		"short rows":                   {table("a b", "x -"), table("a b", "x"), Pass, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Compare(c.expected, c.actual)
			if got.Verdict != c.verdict || got.Reason != c.reason || (got.Verdict == Pass) != (got.Detail == "") {
				t.Errorf("got %+v, want %s %s", got, c.verdict, c.reason)
			}
		})
	}
}

// TestPermutations: whatever the order of rows and columns is, a result equals itself, and not one in which a value has changed.
func TestPermutations(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		rows, columns := 1+random.IntN(20), 1+random.IntN(5)
		expected := &Result{Columns: make([]string, columns)}
		for range rows {
			var row []*string
			for range columns {
				text := strconv.Itoa(random.IntN(4))
				row = append(row, &text)
			}
			expected.Rows = append(expected.Rows, row)
		}
		order, actual := random.Perm(columns), &Result{Columns: expected.Columns}
		for _, i := range random.Perm(rows) {
			var row []*string
			for _, c := range order {
				row = append(row, expected.Rows[i][c])
			}
			actual.Rows = append(actual.Rows, row)
		}
		if got := Compare(expected, actual); got.Verdict != Pass {
			t.Fatalf("%v", got)
		}
		changed := "x"
		actual.Rows[random.IntN(rows)] = slices.Repeat([]*string{&changed}, columns)
		if got := Compare(expected, actual); got.Verdict != Fail {
			t.Fatalf("%v", got)
		}
	}
}

func TestLimits(t *testing.T) {
	large := &Result{Columns: []string{"a"}, Rows: make([][]*string, MaxRows+1)}
	if got := Compare(table("a"), large); got.Verdict != Review || got.Reason != TooLarge {
		t.Errorf("a large result: %+v", got)
	}
	// All columns have the same values, and no choice of them has the expected rows: the search ends all the same.
	n := 12
	expected, actual := &Result{}, &Result{}
	for c := range n {
		expected.Columns, actual.Columns = append(expected.Columns, fmt.Sprint(c)), append(actual.Columns, fmt.Sprint(c))
	}
	for r := range n {
		var want, got []*string
		for c := range n {
			a, b := strconv.Itoa((r+c)%n), strconv.Itoa((r*5+c)%n)
			want, got = append(want, &a), append(got, &b)
		}
		expected.Rows, actual.Rows = append(expected.Rows, want), append(actual.Rows, got)
	}
	if got := Compare(expected, actual); got.Verdict == Errored {
		t.Errorf("ambiguous columns: %+v", got)
	}
}
