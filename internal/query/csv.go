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

// WriteCSV writes a result with a header as RFC 4180 describes: lines end with CR LF, also the last one, and the
// encoding is UTF-8. A null is an empty field, and an empty string is "".
//
// Texts that a spreadsheet would take for a formula get an apostrophe in front; numbers and times do not.
func WriteCSV(w io.Writer, r *Result) error {
	out := bufio.NewWriterSize(w, 32<<10)
	fields := make([]string, len(r.Columns))
	for i, c := range r.Columns {
		fields[i] = quoted(harmless(c.Name))
	}
	writeRecord(out, fields)
	for _, row := range r.Rows {
		for i, v := range row {
			fields[i] = field(v, r.Columns[i].Type)
		}
		writeRecord(out, fields)
	}
	return out.Flush()
}

// writeRecord writes a line. A bufio.Writer keeps its error until Flush.
func writeRecord(w *bufio.Writer, fields []string) {
	if len(fields) == 1 && fields[0] == "" {
		fields = []string{`""`} // an empty line is no record for many readers
	}
	_, _ = w.WriteString(strings.Join(fields, ","))
	_, _ = w.WriteString("\r\n")
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
