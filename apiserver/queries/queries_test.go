package queries

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/quoin-dev/quoin/internal/query"
	"github.com/quoin-dev/quoin/internal/query/controls"
	"github.com/quoin-dev/quoin/internal/serving/deadlinetest"
)

func TestAccept(t *testing.T) {
	for header, want := range map[string]string{
		"": "application/json", "*/*": "application/json", "application/*": "application/json", "text/*": "text/csv", "text/csv": "text/csv",
		"application/json;q=0.5, text/csv":                    "text/csv",
		"text/csv;q=0.1, */*;q=0.5":                           "application/json",
		"application/json;q=0, */*":                           "text/csv",
		"Text/CSV; charset=utf-8":                             "text/csv",
		"application/vnd.apache.arrow.stream, text/csv;q=0.9": "application/vnd.apache.arrow.stream",
		"text/html,application/xhtml+xml,*/*;q=0.8":           "application/json",
		"application/xml":                                     "", "text/csv;q=0": "", "text/csv;q=x": "", "/": "", ",": "",
	} {
		got, err := accepted(header)
		if (err == nil) != (want != "") || err == nil && got.name != want {
			t.Errorf("%q: %q, %v", header, got.name, err)
		}
	}
}

func TestFileName(t *testing.T) {
	for name, want := range map[string]string{
		"Sales 2026": "Sales-2026", "": "report", "../..": "report", "a\"\r\nb": "a---b", "Zürich": "Z-rich", "日本": "report",
	} {
		if got := fileName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// TestProblems: what went wrong in the data plane, in the caller's request and in Quoin have different statuses.
func TestProblems(t *testing.T) {
	server := func(status int, message string) error {
		return &query.ServerError{Status: status, Message: message, RequestID: "x"}
	}
	for name, tc := range map[string]struct {
		err  error
		want int
	}{
		"rejected in a line": {server(200, "no such table"), 400},
		"rejected":           {server(400, "no such member"), 400},
		"hidden member":      {server(500, "You requested hidden member: 'a.b'."), 403},
		"denied":             {server(403, "x"), 403},
		"token refused":      {server(401, "x"), 502},
		"no such host":       {server(404, "x"), 502},
		"too many":           {server(429, "x"), 429},
		"model":              {server(500, "Compile errors"), 502},
		"no pod":             {server(503, "x"), 503},
		"rows":               {&query.LimitError{Limit: "rows", Allowed: "1"}, 400},
		"bytes":              {&query.LimitError{Limit: "bytes", Allowed: "1"}, 400},
		"duration":           {&query.LimitError{Limit: "duration", Allowed: "1s"}, 504},
		"memory":             {query.ErrBusy, 503},
		"no answer":          {&query.UnavailableError{Reason: "x"}, 502},
		"time zone":          {&query.InvalidError{Field: "timezone", Reason: "x"}, 400},
		"control":            {&controls.InvalidError{Path: "filters[0]", Reason: "x"}, 400},
		"later":              {later(http.StatusTooManyRequests, "x"), 429},
		"ended":              {errEnded, 401},
		"wrapped":            {fmt.Errorf("x: %w", server(200, "x")), 400},
		"unknown":            {errors.New("secret"), 500},
	} {
		if p := problem(context.Background(), tc.err); p.GetStatus() != tc.want || p.Message == "secret" {
			t.Errorf("%s: %d %s", name, p.GetStatus(), p.Message)
		}
	}
}

// TestSlowReaders: a client that reads a result slowly does not keep its memory for longer than a run may last.
func TestSlowReaders(t *testing.T) {
	for name, tc := range map[string]struct {
		left      time.Duration
		isLimited bool
	}{"at the beginning": {MaxDuration + writeTimeout, false}, "at the end": {writeTimeout / 2, true}, "after it": {-time.Second, true}} {
		w := deadlinetest.NewRecorder()
		until := time.Now().Add(tc.left)
		r := &response{ResponseWriter: w, control: http.NewResponseController(w), until: until}
		if _, err := r.Write([]byte("row")); err != nil {
			t.Fatal(err)
		}
		if w.WriteDeadline.Equal(until) != tc.isLimited || w.WriteDeadline.After(until) {
			t.Errorf("%s: the deadline is %s before the end of the response", name, until.Sub(w.WriteDeadline))
		}
	}
}

// TestArrow: columns have the type of their values; what does not fit it becomes text or a floating-point number.
func TestArrow(t *testing.T) {
	n := func(text string) any { return json.Number(text) }
	columns := []query.Column{
		{Name: "text", Type: query.String}, {Name: "whole", Type: query.Integer}, {Name: "huge", Type: query.Integer}, {Name: "share", Type: query.Number},
		{Name: "paid", Type: query.Boolean}, {Name: "at", Type: query.Time}, {Name: "odd", Type: query.Time},
	}
	result := &query.Result{Columns: columns, TimeZone: "Europe/Zurich", LimitReached: true}
	for range arrowRows {
		result.Rows = append(result.Rows, []any{"a", n("-3"), n("1"), n("0.25"), true, "2026-01-02T03:04:05.678", "2026-01-02T03:04:05.000"})
	}
	result.Rows = append(result.Rows, []any{nil, nil, n("99999999999999999999"), nil, nil, nil, "tomorrow"})
	text := &bytes.Buffer{}
	out := bufio.NewWriter(text)
	if err := errors.Join(writeArrow(out, result, nil), out.Flush()); err != nil {
		t.Fatal(err)
	}
	stream, err := ipc.NewReader(text)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Release()
	var types []string
	for _, f := range stream.Schema().Fields() {
		types = append(types, f.Name+" "+f.Type.String())
	}
	if got, want := fmt.Sprint(types), "[text utf8 whole int64 huge float64 share float64 paid bool at timestamp[ms] odd utf8]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if zone, _ := stream.Schema().Metadata().GetValue("timeZone"); zone != "Europe/Zurich" {
		t.Error(zone)
	}
	var batches []int64
	var last []string
	for stream.Next() {
		batch := stream.RecordBatch()
		batches, last = append(batches, batch.NumRows()), nil
		for _, column := range batch.Columns() {
			last = append(last, column.ValueStr(0))
		}
	}
	if got, want := fmt.Sprint(batches, last, stream.Err()), "[8192 1] [(null) (null) 1e+20 (null) (null) (null) tomorrow] <nil>"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	empty := &bytes.Buffer{}
	out = bufio.NewWriter(empty)
	if err := errors.Join(writeArrow(out, &query.Result{Columns: columns}, nil), out.Flush()); err != nil {
		t.Fatal(err)
	}
	if stream, err := ipc.NewReader(empty); err != nil || stream.Next() || len(stream.Schema().Fields()) != len(columns) {
		t.Error(err)
	}
}
