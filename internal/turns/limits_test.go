package turns

import (
	"slices"
	"testing"
)

// TestLimits: an owner with many items does not hold all places, and waits for its own ones.
func TestLimits(t *testing.T) {
	l := NewLimits[string, int](4, 2)
	for i := range 5 {
		l.Add("busy", i)
	}
	start := func(want ...int) {
		t.Helper()
		var got []int
		for item, ok := l.Start(); ok; item, ok = l.Start() {
			got = append(got, item)
		}
		if !slices.Equal(got, want) {
			t.Errorf("started %v, want %v", got, want)
		}
	}
	start(0, 1)
	l.Add("other", 10)
	l.Add("third", 20)
	l.Add("third", 21)
	start(10, 20)
	l.Done("busy")
	start(2)
	l.Done("other")
	start(21)
	if !l.Remove("busy", 3) || l.Remove("busy", 3) || l.Remove("busy", 2) || l.Waiting() != 1 {
		t.Errorf("%d items wait", l.Waiting())
	}
	for _, owner := range []string{"busy", "busy", "third", "third"} {
		l.Done(owner)
	}
	start(4)
	l.Done("busy")
	if l.InProgress() != 0 || len(l.startedOf) != 0 || l.Waiting() != 0 || !l.waiting.IsEmpty() {
		t.Errorf("afterwards: %+v", l)
	}
}
