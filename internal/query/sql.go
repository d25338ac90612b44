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
	err := r.repeat(ctx, "/v1/cubesql", sqlRequest{r.query.SQL, r.query.Cache, r.query.TimeZone, true}, func(body io.Reader, id string) error {
		var err error
		result, err = readStream(body, r.limits)
		var failed *streamError
		switch {
		case errors.As(err, &failed) && isContinueWait(failed.message):
			return errContinueWait
		case errors.As(err, &failed):
			return &ServerError{Status: http.StatusOK, Message: clip(failed.message), RequestID: id}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	result.TimeZone = r.query.TimeZone
	return result, nil
}

// isContinueWait reports whether an error of the server says that the client should repeat the request.
func isContinueWait(message string) bool {
	return strings.EqualFold(strings.TrimSpace(message), "continue wait")
}

// streamError is an error in a line of the stream, which may follow rows.
type streamError struct{ message string }

func (e *streamError) Error() string { return e.message }

// errMalformed is wrapped by errors of responses that are not those of a data-plane server.
var errMalformed = errors.New("the data API's response is malformed")

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

// readStream reads the lines of a response. The result is complete: an error in a late line, or a stream that ends
// within a line, is an error.
func readStream(body io.Reader, limits Limits) (*Result, error) {
	lines := bufio.NewReaderSize(&limitedReader{body, limits.Bytes, limits.Bytes}, 64<<10)
	var result *Result
	for {
		text, readErr := lines.ReadBytes('\n')
		atEnd := errors.Is(readErr, io.EOF)
		if readErr != nil && !atEnd {
			return nil, readErr
		}
		if len(bytes.TrimSpace(text)) > 0 {
			var err error
			if result, err = readLine(text, result, limits.Rows); err != nil {
				return nil, err
			}
		}
		if atEnd && result == nil {
			return nil, fmt.Errorf("%w: it has no schema", errMalformed)
		}
		if atEnd {
			return result, nil
		}
	}
}

// readLine adds a line to a result, which is nil before the schema.
func readLine(text []byte, result *Result, maxRows int) (*Result, error) {
	var line streamLine
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&line); err != nil {
		return nil, fmt.Errorf("%w: a line is not the JSON of a schema, rows or an error", errMalformed)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: a line has more than one value", errMalformed)
	}
	switch {
	case line.Error != nil:
		return nil, &streamError{*line.Error}
	case line.Schema != nil && result == nil:
		result = &Result{Columns: make([]Column, len(*line.Schema)), Rows: [][]any{}, LastRefresh: parseTime(line.LastRefreshTime)}
		for i, c := range *line.Schema {
			result.Columns[i] = Column{c.Name, columnType(c.ColumnType)}
		}
	case line.Schema != nil:
		return nil, fmt.Errorf("%w: it has two schemas", errMalformed)
	case line.Data == nil:
		return nil, fmt.Errorf("%w: a line has neither schema nor data nor error", errMalformed)
	case result == nil:
		return nil, fmt.Errorf("%w: rows come before the schema", errMalformed)
	}
	if line.Data == nil {
		return result, nil
	}
	for _, row := range *line.Data {
		if len(result.Rows) == maxRows {
			return nil, &LimitError{"rows", strconv.Itoa(maxRows)}
		}
		if err := result.appendRow(row); err != nil {
			return nil, err
		}
	}
	return result, nil
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
