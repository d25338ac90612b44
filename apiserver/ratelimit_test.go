package apiserver

import (
	"fmt"
	"testing"
	"time"
)

// Each caller has a rate of its own: who sends too much waits, the others do not.
func TestRates(t *testing.T) {
	r := newRates(0.001, 2)
	for i := range 2 {
		if wait := r.take("greedy"); wait != 0 {
			t.Errorf("request %d of the burst waits %s", i+1, wait)
		}
	}
	wait := r.take("greedy")
	if wait <= 0 {
		t.Error("more than the burst is let through")
	}
	if again := r.take("greedy"); again > wait+time.Second {
		t.Errorf("a request that was refused counts: %s after %s", again, wait)
	}
	if wait := r.take("modest"); wait != 0 {
		t.Errorf("another caller waits %s", wait)
	}
}

// However many callers there are, few of them are remembered.
func TestRatesAreBounded(t *testing.T) {
	r := newRates(1, 1)
	for i := range 3 * maxCallers {
		r.take(fmt.Sprint(i))
	}
	if kept := len(r.young) + len(r.old); kept > maxCallers {
		t.Errorf("%d callers are remembered, at most %d should be", kept, maxCallers)
	}
}
