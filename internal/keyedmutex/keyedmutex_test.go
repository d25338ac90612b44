package keyedmutex

import (
	"context"
	"testing"
)

// TestMutex checks mutual exclusion, and that a cancelled waiter does not block others.
func TestMutex(t *testing.T) {
	var m Mutex[string]
	const id = "acme/g"
	first, err := m.Lock(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Lock(ctx, id); err == nil {
		t.Error("two holders at once")
	}
	got := make(chan func())
	go func() {
		unlock, _ := m.Lock(t.Context(), id)
		got <- unlock
	}()
	first()
	(<-got)()
	if len(m.locks) != 0 {
		t.Errorf("locks left: %v", m.locks)
	}
}
