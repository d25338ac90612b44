package query_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"testing"

	"github.com/quoin-dev/quoin/internal/query"
)

func TestCSV(t *testing.T) {
	result := &query.Result{
		Columns: []query.Column{{Name: "name", Type: query.String}, {Name: "=sum", Type: query.Number}, {Name: "at", Type: query.Time}, {Name: "ok", Type: query.Boolean}},
		Rows: [][]any{
			{`say "hi", all`, json.Number("-1.50"), "2026-01-01T00:00:00.000", true},
			{"", nil, nil, false},
			{nil, json.Number("0"), "=NOW()", nil},
			{"=1+1", nil, nil, nil},
			{"+1", nil, nil, nil},
			{"-1", nil, nil, nil},
			{"@x", nil, nil, nil},
			{"\t=1", nil, nil, nil},
			{"a\nb", nil, nil, nil},
			{" a ", nil, nil, nil},
			{"Zürich", nil, nil, nil},
		},
	}
	const want = "name,'=sum,at,ok\r\n" +
		"\"say \"\"hi\"\", all\",-1.50,2026-01-01T00:00:00.000,true\r\n" +
		"\"\",,,false\r\n" +
		",0,'=NOW(),\r\n" +
		"'=1+1,,,\r\n" +
		"'+1,,,\r\n" +
		"'-1,,,\r\n" +
		"'@x,,,\r\n" +
		"'\t=1,,,\r\n" +
		"\"a\nb\",,,\r\n" +
		"\" a \",,,\r\n" +
		"Zürich,,,\r\n"
	out := &bytes.Buffer{}
	if err := query.WriteCSV(out, result); err != nil || out.String() != want {
		t.Errorf("%v\n%q\n%q", err, out, want)
	}
	checkCSV(t, result)
	one := &query.Result{Columns: []query.Column{{Name: "a", Type: query.String}}, Rows: [][]any{{nil}, {"x"}}}
	checkCSV(t, one)
	if err := query.WriteCSV(failing{}, one); !errors.Is(err, errFull) {
		t.Error(err)
	}
}

var errFull = errors.New("no space left")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

// checkCSV reads a result that was written as CSV: each row has a value for each column.
func checkCSV(t *testing.T, result *query.Result) {
	t.Helper()
	if len(result.Columns) == 0 {
		return
	}
	out := &bytes.Buffer{}
	if err := query.WriteCSV(out, result); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(out).ReadAll()
	if err != nil || len(records) != 1+len(result.Rows) {
		t.Fatalf("%d records for %d rows: %v", len(records), len(result.Rows), err)
	}
	for _, record := range records {
		if len(record) != len(result.Columns) {
			t.Fatalf("%d values for %d columns", len(record), len(result.Columns))
		}
	}
}
