package query

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/quoin-dev/quoin/internal/query/controls"
)

// Plan is a query with controls.
type Plan struct {
	Query Query
	// Outcomes has one element for each control.
	Outcomes []controls.Outcome
	// names has the names that columns have without controls, by those in the result.
	names map[string]string
}

// Plan applies the controls of a dashboard to a query.
//
// The controls of SQL apply to the JSON query that it is converted to. SQL that has none runs as it is, without
// controls. Columns keep the names that they have without controls, but those of converted SQL are names of members.
func (r *Runner) Plan(ctx context.Context, q Query, c controls.Controls, t Target, l Limits) (*Plan, error) {
	if err := c.Validate(); err != nil || c.Empty() {
		return &Plan{Query: q}, err
	}
	plain := q
	if q.SQL != "" {
		converted, err := r.Convert(ctx, q.SQL, t, l)
		if errors.Is(err, ErrNotConvertible) {
			return &Plan{Query: plain, Outcomes: controls.Skip(c, err.Error())}, nil
		}
		if err != nil {
			return nil, err
		}
		q.SQL, q.JSON = "", converted
	}
	members, err := r.Members(ctx, t, l)
	if err != nil {
		return nil, err
	}
	applied, err := controls.Apply(q.JSON, c, members)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(applied.Outcomes, func(o controls.Outcome) bool { return o.Applied }) {
		return &Plan{Query: plain, Outcomes: applied.Outcomes}, nil
	}
	q.JSON = applied.Query
	return &Plan{Query: q, Outcomes: applied.Outcomes, names: applied.Names}, nil
}

// RunWith runs a query with the controls of a dashboard, and returns an outcome for each of them. The caller releases the result.
func (r *Runner) RunWith(ctx context.Context, q Query, c controls.Controls, t Target, l Limits) (*Result, []controls.Outcome, error) {
	p, err := r.Plan(ctx, q, c, t, l)
	if err != nil {
		return nil, nil, err
	}
	result, err := r.RunPlan(ctx, p, t, l)
	return result, p.Outcomes, err
}

// RunPlan is Run for a query with controls.
func (r *Runner) RunPlan(ctx context.Context, p *Plan, t Target, l Limits) (*Result, error) {
	result, err := r.Run(ctx, p.Query, t, l)
	if err != nil {
		return nil, err
	}
	return result.renamed(p.names), nil
}

// renamed returns the result with other names of columns. Other callers may have the same result.
func (r *Result) renamed(names map[string]string) *Result {
	out := *r
	out.Columns = renamed(r.Columns, names)
	return &out
}

func renamed(columns []Column, names map[string]string) []Column {
	columns = slices.Clone(columns)
	for i, c := range columns {
		if name, ok := names[c.Name]; ok {
			columns[i].Name = name
		}
	}
	return columns
}

// Members returns the members that the tokens of a target may see, by name: none if they must not read metadata.
func (r *Runner) Members(ctx context.Context, t Target, l Limits) (map[string]controls.Member, error) {
	cubes, err := r.Cubes(ctx, t, l)
	refused := (*ServerError)(nil)
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusForbidden:
		return map[string]controls.Member{}, nil
	case err != nil:
		return nil, err
	}
	all := map[string]controls.Member{}
	for i := range cubes {
		for _, kind := range []struct {
			name    string
			members []Member
		}{{controls.Measure, cubes[i].Measures}, {controls.Dimension, cubes[i].Dimensions}} {
			for _, m := range kind.members {
				all[m.Name] = controls.Member{Kind: kind.name, Type: m.Type}
			}
		}
	}
	return all, nil
}
