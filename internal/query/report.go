package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/quoin-dev/quoin/internal/query/controls"
)

// RunWith runs a query with the controls of a dashboard, and returns an outcome for each of them.
//
// The controls of SQL apply to the JSON query that it is converted to. SQL that has none runs as it is, without
// controls. Columns keep the names that they have without controls, but those of converted SQL are names of members.
func (r *Runner) RunWith(ctx context.Context, q Query, c controls.Controls, t Target, l Limits) (*Result, []controls.Outcome, error) {
	if err := c.Validate(); err != nil || c.Empty() {
		if err != nil {
			return nil, nil, err
		}
		result, err := r.Run(ctx, q, t, l)
		return result, nil, err
	}
	plain := q
	if q.SQL != "" {
		converted, err := r.Convert(ctx, q.SQL, t, l)
		if errors.Is(err, ErrNotConvertible) {
			result, runErr := r.Run(ctx, plain, t, l)
			return result, controls.Skip(c, err.Error()), runErr
		}
		if err != nil {
			return nil, nil, err
		}
		q.SQL, q.JSON = "", converted
	}
	members, err := r.Members(ctx, t, l)
	if err != nil {
		return nil, nil, err
	}
	applied, err := controls.Apply(q.JSON, c, members)
	if err != nil {
		return nil, nil, err
	}
	if !slices.ContainsFunc(applied.Outcomes, func(o controls.Outcome) bool { return o.Applied }) {
		result, err := r.Run(ctx, plain, t, l)
		return result, applied.Outcomes, err
	}
	q.JSON = applied.Query
	result, err := r.Run(ctx, q, t, l)
	if err != nil {
		return nil, nil, err
	}
	return result.renamed(applied.Names), applied.Outcomes, nil
}

// renamed returns the result with other names of columns. Other callers may have the same result.
func (r *Result) renamed(names map[string]string) *Result {
	out := *r
	out.Columns = slices.Clone(r.Columns)
	for i, c := range out.Columns {
		if name, ok := names[c.Name]; ok {
			out.Columns[i].Name = name
		}
	}
	return &out
}

// Members returns the members that the tokens of a target may see, by name: none if they must not read metadata.
func (r *Runner) Members(ctx context.Context, t Target, l Limits) (map[string]controls.Member, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.Duration, &LimitError{"duration", l.Duration.String()})
	defer cancel()
	type member struct {
		Name string `json:"name"`
		Type string `json:"type"`
	}
	var meta struct {
		Cubes []struct {
			Measures   []member `json:"measures"`
			Dimensions []member `json:"dimensions"`
		} `json:"cubes"`
	}
	err := newRun(r.HTTP, Query{}, t, l).repeat(ctx, "/v1/meta", nil, func(body io.Reader, _ string) error {
		if json.NewDecoder(&limitedReader{body, l.Bytes, l.Bytes}).Decode(&meta) != nil {
			return fmt.Errorf("%w: it is not the JSON of /v1/meta", errMalformed)
		}
		return nil
	})
	refused := (*ServerError)(nil)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, &refused) && refused.Status == http.StatusForbidden:
		return map[string]controls.Member{}, nil
	case err != nil:
		return nil, err
	}
	all := map[string]controls.Member{}
	for _, cube := range meta.Cubes {
		for _, kind := range []struct {
			name    string
			members []member
		}{{controls.Measure, cube.Measures}, {controls.Dimension, cube.Dimensions}} {
			for _, m := range kind.members {
				all[m.Name] = controls.Member{Kind: kind.name, Type: m.Type}
			}
		}
	}
	return all, nil
}
