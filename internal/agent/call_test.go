package agent

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
)

// TestCall: a call without the model has the records and the lines of one that a model makes.
func TestCall(t *testing.T) {
	w := newWorld(t)
	if err := w.run.Call(t.Context(), "query", json.RawMessage(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	w.eventsAre(`before query {"a":1}`, "after query 1")
	if got := w.shown(); got != "m1 query {\"a\":1}\nm1 query = [[\"12\"]]" {
		t.Error(got)
	}
	w = newWorld(t)
	if err := w.run.Call(t.Context(), "other", nil); err != nil { // the line has the failure
		t.Fatal(err)
	}
	w.eventsAre("before other ", "after other 0 BadRequestError")
	w = newWorld(t)
	w.beforeErr = errors.New("no database")
	if err := w.run.Call(t.Context(), "query", nil); !errors.Is(err, w.beforeErr) || len(w.lines) > 0 {
		t.Errorf("a call that cannot be recorded: %v, %v", err, w.lines)
	}
	w = newWorld(t)
	w.appendErr = errors.New("the lease is lost")
	if err := w.run.Call(t.Context(), "query", json.RawMessage(`{"a":1}`)); !errors.Is(err, w.appendErr) {
		t.Errorf("a call whose line cannot be stored: %v", err)
	}
	w.eventsAre(`before query {"a":1}`, "after query 0 AbortError")
	w = newWorld(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrAborted)
	if err := w.run.Call(ctx, "query", nil); !errors.Is(err, ErrAborted) {
		t.Error(err)
	}
}
