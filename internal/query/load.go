package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// loadRequest is the body of /v1/load.
type loadRequest struct {
	Query json.RawMessage `json:"query"`
	Cache Cache           `json:"cache"`
	// QueryType multi permits comparisons of date ranges, which have a result for each range.
	QueryType string `json:"queryType"`
}

// loadResponse is the response to a query in the format compact.
type loadResponse struct {
	Error   *string      `json:"error"`
	Results []loadResult `json:"results"`
}

type loadResult struct {
	Query struct {
		Dimensions     []any           `json:"dimensions"`
		TimeDimensions []timeDimension `json:"timeDimensions"`
		Limit          json.Number     `json:"limit"`
		RowLimit       json.Number     `json:"rowLimit"`
	} `json:"query"`
	Data struct {
		Members []string `json:"members"`
		Dataset [][]any  `json:"dataset"`
	} `json:"data"`
	Annotation      map[string]map[string]json.RawMessage `json:"annotation"`
	LastRefreshTime string                                `json:"lastRefreshTime"`
	SlowQuery       bool                                  `json:"slowQuery"`
}

type timeDimension struct {
	Dimension   string `json:"dimension"`
	Granularity string `json:"granularity"`
}

// load runs the JSON of a query.
func (r *run) load(ctx context.Context) (*Result, error) {
	query, limited, err := compactFormat(r.query.JSON)
	if err != nil {
		return nil, err
	}
	var result *Result
	err = r.repeat(ctx, "/v1/load", loadRequest{query, r.query.Cache, "multi"}, func(body io.Reader, id string) error {
		var err error
		r.held.reset()
		result, err = readLoad(&heldReader{body, r.held}, id, r.limits)
		return err
	})
	if err != nil {
		return nil, err
	}
	result.TimeZone, result.held = r.query.TimeZone, r.held
	result.LimitReached = result.LimitReached && !limited
	if first := r.query.First; first > 0 && len(result.Rows) >= first {
		result.Rows, result.LimitReached = result.Rows[:first], true
	}
	return result, nil
}

// compactFormat returns a query whose response has rows without names, and whether the query has a limit.
func compactFormat(query json.RawMessage) (_ json.RawMessage, limited bool, err error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(query, &fields); err != nil {
		return nil, false, &InvalidError{"json", "expected a JSON object"}
	}
	limit := string(fields["limit"])
	fields["responseFormat"] = json.RawMessage(`"compact"`)
	out, err := json.Marshal(fields)
	return out, limit != "" && limit != "null", err
}

// readLoad reads a response of /v1/load.
func readLoad(body io.Reader, id string, limits Limits) (*Result, error) {
	var response loadResponse
	decoder := json.NewDecoder(&limitedReader{body, limits.Bytes, limits.Bytes})
	decoder.UseNumber()
	if err := decoder.Decode(&response); err != nil {
		if limit := (*LimitError)(nil); errors.As(err, &limit) {
			return nil, limit
		}
		if errors.Is(err, ErrBusy) {
			return nil, ErrBusy
		}
		if syntax := (*json.SyntaxError)(nil); !errors.As(err, &syntax) && !isTypeError(err) && !errors.Is(err, io.EOF) {
			return nil, err // of the connection
		}
		return nil, fmt.Errorf("%w: it is not the JSON of /v1/load", errMalformed)
	}
	switch {
	case response.Error != nil && isContinueWait(*response.Error):
		return nil, errContinueWait
	case response.Error != nil:
		return nil, &ServerError{Status: http.StatusOK, Message: clip(*response.Error), RequestID: id}
	case len(response.Results) == 0:
		return nil, fmt.Errorf("%w: it has no results", errMalformed)
	}
	out := &Result{Rows: [][]any{}}
	for i, part := range response.Results {
		if err := out.add(part, i == 0, limits.Rows); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func isTypeError(err error) bool {
	wrong := (*json.UnmarshalTypeError)(nil)
	return errors.As(err, &wrong)
}

// add adds the rows of a part of a response. All parts have the same columns.
func (r *Result) add(part loadResult, isFirst bool, maxRows int) error {
	keep, columns := part.columns()
	if isFirst {
		r.Columns, r.LastRefresh = columns, parseTime(part.LastRefreshTime)
	} else if !slices.EqualFunc(r.Columns, columns, func(a, b Column) bool { return a.Name == b.Name }) {
		return fmt.Errorf("%w: its results have different columns", errMalformed)
	}
	r.Stale = r.Stale || part.SlowQuery
	if t := parseTime(part.LastRefreshTime); t.Before(r.LastRefresh) {
		r.LastRefresh = t
	}
	limit := part.Query.Limit
	if limit == "" {
		limit = part.Query.RowLimit
	}
	if n, err := limit.Int64(); err == nil && int64(len(part.Data.Dataset)) >= n {
		r.LimitReached = true
	}
	for _, row := range part.Data.Dataset {
		if len(r.Rows) == maxRows {
			return &LimitError{"rows", strconv.Itoa(maxRows)}
		}
		if len(row) != len(part.Data.Members) {
			return errRow(len(row), len(part.Data.Members))
		}
		kept := make([]any, len(keep))
		for i, from := range keep {
			kept[i] = row[from]
		}
		if err := r.appendRow(kept); err != nil {
			return err
		}
	}
	return nil
}

// columns returns the columns of the result and their places in its rows. The server repeats time dimensions with a
// granularity under their own name, which is left out unless the query asks for it.
func (l *loadResult) columns() (from []int, columns []Column) {
	columns = []Column{}
	for i, name := range l.Data.Members {
		isRepeated := slices.ContainsFunc(l.Query.TimeDimensions, func(t timeDimension) bool { return t.Dimension == name && t.Granularity != "" })
		if isRepeated && !slices.Contains(l.Query.Dimensions, any(name)) {
			continue
		}
		from, columns = append(from, i), append(columns, Column{name, l.typeOf(name)})
	}
	return from, columns
}

// typeOf returns the type of a member from the response's annotation.
func (l *loadResult) typeOf(name string) Type {
	for _, section := range []string{"measures", "dimensions", "timeDimensions"} {
		member := struct {
			Type string `json:"type"`
		}{}
		if text, ok := l.Annotation[section][name]; !ok || json.Unmarshal(text, &member) != nil {
			continue
		}
		switch member.Type {
		case "number":
			return Number
		case "time":
			return Time
		case "boolean":
			return Boolean
		}
	}
	if parts := strings.Split(name, "."); len(parts) > 2 { // a custom granularity without annotation
		return Time
	}
	return String
}
