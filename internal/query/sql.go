package query

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// sqlRequest is the body of /v1/cubesql.
type sqlRequest struct {
	Query    string `json:"query"`
	Cache    Cache  `json:"cache"`
	TimeZone string `json:"timezone"`
	// ThrowContinueWait limits the time of a request: the server answers that the client should ask again.
	ThrowContinueWait bool `json:"throwContinueWait"`
}

// runSQL runs the SQL of a query.
func (r *run) runSQL(ctx context.Context) (*Result, error) {
	var result *Result
	err := r.sql(ctx, func(body io.Reader) error {
		r.held.reset()
		result = &Result{Rows: [][]any{}}
		return r.receive(&heldReader{body, r.held}, result)
	})
	if err != nil {
		return nil, err
	}
	result.TimeZone, result.held = r.query.TimeZone, r.held
	result.LimitReached = r.query.First > 0 && len(result.Rows) >= r.query.First
	return result, nil
}

// sql sends the SQL of a query until receive has read the response.
func (r *run) sql(ctx context.Context, receive func(body io.Reader) error) error {
	return r.repeat(ctx, "/v1/cubesql", sqlRequest{r.query.SQL, r.query.Cache, r.query.TimeZone, true}, func(body io.Reader, id string) error {
		err := receive(body)
		var (
			failed *streamError
			late   *lateError
		)
		switch {
		case errors.As(err, &failed) && isContinueWait(failed.message) && !errors.As(err, &late):
			return errContinueWait
		case errors.As(err, &failed):
			return &ServerError{Status: http.StatusOK, Message: clip(failed.message), RequestID: id}
		}
		return err
	})
}

// isContinueWait reports whether an error of the server says that the client should repeat the request.
func isContinueWait(message string) bool {
	return strings.EqualFold(strings.TrimSpace(message), "continue wait")
}

// streamError is an error in a line of the stream, which may follow rows.
type streamError struct{ message string }

func (e *streamError) Error() string { return e.message }

// errMalformed is wrapped by errors of responses that are not those of a data-plane server.
var errMalformed = &UnavailableError{"the data API's response is malformed"}

func errRow(got, want int) error {
	return fmt.Errorf("%w: a row has %d values and the schema %d columns", errMalformed, got, want)
}

// streamLine is a line of the response of /v1/cubesql: the first one has the schema, the following ones rows.
// Source: packages/cubejs-backend-native/src/node_export.rs.
type streamLine struct {
	Schema *[]struct {
		Name string `json:"name"`
		// ColumnType is a name, or an object such as {"Decimal": [38, 10]}.
		ColumnType json.RawMessage `json:"column_type"`
	} `json:"schema"`
	LastRefreshTime string   `json:"lastRefreshTime"`
	Data            *[][]any `json:"data"`
	Error           *string  `json:"error"`
}

// receiver gets the parts of a response, and ends its reading with an error.
type receiver interface {
	schema(columns []Column, lastRefresh time.Time) error
	// row gets a row with a value for each column.
	row(row []any) error
}

// errEnough ends the reading of a result that has as many rows as the caller wants.
var errEnough = errors.New("no more rows are wanted")

// receive reads a response to SQL, until its end or the last row that the caller wants.
func (r *run) receive(body io.Reader, to receiver) error {
	err := readStream(body, r.limits, r.query.First, to)
	if errors.Is(err, errEnough) {
		r.enough = true
		return nil
	}
	return err
}

// maxLine limits a line of a response in bytes: a line has many rows.
const maxLine = 32 << 20

// readStream reads the lines of a response. The result is complete: an error in a late line, or a stream that ends
// within a line, is an error. After first rows, unless that is 0, it is errEnough.
func readStream(body io.Reader, limits Limits, first int, to receiver) error {
	lines := bufio.NewReaderSize(&limitedReader{body, limits.Bytes, limits.Bytes}, 64<<10)
	s := &stream{to: to, columns: -1, maxRows: limits.Rows, first: first}
	for {
		text, readErr := readLine(lines)
		atEnd := errors.Is(readErr, io.EOF)
		if readErr != nil && !atEnd {
			return readErr
		}
		if len(bytes.TrimSpace(text)) > 0 {
			if err := s.line(text); err != nil {
				return err
			}
		}
		if atEnd && s.columns < 0 {
			return fmt.Errorf("%w: it has no schema", errMalformed)
		}
		if atEnd {
			return nil
		}
	}
}

// readLine returns a line with its end, or what is left before io.EOF.
func readLine(from *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := from.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxLine {
			return nil, fmt.Errorf("%w: a line has more than %d bytes", errMalformed, maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// stream is a response that is being read.
type stream struct {
	to receiver
	// columns is -1 before the schema.
	columns, rows  int
	maxRows, first int
}

// line reads a line.
func (s *stream) line(text []byte) error {
	var line streamLine
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&line); err != nil {
		return fmt.Errorf("%w: a line is not the JSON of a schema, rows or an error", errMalformed)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: a line has more than one value", errMalformed)
	}
	switch {
	case line.Error != nil:
		return &streamError{*line.Error}
	case line.Schema != nil && s.columns < 0:
		columns := make([]Column, len(*line.Schema))
		for i, c := range *line.Schema {
			columns[i] = Column{c.Name, columnType(c.ColumnType)}
		}
		s.columns = len(columns)
		if err := s.to.schema(columns, parseTime(line.LastRefreshTime)); err != nil {
			return err
		}
	case line.Schema != nil:
		return fmt.Errorf("%w: it has two schemas", errMalformed)
	case line.Data == nil:
		return fmt.Errorf("%w: a line has neither schema nor data nor error", errMalformed)
	case s.columns < 0:
		return fmt.Errorf("%w: rows come before the schema", errMalformed)
	}
	if line.Data == nil {
		return nil
	}
	for _, row := range *line.Data {
		if err := s.row(row); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) row(row []any) error {
	switch {
	case s.first > 0 && s.rows == s.first:
		return errEnough
	case s.rows == s.maxRows:
		return &LimitError{"rows", strconv.Itoa(s.maxRows)}
	case len(row) != s.columns:
		return errRow(len(row), s.columns)
	}
	s.rows++
	return s.to.row(row)
}

// columnType returns the type of a column from the server's. Source: rust/cubesql/cubesql/src/sql/types.rs.
func columnType(name json.RawMessage) Type {
	if text := compact(name); strings.HasPrefix(text, `{"Decimal"`) {
		return Number
	} else if strings.HasPrefix(text, `{"Date"`) {
		return Time
	}
	var simple string
	if json.Unmarshal(name, &simple) != nil {
		return String
	}
	switch simple {
	case "Int8", "Int32", "Int64":
		return Integer
	case "Double":
		return Number
	case "Boolean":
		return Boolean
	case "Timestamp":
		return Time
	default:
		return String
	}
}

// limitedReader returns a *LimitError when more than its limit is read.
type limitedReader struct {
	io.Reader
	left, limit int64
}

// Read implements io.Reader.
func (l *limitedReader) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, &LimitError{"bytes", strconv.FormatInt(l.limit, 10)}
	}
	return n, err
}
