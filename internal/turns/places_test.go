package turns

import (
	"context"
	"errors"
	"testing"
)

// TestPlaces: an owner with as much work as it may have waits, others do not; and what no longer waits gets no place.
func TestPlaces(t *testing.T) {
	p := NewPlaces[string](2, 1)
	acquire := func(owner string) (release func()) {
		t.Helper()
		release, err := p.Acquire(t.Context(), owner)
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	release := acquire("busy")
	if _, err := p.Acquire(ended, "busy"); !errors.Is(err, context.Canceled) {
		t.Errorf("an owner has more than its places: %v", err)
	}
	releaseOther := acquire("other")
	if _, err := p.Acquire(ended, "third"); !errors.Is(err, context.Canceled) {
		t.Errorf("there are more than all places: %v", err)
	}
	if n := p.Waiting(); n != 0 {
		t.Errorf("%d wait", n)
	}
	release()
	acquire("third")()
	acquire("busy")()
	releaseOther()
	if p.limits.InProgress() != 0 {
		t.Errorf("%d places are taken", p.limits.InProgress())
	}
}
