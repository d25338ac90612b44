package ratelimit

import (
	"testing"
	"time"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// Each key has a limit of its own.
func TestLimits(t *testing.T) {
	l := New[string](0.001, 2, 100)
	for i := range 2 {
		if wait := l.Take("greedy", now); wait != 0 {
			t.Errorf("event %d of the burst waits %s", i+1, wait)
		}
	}
	wait := l.Take("greedy", now)
	if wait <= 0 {
		t.Error("an event beyond the burst is admitted")
	}
	if again := l.Take("greedy", now); again > wait {
		t.Errorf("a rejected event counts: %s after %s", again, wait)
	}
	if wait := l.Take("modest", now); wait != 0 {
		t.Errorf("another key waits %s", wait)
	}
	if wait := l.Take("greedy", now.Add(wait)); wait != 0 {
		t.Errorf("an event after the wait waits %s", wait)
	}
}

// TestReturn: an event that is returned does not count, and returning more does not admit more than the burst.
func TestReturn(t *testing.T) {
	l := New[string](0.001, 2, 100)
	for range 5 {
		if l.Take("a", now) != 0 {
			t.Fatal("an event that was returned counts")
		}
		l.Return("a", now)
	}
	for range 5 {
		l.Return("a", now)
	}
	later := now.Add(time.Millisecond)
	for i := range 2 {
		if l.Take("a", later) != 0 {
			t.Errorf("event %d of the burst waits", i+1)
		}
	}
	if l.Take("a", later) == 0 {
		t.Error("an event beyond the burst is admitted")
	}
}

// The number of remembered keys is bounded.
func TestLimitsAreBounded(t *testing.T) {
	const most = 1000
	l := New[int](1, 1, most)
	for i := range 3 * most {
		l.Take(i, now)
	}
	if kept := len(l.recent) + len(l.older); kept > most {
		t.Errorf("%d keys are remembered, at most %d should be", kept, most)
	}
}

// Wait reports whether an event would be admitted, and admits none.
func TestWait(t *testing.T) {
	l := New[string](0.5, 2, 100)
	for range 5 {
		if wait := l.Wait("a", now); wait != 0 {
			t.Errorf("%s before the first event", wait)
		}
	}
	for range 2 {
		l.Take("a", now)
	}
	wait := l.Wait("a", now)
	if wait != 2*time.Second {
		t.Errorf("%s after the burst, want 2s", wait)
	}
	if left := l.Wait("a", now.Add(time.Second)); left != time.Second {
		t.Errorf("%s a second later, want 1s", left)
	}
	if l.Take("a", now.Add(wait-time.Millisecond)) == 0 || l.Take("a", now.Add(wait)) != 0 {
		t.Error("an event is not admitted when Wait tells")
	}
}
