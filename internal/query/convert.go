package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// ErrNotConvertible means that SQL does more than a JSON query can express. The error has the server's reason.
var ErrNotConvertible = errors.New("the SQL cannot be converted to a JSON query")

// Convert returns the JSON query of /v1/load that is equal to a statement of semantic SQL, or an error that wraps
// ErrNotConvertible.
func (r *Runner) Convert(ctx context.Context, sql string, t Target, l Limits) (json.RawMessage, error) {
	q, err := Query{SQL: sql}.normalize()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.Duration, &LimitError{"duration", l.Duration.String()})
	defer cancel()
	var out struct {
		Status string          `json:"status"`
		Query  json.RawMessage `json:"query"`
		Error  string          `json:"error"`
	}
	body := map[string]string{"input": "sql", "output": "rest", "query": q.SQL}
	err = newRun(r.HTTP, q, t, l).repeat(ctx, "/v1/convert-query", body, func(body io.Reader, _ string) error {
		if json.NewDecoder(&limitedReader{body, l.Bytes, l.Bytes}).Decode(&out) != nil {
			return fmt.Errorf("%w: it is not the JSON of /v1/convert-query", errMalformed)
		}
		if isContinueWait(out.Error) {
			return errContinueWait
		}
		return nil
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case out.Status != "ok" || len(out.Query) == 0:
		return nil, fmt.Errorf("%w: %s", ErrNotConvertible, clip(out.Error))
	case hasExpressions(out.Query):
		return nil, fmt.Errorf("%w: it has expressions", ErrNotConvertible)
	}
	return out.Query, nil
}

// hasExpressions reports whether a converted query has members that are expressions: /v1/load accepts names only.
func hasExpressions(query json.RawMessage) bool {
	var q struct {
		Measures   []any `json:"measures"`
		Dimensions []any `json:"dimensions"`
		Segments   []any `json:"segments"`
	}
	if json.Unmarshal(query, &q) != nil {
		return true
	}
	for _, member := range slices.Concat(q.Measures, q.Dimensions, q.Segments) {
		if name, ok := member.(string); !ok || strings.ContainsAny(name, "{ ") {
			return true
		}
	}
	return false
}
