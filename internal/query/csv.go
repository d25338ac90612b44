package query

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
	"strings"
)

// formulaStarts begin a formula in spreadsheets. Source: OWASP, "CSV Injection".
const formulaStarts = "=+-@\t\r\n"

// WriteCSV writes a result as CSV does.
func WriteCSV(w io.Writer, r *Result) error {
	out := NewCSV(w)
	if err := out.Begin(r); err != nil {
		return err
	}
	for _, row := range r.Rows {
		if err := out.Row(row); err != nil {
			return err
		}
	}
	return out.Flush()
}

// CSV is a Sink that writes with a header as RFC 4180 describes: lines end with CR LF, also the last one, and the
// encoding is UTF-8. A null is an empty field, and an empty string is "".
//
// Texts that a spreadsheet would take for a formula get an apostrophe in front; numbers and times do not.
type CSV struct {
	out     *bufio.Writer
	columns []Column
	fields  []string
}

// NewCSV returns a sink. Flush must be called after the last row.
func NewCSV(w io.Writer) *CSV { return &CSV{out: bufio.NewWriterSize(w, 32<<10)} }

// Begin implements Sink: it writes the header.
func (c *CSV) Begin(r *Result) error {
	c.columns, c.fields = r.Columns, make([]string, len(r.Columns))
	for i, column := range r.Columns {
		c.fields[i] = quoted(harmless(column.Name))
	}
	return c.write(c.fields)
}

// Row implements Sink.
func (c *CSV) Row(row []any) error {
	for i, v := range row {
		c.fields[i] = field(v, c.columns[i].Type)
	}
	return c.write(c.fields)
}

// Fail writes a last line that says why the result is not complete.
func (c *CSV) Fail(message string) error {
	if err := c.write([]string{quoted("#ERROR " + strings.Join(strings.Fields(message), " "))}); err != nil {
		return err
	}
	return c.Flush()
}

// Flush writes what is buffered.
func (c *CSV) Flush() error { return c.out.Flush() }

func (c *CSV) write(fields []string) error {
	if len(fields) == 1 && fields[0] == "" {
		fields = []string{`""`} // an empty line is no record for many readers
	}
	for i, text := range fields {
		if i > 0 {
			_ = c.out.WriteByte(',') // the writer keeps its error
		}
		_, _ = c.out.WriteString(text)
	}
	_, err := c.out.WriteString("\r\n")
	return err
}

func field(v any, t Type) string {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return v.String()
	case string:
		if t != Time || !beginsWithDigit(v) {
			v = harmless(v)
		}
		return quoted(v)
	default: // null
		return ""
	}
}

func beginsWithDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

func harmless(s string) string {
	if s != "" && strings.ContainsRune(formulaStarts, rune(s[0])) {
		return "'" + s
	}
	return s
}

func quoted(s string) string {
	if s == "" || strings.ContainsAny(s, "\",\r\n") || strings.TrimSpace(s) != s {
		return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	return s
}
