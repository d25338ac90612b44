package controls

import (
	"bytes"
	"encoding/json"
	"slices"
)

// query is a JSON query. Fields that controls do not change are kept as they are.
type query struct {
	rest           map[string]json.RawMessage
	Measures       []any
	Dimensions     []any
	TimeDimensions []map[string]any
	Filters        []any
	Order          any
}

// fields returns the fields that controls change, by name.
func (q *query) fields() map[string]any {
	return map[string]any{
		"measures": &q.Measures, "dimensions": &q.Dimensions, "timeDimensions": &q.TimeDimensions, "filters": &q.Filters, "order": &q.Order,
	}
}

func parse(text json.RawMessage) (*query, error) {
	q := &query{}
	if err := json.Unmarshal(text, &q.rest); err != nil || q.rest == nil {
		return nil, &InvalidError{"query", "expected a JSON object"}
	}
	for name, into := range q.fields() {
		value, ok := q.rest[name]
		if !ok {
			continue
		}
		decoder := json.NewDecoder(bytes.NewReader(value))
		decoder.UseNumber()
		if err := decoder.Decode(into); err != nil {
			return nil, &InvalidError{"query." + name, "not that of a query of /v1/load"}
		}
	}
	return q, nil
}

func (q *query) marshal() (json.RawMessage, error) {
	out := map[string]any{}
	for name, value := range q.rest {
		out[name] = value
	}
	for name, value := range q.fields() {
		if text, err := json.Marshal(value); err != nil {
			return nil, err
		} else if string(text) != "null" {
			out[name] = json.RawMessage(text)
		}
	}
	return json.Marshal(out)
}

// returns reports whether the result of the query has a member, also with a granularity.
func (q *query) returns(member string) bool {
	return slices.Contains(q.Measures, any(member)) || slices.Contains(q.Dimensions, any(member)) ||
		slices.ContainsFunc(q.TimeDimensions, func(t map[string]any) bool { return t["dimension"] == member && t["granularity"] != nil })
}

// uses reports whether a member of the result is of a view.
func (q *query) uses(name string) bool {
	isOf := func(member any) bool {
		text, ok := member.(string)
		return ok && view(text) == name
	}
	return slices.ContainsFunc(q.Measures, isOf) || slices.ContainsFunc(q.Dimensions, isOf) ||
		slices.ContainsFunc(q.TimeDimensions, func(t map[string]any) bool { return isOf(t["dimension"]) })
}

// replace replaces a member in the result and its order. Filters keep it: they restrict the report by what its author
// has chosen.
func (q *query) replace(member, by string) {
	for _, list := range [][]any{q.Measures, q.Dimensions} {
		for i := range list {
			if list[i] == member {
				list[i] = by
			}
		}
	}
	for _, t := range q.TimeDimensions {
		if t["dimension"] == member && t["granularity"] != nil {
			t["dimension"] = by
			if ranges, ok := t["dateRange"]; ok { // it is a filter
				delete(t, "dateRange")
				q.TimeDimensions = append(q.TimeDimensions, map[string]any{"dimension": member, "dateRange": ranges})
			}
		}
	}
	switch order := q.Order.(type) {
	case map[string]any:
		if direction, ok := order[member]; ok {
			delete(order, member)
			order[by] = direction
		}
	case []any: // pairs, or objects with the field id
		for _, element := range order {
			switch e := element.(type) {
			case []any:
				if len(e) > 0 && e[0] == member {
					e[0] = by
				}
			case map[string]any:
				if e["id"] == member {
					e["id"] = by
				}
			}
		}
	}
}
