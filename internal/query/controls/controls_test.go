package controls_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/internal/query/controls"
)

var members = map[string]controls.Member{
	"orders.count":      {Kind: controls.Measure, Type: "number"},
	"orders.total":      {Kind: controls.Measure, Type: "number"},
	"orders.status":     {Kind: controls.Dimension, Type: "string"},
	"orders.country":    {Kind: controls.Dimension, Type: "string"},
	"orders.price":      {Kind: controls.Dimension, Type: "number"},
	"orders.paid":       {Kind: controls.Dimension, Type: "boolean"},
	"orders.created_at": {Kind: controls.Dimension, Type: "time"},
	"orders.shipped_at": {Kind: controls.Dimension, Type: "time"},
	"users.name":        {Kind: controls.Dimension, Type: "string"},
}

const report = `{"measures":["orders.count"],"dimensions":["orders.status"],"timeDimensions":[{"dimension":"orders.created_at","granularity":"month","dateRange":["2026-01-01","2026-12-31"]}],` +
	`"filters":[{"member":"orders.status","operator":"notEquals","values":["lost"]}],"order":[["orders.created_at","asc"],["orders.status","desc"]],"limit":100,"own":{"kept":1.50}}`

// apply applies controls to a query, and returns what is different in it and the outcomes.
func apply(t *testing.T, query string, c controls.Controls) (map[string]any, *controls.Applied) {
	t.Helper()
	got, err := controls.Apply(json.RawMessage(query), c, members)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, got.Query), got
}

func parsed(t *testing.T, text json.RawMessage) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

func list(t *testing.T, text string) any {
	t.Helper()
	var out any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFilters(t *testing.T) {
	const own = `{"member":"orders.status","operator":"notEquals","values":["lost"]}`
	for name, tc := range map[string]struct {
		filter controls.Filter
		want   string // filters that are added
	}{
		"equals by default":   {controls.Filter{Member: "orders.status", Value: "a"}, `{"member":"orders.status","operator":"equals","values":["a"]}`},
		"several values":      {controls.Filter{Member: "orders.status", Operator: "not_equals", Value: []any{"a", 1.5, true, json.Number("7")}}, `{"member":"orders.status","operator":"notEquals","values":["a","1.5","true","7"]}`},
		"cleared":             {controls.Filter{Member: "orders.status"}, ``},
		"greater":             {controls.Filter{Member: "orders.price", Operator: "greater_than", Value: 2.0}, `{"member":"orders.price","operator":"gt","values":["2"]}`},
		"less or equal":       {controls.Filter{Member: "orders.count", Operator: "less_than_or_equal", Value: "3"}, `{"member":"orders.count","operator":"lte","values":["3"]}`},
		"after a time":        {controls.Filter{Member: "orders.created_at", Operator: "greater_than", Value: "2026-02-03"}, `{"member":"orders.created_at","operator":"afterDate","values":["2026-02-03"]}`},
		"before or at a time": {controls.Filter{Member: "orders.created_at", Operator: "less_than_or_equal", Value: "2026-02-03"}, `{"member":"orders.created_at","operator":"beforeOrOnDate","values":["2026-02-03"]}`},
		"contains":            {controls.Filter{Member: "orders.status", Operator: "contains", Value: "a"}, `{"member":"orders.status","operator":"contains","values":["a"]}`},
		"does not start":      {controls.Filter{Member: "orders.status", Operator: "not_starts_with", Value: "a"}, `{"member":"orders.status","operator":"notStartsWith","values":["a"]}`},
		"null":                {controls.Filter{Member: "orders.price", Operator: "is_null"}, `{"member":"orders.price","operator":"notSet"}`},
		"not null":            {controls.Filter{Member: "orders.created_at", Operator: "is_not_null"}, `{"member":"orders.created_at","operator":"set"}`},
		"empty":               {controls.Filter{Member: "orders.status", Operator: "is_empty"}, `{"member":"orders.status","operator":"equals","values":[""]}`},
		"not empty":           {controls.Filter{Member: "orders.status", Operator: "is_not_empty"}, `{"member":"orders.status","operator":"notEquals","values":[""]}`},
		"between numbers":     {controls.Filter{Member: "orders.price", Operator: "between", Value: []any{1.0, 2.0}}, `{"member":"orders.price","operator":"gte","values":["1"]},{"member":"orders.price","operator":"lte","values":["2"]}`},
		"between, exclusive": {
			controls.Filter{Member: "orders.price", Operator: "between", Value: []any{1.0, 2.0}, StartInclusive: ptr.To(false), EndInclusive: ptr.To(false)},
			`{"member":"orders.price","operator":"gt","values":["1"]},{"member":"orders.price","operator":"lt","values":["2"]}`,
		},
		"between times": {controls.Filter{Member: "orders.created_at", Operator: "between", Value: []any{"2026-01-01", "2026-01-31"}}, `{"member":"orders.created_at","operator":"inDateRange","values":["2026-01-01","2026-01-31"]}`},
		"between times, without the end": {
			controls.Filter{Member: "orders.created_at", Operator: "between", Value: []any{"2026-01-01", "2026-01-31"}, EndInclusive: ptr.To(false)},
			`{"member":"orders.created_at","operator":"afterOrOnDate","values":["2026-01-01"]},{"member":"orders.created_at","operator":"beforeDate","values":["2026-01-31"]}`,
		},
		"a day":        {controls.Filter{Member: "orders.created_at", Value: "2026-01-05"}, `{"member":"orders.created_at","operator":"inDateRange","values":["2026-01-05","2026-01-05"]}`},
		"days":         {controls.Filter{Member: "orders.created_at", Value: []any{"2026-01-05", "2026-01-07"}}, `{"or":[{"member":"orders.created_at","operator":"inDateRange","values":["2026-01-05","2026-01-05"]},{"member":"orders.created_at","operator":"inDateRange","values":["2026-01-07","2026-01-07"]}]}`},
		"not on a day": {controls.Filter{Member: "orders.created_at", Operator: "not_equals", Value: "2026-01-05"}, `{"member":"orders.created_at","operator":"notInDateRange","values":["2026-01-05","2026-01-05"]}`},
		"a time":       {controls.Filter{Member: "orders.created_at", Value: "2026-01-05T10:00:00"}, `{"member":"orders.created_at","operator":"equals","values":["2026-01-05T10:00:00"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, applied := apply(t, report, controls.Controls{Filters: []controls.Filter{tc.filter}})
			want := own
			if tc.want != "" {
				want += "," + tc.want
			}
			if diff := cmp.Diff(list(t, "["+want+"]"), got["filters"]); diff != "" {
				t.Error(diff)
			}
			if o := applied.Outcomes; len(o) != 1 || !o[0].Applied || o[0].Reason != "" {
				t.Error(o)
			}
			// Nothing else changes.
			before := parsed(t, json.RawMessage(report))
			delete(before, "filters")
			delete(got, "filters")
			if diff := cmp.Diff(before, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRangesInWords(t *testing.T) {
	got, applied := apply(t, report, controls.Controls{Filters: []controls.Filter{{Member: "orders.created_at", Operator: "custom", Value: "last 7 days"}}})
	want := list(t, `[{"dimension":"orders.created_at","granularity":"month","dateRange":["2026-01-01","2026-12-31"]},{"dimension":"orders.created_at","dateRange":"last 7 days"}]`)
	if diff := cmp.Diff(want, got["timeDimensions"]); diff != "" || !applied.Outcomes[0].Applied {
		t.Error(diff, applied.Outcomes)
	}
}

func TestCase(t *testing.T) {
	for _, tc := range []struct {
		operator  string
		sensitive bool
		want      string
	}{
		{"contains", true, "the data API compares without regard to case"},
		{"contains", false, ""},
		{"equals", true, ""},
		{"equals", false, "the data API compares with regard to case"},
	} {
		_, applied := apply(t, report, controls.Controls{Filters: []controls.Filter{{Member: "orders.status", Operator: tc.operator, Value: "a", CaseSensitive: &tc.sensitive}}})
		if o := applied.Outcomes[0]; !o.Applied || o.Reason != tc.want {
			t.Errorf("%s %t: %+v", tc.operator, tc.sensitive, o)
		}
	}
}

func TestSkipped(t *testing.T) {
	filter := func(f controls.Filter) controls.Controls { return controls.Controls{Filters: []controls.Filter{f}} }
	grain := func(member, grain string) controls.Controls {
		return controls.Controls{Grains: []controls.Grain{{Member: member, Grain: grain}}}
	}
	replace := func(member, selected string) controls.Controls {
		return controls.Controls{Switchers: []controls.Switcher{{Member: member, Selected: selected}}}
	}
	for want, c := range map[string]controls.Controls{
		"the query does not use users":                                                            filter(controls.Filter{Member: "users.name", Value: "x"}),
		"operator contains is not for members of type number":                                     filter(controls.Filter{Member: "orders.price", Operator: "contains", Value: "x"}),
		"operator custom is not for members of type string":                                       filter(controls.Filter{Member: "orders.status", Operator: "custom", Value: "last week"}),
		"operator between is not for members of type boolean":                                     filter(controls.Filter{Member: "orders.paid", Operator: "between", Value: []any{"a", "b"}}),
		"the type of the member is not known: it does not exist or is not visible":                filter(controls.Filter{Member: "orders.secret", Operator: "greater_than", Value: "x"}),
		"the query does not use the member":                                                       grain("orders.shipped_at", "day"),
		"the query does not return the member":                                                    replace("orders.price", "country"),
		"member orders.secret does not exist or is not visible":                                   replace("orders.status", "secret"),
		"orders.status is a dimension of type string, and orders.total a measure of type number":  replace("orders.status", "total"),
		"orders.created_at is a dimension of type time, and orders.country a dimension of type s": replace("orders.created_at", "country"),
		"the query returns orders.count already":                                                  {Switchers: []controls.Switcher{{Member: "orders.total", Selected: "count"}}},
	} {
		query := report
		if strings.Contains(want, "already") {
			query = strings.Replace(report, `["orders.count"]`, `["orders.total","orders.count"]`, 1)
		}
		got, applied := apply(t, query, c)
		if o := applied.Outcomes; len(o) != 1 || o[0].Applied || !strings.HasPrefix(o[0].Reason, want) {
			t.Errorf("got %+v, want %q", o, want)
		}
		if diff := cmp.Diff(parsed(t, json.RawMessage(query)), got); diff != "" {
			t.Errorf("%s: the query is changed: %s", want, diff)
		}
	}
	const ungrouped = `{"timeDimensions":[{"dimension":"orders.created_at","dateRange":"last week"}]}`
	if _, applied := apply(t, ungrouped, grain("orders.created_at", "day")); applied.Outcomes[0].Applied {
		t.Error(applied.Outcomes)
	}
}

func TestGrains(t *testing.T) {
	got, applied := apply(t, report, controls.Controls{Grains: []controls.Grain{{Member: "orders.created_at", Grain: "week"}}})
	if diff := cmp.Diff(list(t, `[{"dimension":"orders.created_at","granularity":"week","dateRange":["2026-01-01","2026-12-31"]}]`), got["timeDimensions"]); diff != "" || !applied.Outcomes[0].Applied {
		t.Error(diff, applied.Outcomes)
	}
	if diff := cmp.Diff(map[string]string{"orders.created_at.week": "orders.created_at.month"}, applied.Names); diff != "" {
		t.Error(diff)
	}
}

// TestSwitchers: the result has another member under the name of the one that the report returns, and keeps the filters of
// the report.
func TestSwitchers(t *testing.T) {
	got, applied := apply(t, report, controls.Controls{
		Switchers: []controls.Switcher{{Member: "orders.status", Selected: "country"}, {Member: "orders.count", Selected: "total"}, {Member: "orders.created_at", Selected: "shipped_at"}},
		Grains:    []controls.Grain{{Member: "orders.shipped_at", Grain: "day"}},
	})
	want := list(t, `{"measures":["orders.total"],"dimensions":["orders.country"],"timeDimensions":[{"dimension":"orders.shipped_at","granularity":"day"},{"dimension":"orders.created_at","dateRange":["2026-01-01","2026-12-31"]}],`+
		`"filters":[{"member":"orders.status","operator":"notEquals","values":["lost"]}],"order":[["orders.shipped_at","asc"],["orders.country","desc"]],"limit":100,"own":{"kept":1.50}}`)
	if diff := cmp.Diff(want, any(got)); diff != "" {
		t.Error(diff)
	}
	for _, o := range applied.Outcomes {
		if !o.Applied {
			t.Error(o)
		}
	}
	names := map[string]string{
		"orders.country": "orders.status", "orders.total": "orders.count", "orders.shipped_at": "orders.created_at",
		"orders.shipped_at.month": "orders.created_at.month", "orders.shipped_at.day": "orders.created_at.month",
	}
	if diff := cmp.Diff(names, applied.Names); diff != "" {
		t.Error(diff)
	}
	for order, want := range map[string]string{
		`{"orders.status":"asc"}`:                `{"orders.country":"asc"}`,
		`[{"id":"orders.status","desc":true}]`:   `[{"id":"orders.country","desc":true}]`,
		`[["orders.status","asc"],[],"x",null]`:  `[["orders.country","asc"],[],"x",null]`,
		`{"orders.count":"asc","users.name":""}`: `{"orders.count":"asc","users.name":""}`,
	} {
		got, _ := apply(t, `{"dimensions":["orders.status"],"order":`+order+`}`, controls.Controls{Switchers: []controls.Switcher{{Member: "orders.status", Selected: "country"}}})
		if diff := cmp.Diff(list(t, want), got["order"]); diff != "" {
			t.Error(diff)
		}
	}
	_, applied = apply(t, report, controls.Controls{Switchers: []controls.Switcher{{Member: "orders.status", Selected: "status"}}})
	if !applied.Outcomes[0].Applied || len(applied.Names) != 0 {
		t.Error("the member of the report itself", applied)
	}
}

func TestInvalidControls(t *testing.T) {
	filter := func(f controls.Filter) controls.Controls {
		return controls.Controls{Filters: []controls.Filter{{Member: "a.b"}, f}}
	}
	for want, c := range map[string]controls.Controls{
		`filters[1].member: "x"; expected <view>.<member>`:                        filter(controls.Filter{Member: "x"}),
		`filters[1].operator: "like"; allowed: between, contains, custom, `:       filter(controls.Filter{Member: "a.b", Operator: "like"}),
		`filters[1].value: operator equals needs a value`:                         filter(controls.Filter{Member: "a.b", Operator: "equals"}),
		`filters[1].value: operator between needs 2 value(s), and has 1`:          filter(controls.Filter{Member: "a.b", Operator: "between", Value: []any{"a"}}),
		`filters[1].value: operator greater_than needs 1 value(s), and has 2`:     filter(controls.Filter{Member: "a.b", Operator: "greater_than", Value: []any{"a", "b"}}),
		`filters[1].value[1]: expected a string, number or boolean`:               filter(controls.Filter{Member: "a.b", Value: []any{"a", nil}}),
		`filters[1].value: expected a string, number or boolean`:                  filter(controls.Filter{Member: "a.b", Value: map[string]any{}}),
		`filters[1].value: 1001 values; allowed: 1000`:                            filter(controls.Filter{Member: "a.b", Value: make([]any, 1001)}),
		`timeGrains[0].grain: "1 day"; expected a granularity`:                    {Grains: []controls.Grain{{Member: "a.b", Grain: "1 day"}}},
		`timeGrains[0].member: ""; expected <view>.<member>`:                      {Grains: []controls.Grain{{Grain: "day"}}},
		`memberSwitchers[0].selected: "a.c"; expected the name of a member witho`: {Switchers: []controls.Switcher{{Member: "a.b", Selected: "a.c"}}},
		`memberSwitchers[0].member: "{\"expr\": 1}"; expected <view>.<member>`:    {Switchers: []controls.Switcher{{Member: `{"expr": 1}`, Selected: "c"}}},
	} {
		_, err := controls.Apply(json.RawMessage(report), c, members)
		var invalid *controls.InvalidError
		if !errors.As(err, &invalid) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for query, want := range map[string]string{
		`[]`: "query: expected a JSON object", `null`: "query: expected a JSON object", `{"filters":1}`: "query.filters: not that of a query of /v1/load",
	} {
		if _, err := controls.Apply(json.RawMessage(query), controls.Controls{}, nil); fmt.Sprint(err) != want {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestSkip(t *testing.T) {
	c := controls.Controls{Filters: make([]controls.Filter, 1), Grains: make([]controls.Grain, 1), Switchers: make([]controls.Switcher, 1)}
	got := controls.Skip(c, "why")
	want := []controls.Outcome{{Control: "memberSwitchers[0]", Reason: "why"}, {Control: "timeGrains[0]", Reason: "why"}, {Control: "filters[0]", Reason: "why"}}
	if diff := cmp.Diff(want, got); diff != "" || c.Empty() || !(controls.Controls{}).Empty() {
		t.Error(diff)
	}
}

// FuzzApply: a query keeps its filters, whatever the controls are.
func FuzzApply(f *testing.F) {
	f.Add(report, `{"filters":[{"member":"orders.status","value":"x"}],"timeGrains":[{"member":"orders.created_at","grain":"day"}],"memberSwitchers":[{"member":"orders.status","selected":"country"}]}`)
	f.Add(`{"order":{"a.b":1},"timeDimensions":[{}]}`, `{"filters":[{"member":"a.b","operator":"is_null"}]}`)
	f.Fuzz(func(t *testing.T, query, text string) {
		var c controls.Controls
		if json.Unmarshal([]byte(text), &c) != nil {
			return
		}
		applied, err := controls.Apply(json.RawMessage(query), c, members)
		if err != nil {
			return
		}
		if len(applied.Outcomes) != len(c.Filters)+len(c.Grains)+len(c.Switchers) {
			t.Fatal(applied.Outcomes)
		}
		var before, after struct {
			Filters []json.RawMessage `json:"filters"`
		}
		if json.Unmarshal([]byte(query), &before) != nil || json.Unmarshal(applied.Query, &after) != nil || len(after.Filters) < len(before.Filters) {
			t.Fatalf("%s: %s", query, applied.Query)
		}
	})
}
