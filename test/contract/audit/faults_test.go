package audit_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// changes is how many are made while something dies; atOnce how many at a time.
const changes, atOnce = 10_000, 24

// outcome is what the world says of the changes, by the users' names.
type outcome struct {
	mu                  sync.Mutex
	tried, acknowledged map[string]bool
}

// provision creates users while something happens to the world, and comes back when all have been
// tried, each of them once.
func (w *world) provision(meanwhile func(done func() int)) *outcome {
	o := &outcome{tried: map[string]bool{}, acknowledged: map[string]bool{}}
	done := func() int {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.tried)
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		meanwhile(done)
	}()
	concurrently(changes, atOnce, func(i int) {
		name := fmt.Sprintf("user-%d", i)
		o.mu.Lock()
		o.tried[name] = true
		o.mu.Unlock()
		a := w.call(w.admin, "POST", users, user(name))
		for (a.status == 0 || a.status == 503) && w.isAway.Load() {
			time.Sleep(time.Millisecond) // do not try everything while it is away
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

// check: every change that was acknowledged has its event with its outcome, and there is no event
// without an attempt; none twice.
func (w *world) check(o *outcome) {
	w.t.Helper()
	events := map[string]string{}
	for _, r := range w.export(nil) {
		_, rest, _ := strings.Cut(r["data"], `"spec.userName":{"after":"`)
		name, _, _ := strings.Cut(rest, `"`)
		if !o.tried[name] {
			w.t.Errorf("an event without an attempt: %v", r)
		}
		if before, twice := events[name]; twice {
			w.t.Errorf("%s: two events, %s and %s", name, before, r["outcome"])
		}
		events[name] = r["outcome"]
	}
	acknowledged := 0
	for name, is := range o.acknowledged {
		if is {
			acknowledged++
		}
		if is && events[name] != "succeeded" {
			w.t.Errorf("%s was acknowledged, and its event is %q", name, events[name])
		}
	}
	w.t.Logf("%d tried, %d acknowledged, %d events", len(o.tried), acknowledged, len(events))
	if acknowledged < changes/3 || acknowledged == changes {
		w.t.Errorf("%d of %d were acknowledged: nothing was broken, or all of it", acknowledged, changes)
	}
}

// waitFor waits until so many changes have been tried.
func waitFor(done func() int, n int) {
	for done() < n {
		time.Sleep(time.Millisecond)
	}
}

func TestKilledFrontEnd(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		o := w.provision(func(done func() int) {
			for _, n := range []int{changes / 6, changes / 3} {
				waitFor(done, n)
				w.isAway.Store(true)
				w.front.Kill()
				w.start()
				w.isAway.Store(false)
			}
		})
		w.check(o)
	})
}

func TestKilledDatabase(t *testing.T) {
	// SQLite is in the front end's own process: TestKilledFrontEnd is about it.
	on(t, "postgres", func(t *testing.T, w *world) {
		o := w.provision(func(done func() int) {
			waitFor(done, changes/4)
			w.isAway.Store(true)
			w.database.server.Kill(t)
			// Reads go on, changes wait for the log and are refused.
			w.want(200, w.admin, "GET", users+"?count=1", nil)
			if a := w.want(503, w.admin, "POST", users, user("while-it-is-away")); !strings.Contains(a.text, "audit log") {
				t.Errorf("%s", a)
			}
			if a := w.want(200, w.admin, "GET", users+`?filter=userName+eq+"while-it-is-away"`, nil); !strings.Contains(a.text, `"totalResults":0`) {
				t.Errorf("it was made: %s", a)
			}
			if a := w.want(503, w.admin, "GET", "/api/v1/audit-logs/export", nil); a.field("error") == "" {
				t.Errorf("%s", a)
			}
			w.database.server.Restart(t)
			w.isAway.Store(false)
		})
		// Nobody has to do anything for it.
		w.eventually(func() error {
			if a := w.call(w.admin, "POST", users, user("afterwards")); a.status != 201 && a.status != 409 {
				return fmt.Errorf("%s", a)
			}
			return nil
		})
		o.tried["afterwards"] = true
		w.check(o)
	})
}
