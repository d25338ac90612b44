package audit_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// changes is the number of changes while a process is killed, callers the number of concurrent callers.
const changes, callers = 10_000, 24

// outcome has the attempted and the acknowledged changes, by user name.
type outcome struct {
	mu                      sync.Mutex
	attempted, acknowledged map[string]bool
}

// provision creates users, one attempt each, while meanwhile runs. done returns the number of attempts so far.
func (w *world) provision(meanwhile func(done func() int)) *outcome {
	o := &outcome{attempted: map[string]bool{}, acknowledged: map[string]bool{}}
	done := func() int {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.attempted)
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		meanwhile(done)
	}()
	concurrently(changes, callers, func(i int) {
		name := fmt.Sprintf("user-%d", i)
		o.mu.Lock()
		o.attempted[name] = true
		o.mu.Unlock()
		a := w.call(w.admin, "POST", users, user(name))
		for (a.status == 0 || a.status == 503) && w.isDown.Load() {
			time.Sleep(time.Millisecond) // do not attempt all changes during the outage
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.acknowledged[name] = a.status == 201
		if a.status != 201 && a.status != 503 && a.status != 0 {
			w.t.Errorf("%s: %s", name, a)
		}
	})
	<-finished
	return o
}

// check verifies that every acknowledged change has exactly one event with its outcome, and that every event has an
// attempt.
func (w *world) check(o *outcome) {
	w.t.Helper()
	events := map[string]string{}
	for _, r := range w.export(nil) {
		_, rest, _ := strings.Cut(r["data"], `"spec.userName":{"after":"`)
		name, _, _ := strings.Cut(rest, `"`)
		if !o.attempted[name] {
			w.t.Errorf("event without an attempt: %v", r)
		}
		if first, duplicate := events[name]; duplicate {
			w.t.Errorf("%s: two events, %s and %s", name, first, r["outcome"])
		}
		events[name] = r["outcome"]
	}
	acknowledged := 0
	for name, isAcknowledged := range o.acknowledged {
		if isAcknowledged {
			acknowledged++
		}
		if isAcknowledged && events[name] != "succeeded" {
			w.t.Errorf("%s was acknowledged, but its event is %q", name, events[name])
		}
	}
	w.t.Logf("%d attempted, %d acknowledged, %d events", len(o.attempted), acknowledged, len(events))
	if acknowledged < changes/3 || acknowledged == changes {
		w.t.Errorf("%d of %d were acknowledged: want some failures, not all", acknowledged, changes)
	}
}

// waitFor waits until n changes have been attempted.
func waitFor(done func() int, n int) {
	for done() < n {
		time.Sleep(time.Millisecond)
	}
}

func TestNoAcknowledgedChangeIsLostWhenTheServerIsKilled(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		o := w.provision(func(done func() int) {
			for _, n := range []int{changes / 6, changes / 3} {
				waitFor(done, n)
				w.isDown.Store(true)
				w.server.Kill()
				w.start()
				w.isDown.Store(false)
			}
		})
		w.check(o)
	})
}

func TestNoAcknowledgedChangeIsLostWhenTheDatabaseIsKilled(t *testing.T) {
	// SQLite runs in the process of the server, which the test above kills.
	on(t, "postgres", func(t *testing.T, w *world) {
		o := w.provision(func(done func() int) {
			waitFor(done, changes/4)
			w.isDown.Store(true)
			w.database.server.Kill(t)
			// Reads succeed; changes wait for the audit log and fail.
			w.want(200, w.admin, "GET", users+"?count=1", nil)
			if a := w.want(503, w.admin, "POST", users, user("during-the-outage")); !strings.Contains(a.text, "audit log") {
				t.Errorf("%s", a)
			}
			if a := w.want(200, w.admin, "GET", users+`?filter=userName+eq+"during-the-outage"`, nil); !strings.Contains(a.text, `"totalResults":0`) {
				t.Errorf("the user was created: %s", a)
			}
			if a := w.want(503, w.admin, "GET", "/api/v1/audit-logs/export", nil); a.field("error") == "" {
				t.Errorf("%s", a)
			}
			w.database.server.Restart(t)
			w.isDown.Store(false)
		})
		// It recovers without intervention.
		w.eventually(func() error {
			if a := w.call(w.admin, "POST", users, user("afterwards")); a.status != 201 && a.status != 409 {
				return fmt.Errorf("%s", a)
			}
			return nil
		})
		o.attempted["afterwards"] = true
		w.check(o)
	})
}
