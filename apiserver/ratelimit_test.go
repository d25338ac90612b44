package apiserver

import (
	"fmt"
	"testing"
	"time"
)

// Each caller has a limit of its own.
func TestRateLimits(t *testing.T) {
	r := newRateLimits(0.001, 2)
	for i := range 2 {
		if wait := r.take("greedy"); wait != 0 {
			t.Errorf("request %d of the burst waits %s", i+1, wait)
		}
	}
	wait := r.take("greedy")
	if wait <= 0 {
		t.Error("a request beyond the burst is admitted")
	}
	if again := r.take("greedy"); again > wait+time.Second {
		t.Errorf("a rejected request counts: %s after %s", again, wait)
	}
	if wait := r.take("modest"); wait != 0 {
		t.Errorf("another caller waits %s", wait)
	}
}

// The number of remembered callers is bounded.
func TestRateLimitsAreBounded(t *testing.T) {
	r := newRateLimits(1, 1)
	for i := range 3 * maxCallers {
		r.take(fmt.Sprint(i))
	}
	if kept := len(r.recent) + len(r.older); kept > maxCallers {
		t.Errorf("%d callers are remembered, at most %d should be", kept, maxCallers)
	}
}
