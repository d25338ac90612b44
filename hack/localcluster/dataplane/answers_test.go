package dataplane

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// queries are answered alike by both versions. Those of several parts begin with
// a bracket or compare date ranges.
var queries = map[string]string{
	"measures by dimension": `{"measures": ["orders.count", "orders.total_amount"], "dimensions": ["orders.status"], "order": {"orders.status": "asc"}}`,
	"a measure":             `{"measures": ["orders.count"]}`,
	"rows":                  `{"dimensions": ["orders.status", "orders.created_at"], "order": {"orders.created_at": "desc"}, "limit": 3, "offset": 2}`,
	"a date range": `{"measures": ["orders.count"], "timeDimensions": [{"dimension": "orders.created_at",
		"dateRange": ["2026-01-10", "2026-01-20"]}]}`,
	"days, with those without orders": `{"measures": ["orders.total_amount"], "timeDimensions": [{"dimension": "orders.created_at",
		"granularity": "day", "dateRange": ["2026-03-25", "2026-04-02"]}], "timezone": "Europe/Zurich"}`,
	"months by status": `{"measures": ["orders.count"], "dimensions": ["orders.status"], "timeDimensions": [{"dimension": "orders.created_at",
		"granularity": "month"}], "order": [["orders.created_at", "asc"], ["orders.status", "desc"]]}`,
	"a dimension with and without granularity": `{"dimensions": ["orders.created_at"], "timeDimensions": [{"dimension": "orders.created_at",
		"granularity": "hour"}], "order": {"orders.created_at": "asc"}, "limit": 2}`,
	"filters": `{"measures": ["orders.count"], "dimensions": ["orders.status"], "filters": [
		{"member": "orders.status", "operator": "equals", "values": ["shipped", "completed"]},
		{"or": [{"member": "orders.total_amount", "operator": "gt", "values": ["24000"]}, {"member": "orders.count", "operator": "lt", "values": ["5"]}]}]}`,
	"a total":               `{"dimensions": ["orders.status"], "limit": 1, "total": true, "order": {"orders.status": "asc"}}`,
	"no rows":               `{"dimensions": ["orders.status"], "filters": [{"member": "orders.status", "operator": "equals", "values": ["lost"]}]}`,
	"no rows to count":      `{"measures": ["orders.count", "orders.total_amount"], "filters": [{"member": "orders.status", "operator": "equals", "values": ["lost"]}]}`,
	"compact":               `{"measures": ["orders.count"], "dimensions": ["orders.status"], "order": {"orders.status": "asc"}, "responseFormat": "compact"}`,
	"compact without rows":  `{"dimensions": ["orders.status"], "limit": 0, "responseFormat": "compact"}`,
	"compact, with a month": `{"measures": ["orders.count"], "timeDimensions": [{"dimension": "orders.created_at", "granularity": "month"}], "responseFormat": "compact"}`,
	"two date ranges": `{"measures": ["orders.count"], "timeDimensions": [{"dimension": "orders.created_at", "granularity": "month",
		"compareDateRange": [["2026-01-01", "2026-01-31"], ["2026-02-01", "2026-02-28"]]}]}`,
	"blended": `[{"measures": ["orders.count"], "timeDimensions": [{"dimension": "orders.created_at", "granularity": "week",
		"dateRange": ["2026-01-05", "2026-01-18"]}]},
		{"measures": ["orders.total_amount"], "timeDimensions": [{"dimension": "orders.created_at", "granularity": "week",
		"dateRange": ["2026-01-05", "2026-01-18"]}]}]`,
	"a member that does not exist": `{"measures": ["orders.profit"]}`,
	"no query":                     `{}`,
}

// otherSQL are queries for which the newer version makes other SQL: it converts
// times without granularity to the time zone too.
var otherSQL = []string{"rows", "a dimension with and without granularity"}

// testAnswers compares answers of two versions of the server: one makes them
// itself, the other with the stand-in.
func testAnswers(t *testing.T, older, newer server) {
	caller := token(t, map[string]any{})
	compare := func(t *testing.T, part, route, query string, parameters ...string) {
		t.Helper()
		wantStatus, want := older.ask(t, route, caller, query, parameters...)
		status, got := newer.ask(t, route, caller, query, parameters...)
		if status != wantStatus || text(t, got, part) != text(t, want, part) {
			t.Errorf("%s answers %d\n%s\n%s answers %d\n%s", newest, status, text(t, got, part), previous, wantStatus, text(t, want, part))
		}
	}
	for name, query := range queries {
		t.Run(name, func(t *testing.T) {
			// The older version changes the query of the first result.
			compare(t, "pivotQuery", "load", query, "queryType", "multi")
			compare(t, "results.data", "load", query, "queryType", "multi")
			if !strings.HasPrefix(query, "[") && !strings.Contains(query, "compareDateRange") {
				compare(t, "", "load", query)
				if !slices.Contains(otherSQL, name) {
					compare(t, "sql.sql", "sql", query)
				}
			}
		})
	}
	t.Run("metadata", func(t *testing.T) { compare(t, "", "meta", "") })
	t.Run("a hidden member", func(t *testing.T) {
		for _, s := range []server{older, newer} {
			_, body := s.ask(t, "load", caller, `{"dimensions": ["orders.id"]}`)
			if message, _ := body["error"].(string); !strings.Contains(message, "You requested hidden member: 'orders__id'") {
				t.Errorf("got %v", body)
			}
		}
	})
	t.Run("columnar", func(t *testing.T) {
		_, body := newer.ask(t, "load", caller, strings.Replace(queries["compact"], "compact", "columnar", 1))
		if got, want := text(t, body, "data"), `{"columns":[["completed","processing","shipped"],["100","100","100"]],"members":["orders.status","orders.count"]}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// text returns a part of an answer as JSON without the differences of the
// versions. Errors are returned whole.
func text(t *testing.T, body any, part string) string {
	t.Helper()
	out, err := json.Marshal(partOf(withoutDifferences(body), part))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// partOf returns the value at a path, in each element of arrays.
func partOf(value any, path string) any {
	if array, ok := value.([]any); ok && path != "" {
		parts := []any{}
		for _, element := range array {
			parts = append(parts, partOf(element, path))
		}
		return parts
	}
	object, ok := value.(map[string]any)
	if _, isError := object["error"]; !ok || isError || path == "" {
		return value
	}
	key, rest, _ := strings.Cut(path, ".")
	return partOf(object[key], rest)
}

// withoutDifferences removes the time of an answer and what only newer versions
// have, and replaces rows of the compact format by objects: the order of their
// members differs.
func withoutDifferences(value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = withoutDifferences(value[i])
		}
	case map[string]any:
		if dataset, ok := value["dataset"].([]any); ok {
			members, _ := value["members"].([]any)
			return objects(members, dataset)
		}
		maps.DeleteFunc(value, isDifference)
		for key := range value {
			value[key] = withoutDifferences(value[key])
		}
	}
	return value
}

func isDifference(key string, value any) bool {
	switch key {
	case "lastRefreshTime", "cacheMode", "formatDescription", "folders", "nestedFolders", "stack":
		return true
	case "granularity": // the older version has it only in queries
		_, isObject := value.(map[string]any)
		return isObject
	case "total": // null in the older version if the query does not ask for it
		return value == nil
	default:
		return false
	}
}

func objects(members, dataset []any) any {
	rows := []any{}
	for _, values := range dataset {
		row := map[string]any{}
		for i, value := range values.([]any) {
			row[members[i].(string)] = value
		}
		rows = append(rows, row)
	}
	return rows
}
