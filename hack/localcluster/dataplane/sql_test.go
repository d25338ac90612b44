package dataplane

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// post sends a request with a JSON body, and returns the status and the text of
// the answer.
func (s server) post(t *testing.T, route, token string, body any) (int, string) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+route, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Request-Id", "test-span-1")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

// sql runs SQL, and returns the lines of the answer without the time of the
// data.
func (s server) sql(t *testing.T, token, statement string) []string {
	t.Helper()
	status, answer := s.post(t, "cubesql", token, map[string]string{"query": statement, "timezone": "UTC"})
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", statement, status, answer)
	}
	schema, rows, _ := strings.Cut(answer, "\n")
	if before, _, found := strings.Cut(schema, `,"lastRefreshTime"`); found {
		schema = before + "}"
	}
	return strings.Split(strings.TrimSpace(schema+"\n"+rows), "\n")
}

// testSQL: the stand-in answers simple SQL with the server's own queries, and
// refuses other SQL in a line of the answer, as the addon does.
func testSQL(t *testing.T, s server) {
	caller := token(t, map[string]any{})
	for statement, want := range map[string][]string{
		"SELECT status, MEASURE(count) AS n, MEASURE(total_amount) AS total FROM orders GROUP BY 1 ORDER BY 1 LIMIT 2": {
			`{"schema":[{"name":"status","column_type":"String"},{"name":"n","column_type":"Int64"},{"name":"total","column_type":"Double"}]}`,
			`{"data":[["completed","100",`, `["processing","100",`,
		},
		"SELECT MEASURE(count) FROM orders WHERE status IN ('shipped', 'completed')": {
			`{"schema":[{"name":"measure(count)","column_type":"Int64"}]}`, `{"data":[["200"]]}`,
		},
		"SELECT DATE_TRUNC('month', created_at) AS month, MEASURE(count) AS n FROM orders WHERE created_at >= '2026-01-01' AND created_at < '2026-02-01' GROUP BY 1": {
			`{"schema":[{"name":"month","column_type":"Timestamp"},{"name":"n","column_type":"Int64"}]}`, `{"data":[["2026-01-01T00:00:00.000",`,
		},
		"SELECT status FROM orders WHERE status = 'lost' GROUP BY 1": {`{"schema":[{"name":"status","column_type":"String"}]}`, `{"data":[]}`},
		"SELECT id FROM orders": {`{"error":"SQL: column 'id' not found in 'orders'"`},
		"SELECT 1":              {`{"error":"\"1\" instead of a column in SQL needs Cube's native addon, which this image does not have"`},
	} {
		got := strings.Join(s.sql(t, caller, statement), "\n")
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: got\n%s\nwant %s", statement, got, part)
			}
		}
	}
	const convertible, other = "SELECT status FROM orders GROUP BY 1", "SELECT COUNT(*) FROM orders"
	for statement, want := range map[string]string{convertible: `"status":"ok"`, other: `"status":"error"`} {
		status, answer := s.post(t, "convert-query", caller, map[string]string{"input": "sql", "output": "rest", "query": statement})
		if status == http.StatusNotFound { // added in 1.2
			continue
		}
		if status != http.StatusOK || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s", statement, status, answer)
		}
	}
}

// testSQLAccess: people with other attributes and groups get other rows of the
// same statement, and members that they do not see do not exist.
func testSQLAccess(t *testing.T, s server) {
	const countries, names = "SELECT country FROM customers GROUP BY 1 ORDER BY 1", "SELECT name FROM customers LIMIT 1"
	for who, tc := range map[string]struct {
		token, rows string
		mayName     bool
	}{
		"a Swiss analyst":  {token: person(t, map[string]any{"country": "CH"}, "Analysts"), rows: `{"data":[["CH"]]}`},
		"a German analyst": {token: person(t, map[string]any{"country": "DE"}, "Analysts"), rows: `{"data":[["DE"]]}`},
		"a manager":        {token: person(t, map[string]any{"trusted": true}, "Managers"), rows: `{"data":[["CH"],["DE"],["FR"]]}`, mayName: true},
	} {
		want := []string{`{"schema":[{"name":"country","column_type":"String"}]}`, tc.rows}
		if got := s.sql(t, tc.token, countries); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", who, got, want)
		}
		got := strings.Join(s.sql(t, tc.token, names), "\n")
		if strings.Contains(got, `"Customer `) != tc.mayName || strings.Contains(got, "not found") == tc.mayName {
			t.Errorf("%s: %s", who, got)
		}
	}
	if got := s.sql(t, token(t, map[string]any{}), countries); len(got) != 1 || !strings.Contains(got[0], `"error"`) {
		t.Errorf("no person: %q", got)
	}
}
