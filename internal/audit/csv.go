package audit

import (
	"encoding/json"
	"io"
	"iter"
	"strings"
	"unicode/utf8"
)

// CSVContentType is the media type of WriteCSV.
const CSVContentType = "text/csv; charset=utf-8"

// CSVColumns is the header row of WriteCSV.
var CSVColumns = []string{
	"time", "event", "user_email", "actor", "deployment_id", "deployment_name", "object", "outcome", "source", "ip", "request_id", "data",
}

// csvBuffer is the number of bytes written at once.
const csvBuffer = 64 << 10

// timeFormat is RFC 3339 in UTC with microseconds, so that text sorts as time does.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// WriteCSV writes events as CSV (RFC 4180) with a header row, in UTF-8. A cell that a spreadsheet
// would take for a formula begins with an apostrophe. After an error the output is incomplete.
func WriteCSV(w io.Writer, events iter.Seq2[Event, error]) (rows int, err error) {
	buffer := make([]byte, 0, csvBuffer+csvBuffer/2)
	for _, name := range CSVColumns {
		buffer = appendCell(buffer, name)
	}
	buffer = endRow(buffer)
	defer func() { exportedTotal.Add(float64(rows)) }()
	var data []byte
	for e, err := range events {
		if err != nil {
			return rows, err
		}
		buffer, data = appendEvent(buffer, data[:0], &e)
		rows++
		if len(buffer) < csvBuffer {
			continue
		}
		if _, err := w.Write(buffer); err != nil {
			return rows, err
		}
		buffer = buffer[:0]
	}
	_, err = w.Write(buffer)
	return rows, err
}

// appendEvent appends the row of an event. data is a scratch buffer.
func appendEvent(to, data []byte, e *Event) (row, scratch []byte) {
	to = append(e.Time.UTC().AppendFormat(to, timeFormat), ',')
	actor := string(e.Actor.Kind)
	if e.Actor.ID != "" {
		actor += ":" + e.Actor.ID
	}
	for _, text := range [...]string{
		e.Name, e.Actor.Email, actor, e.Deployment.ID, e.Deployment.Name, e.Object.String(), string(e.Outcome), string(e.Source), e.IP, e.RequestID,
	} {
		to = appendCell(to, text)
	}
	data = e.appendData(data)
	return endRow(appendCell(to, data)), data
}

// String returns kind, namespace and name, as far as known, separated by slashes.
func (o Object) String() string {
	text := o.Kind
	for _, part := range []string{o.Namespace, o.Name} {
		if text != "" && part != "" {
			text += "/"
		}
		text += part
	}
	return text
}

// endRow replaces the last comma by the end of the row.
func endRow(to []byte) []byte { return append(to[:len(to)-1], "\r\n"...) }

// appendCell appends a cell and a comma.
func appendCell[T string | []byte](to []byte, text T) []byte {
	quote := false
	for i := 0; i < len(text) && !quote; i++ {
		switch text[i] {
		case '"', ',', '\r', '\n':
			quote = true
		}
	}
	if quote {
		to = append(to, '"')
	}
	if beginsFormula(text) {
		to = append(to, '\'')
	}
	if !quote {
		return append(append(to, text...), ',')
	}
	for i := range len(text) {
		if text[i] == '"' {
			to = append(to, '"')
		}
		to = append(to, text[i])
	}
	return append(to, `",`...)
}

// beginsFormula reports whether a spreadsheet may evaluate a cell with this text. Some accept the
// full-width forms of the signs too.
func beginsFormula[T string | []byte](text T) bool {
	if len(text) == 0 {
		return false
	}
	if text[0] < utf8.RuneSelf {
		return strings.IndexByte("=+-@\t\r\n", text[0]) >= 0
	}
	first, _ := utf8.DecodeRuneInString(string(text[:min(len(text), utf8.UTFMax)]))
	return strings.ContainsRune("＝＋－＠", first)
}

// appendData appends the fields without a column as a JSON object.
func (e *Event) appendData(to []byte) []byte {
	to = append(to, '{')
	for _, f := range [...]struct{ name, text string }{{`"reason":`, e.Reason}, {`"objectId":`, e.Object.ID}} {
		if f.text != "" {
			to = append(appendJSON(append(to, f.name...), f.text), ',')
		}
	}
	if len(e.Changes) > 0 {
		to = append(append(append(to, `"changes":`...), e.Changes...), ',')
	}
	if to[len(to)-1] == ',' {
		to = to[:len(to)-1]
	}
	return append(to, '}')
}

// appendJSON appends a JSON string.
func appendJSON(to []byte, text string) []byte {
	for i := range len(text) {
		if text[i] < ' ' || text[i] == '"' || text[i] == '\\' {
			quoted, err := json.Marshal(text)
			if err != nil {
				return append(to, `""`...) // strings can always be encoded
			}
			return append(to, quoted...)
		}
	}
	return append(append(append(to, '"'), text...), '"')
}
