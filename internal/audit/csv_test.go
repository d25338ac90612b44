package audit

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sequence(events ...Event) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestWriteCSV(t *testing.T) {
	e := Event{
		Time: time.Date(2026, 11, 21, 9, 5, 0, 120_000, time.FixedZone("", 3600)), Name: UpdatedDeploymentConfiguration, Outcome: Succeeded, Reason: `say "yes"`,
		Source: SourceREST, Actor: Actor{ActorKey, "k1", "ada@example.com"}, Deployment: Deployment{"1", "Analytics, first"},
		Object: Object{"Deployment", "demo", "analytics", "1"}, IP: "::1", RequestID: "r1", Changes: json.RawMessage(`{"a":{"before":1,"after":"x\ny"}}`),
	}
	var text strings.Builder
	rows, err := WriteCSV(&text, sequence(e, Event{Actor: Actor{Kind: ActorSystem}}))
	if err != nil || rows != 2 {
		t.Fatal(rows, err)
	}
	want := "time,event,user_email,actor,deployment_id,deployment_name,object,outcome,source,ip,request_id,data\r\n" +
		`2026-11-21T08:05:00.000120Z,Updated deployment configuration,ada@example.com,key:k1,1,"Analytics, first",Deployment/demo/analytics,succeeded,rest,::1,r1,` +
		`"{""reason"":""say \""yes\"""",""objectId"":""1"",""changes"":{""a"":{""before"":1,""after"":""x\ny""}}}"` + "\r\n" +
		"0001-01-01T00:00:00.000000Z,,,system,,,,,,,,{}\r\n"
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Error(diff)
	}
}

func TestNoCellIsAFormula(t *testing.T) {
	for _, dangerous := range []string{"=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "＋1", "－1", "＠x", `=HYPERLINK("http://x","y")`} {
		e := Event{Deployment: Deployment{ID: dangerous, Name: dangerous}, Actor: Actor{Kind: ActorKey, Email: dangerous}, Object: Object{Kind: dangerous}, IP: dangerous, RequestID: dangerous}
		var text strings.Builder
		if _, err := WriteCSV(&text, sequence(e)); err != nil {
			t.Fatal(err)
		}
		records, err := csv.NewReader(strings.NewReader(strings.ReplaceAll(text.String(), "'\r=", "'CR="))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for i, cell := range records[1] {
			if beginsFormula(cell) {
				t.Errorf("column %s holds the formula %q", CSVColumns[i], cell)
			}
		}
		if !strings.HasSuffix(records[1][5], strings.ReplaceAll(dangerous, "\r", "CR")) {
			t.Errorf("%q became %q", dangerous, records[1][5])
		}
	}
}

func TestCellsAreReadAsTheyWereWritten(t *testing.T) {
	for _, text := range []string{"", "plain", "a,b", `a"b`, `"`, "a\nb", " a ", "é, ü", ";x", "'x", strings.Repeat(`",`, 1000)} {
		record := string(endRow(appendCell(appendCell(nil, "x"), text)))
		got, err := csv.NewReader(strings.NewReader(record)).Read()
		if err != nil || len(got) != 2 || got[1] != text {
			t.Errorf("%q was read as %q, %v", text, got, err)
		}
	}
}

func TestWriteCSVReportsErrors(t *testing.T) {
	broken := errors.New("broken")
	rows, err := WriteCSV(&strings.Builder{}, func(yield func(Event, error) bool) { _ = yield(Event{}, nil) && yield(Event{}, broken) })
	if rows != 1 || !errors.Is(err, broken) {
		t.Error(rows, err)
	}
	endless := func(yield func(Event, error) bool) {
		for yield(Event{}, nil) {
		}
	}
	if rows, err := WriteCSV(failingWriter{broken}, endless); rows == 0 || !errors.Is(err, broken) {
		t.Error(rows, err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
