package query

import (
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Type of the values of a column.
type Type string

// The types, and what their values are in Result.Rows unless they are null.
const (
	// String values are strings.
	String Type = "string"
	// Integer and Number values are json.Number, with the digits that the server sent.
	Integer Type = "integer"
	Number  Type = "number"
	// Boolean values are bool.
	Boolean Type = "boolean"
	// Time values are strings such as 2026-03-25T00:00:00.000, without offset, in the time zone of the query.
	Time Type = "time"
)

// Column of a result.
type Column struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
}

// Result of a query. Several callers may have the same one, so it is not changed.
type Result struct {
	Columns []Column `json:"columns"`
	// Rows have a value for each column; nil is null.
	Rows [][]any `json:"rows"`
	// LastRefresh is when the data were read from the database; zero if unknown.
	LastRefresh time.Time `json:"lastRefresh,omitzero"`
	// Stale is true if the server answered from its cache because fresh data would have taken too long.
	Stale bool `json:"stale,omitempty"`
	// LimitReached is true if the result has as many rows as the server's own limit, so that there may be more.
	LimitReached bool `json:"limitReached,omitempty"`
	// TimeZone of the values.
	TimeZone string `json:"timeZone"`

	// held is what the result takes of the memory for results; nil if that is not limited.
	held *holding
}

// schema implements receiver.
func (r *Result) schema(columns []Column, lastRefresh time.Time) error {
	r.Columns, r.LastRefresh = columns, lastRefresh
	return nil
}

// row implements receiver.
func (r *Result) row(row []any) error { return r.appendRow(row) }

var (
	decimal = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
	whole   = regexp.MustCompile(`^-?[0-9]+$`)
)

// value returns a decoded JSON value as a value of a type. ok is false if it is none.
func (t Type) value(v any) (out any, ok bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case bool:
		if t == Boolean {
			return v, true
		}
		return t.text(strconv.FormatBool(v))
	case json.Number:
		return t.text(v.String())
	case string:
		return t.text(v)
	default: // an array or object of the warehouse
		text, err := json.Marshal(v)
		if err != nil {
			return nil, false
		}
		return string(text), t == String
	}
}

func (t Type) text(s string) (any, bool) {
	switch t {
	case Integer, Number:
		// NaN and infinities have no JSON.
		if n, err := strconv.ParseFloat(s, 64); err == nil && (math.IsNaN(n) || math.IsInf(n, 0) && !decimal.MatchString(s)) {
			return nil, true
		}
		return json.Number(canonical(s)), decimal.MatchString(s)
	case Boolean:
		switch strings.ToLower(s) {
		case "true", "t", "1":
			return true, true
		case "false", "f", "0":
			return false, true
		}
		return nil, false
	default:
		return s, true
	}
}

// canonical removes leading zeros, which numbers in JSON do not have.
func canonical(s string) string {
	sign, digits := "", s
	if strings.HasPrefix(s, "-") {
		sign, digits = "-", s[1:]
	}
	for len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9' {
		digits = digits[1:]
	}
	return sign + digits
}

// appendRow adds a row of decoded JSON values. A column whose values are not of its type becomes one of numbers or
// strings: the server names 32-bit integers for decimals too, and values of a model's numbers may be anything.
func (r *Result) appendRow(row []any) error {
	if len(row) != len(r.Columns) {
		return errRow(len(row), len(r.Columns))
	}
	for i, v := range row {
		value, ok := r.Columns[i].Type.value(v)
		if n, isNumber := value.(json.Number); ok && isNumber && r.Columns[i].Type == Integer && !whole.MatchString(n.String()) {
			r.Columns[i].Type = Number
		}
		if !ok {
			r.toStrings(i)
			value, _ = String.value(v)
		}
		row[i] = value
	}
	r.Rows = append(r.Rows, row)
	return nil
}

// toStrings changes the type of a column.
func (r *Result) toStrings(column int) {
	r.Columns[column].Type = String
	for _, row := range r.Rows {
		switch v := row[column].(type) {
		case json.Number:
			row[column] = v.String()
		case bool:
			row[column] = strconv.FormatBool(v)
		}
	}
}

// parseTime returns a time of the server; zero if it is none.
func parseTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t
}
