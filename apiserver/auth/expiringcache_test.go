package auth

import (
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestMemory(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(now)
	m := newExpiringCache[int](clock, time.Minute, 10)
	m.put("a", 1)
	if v, ok := m.get("a"); v != 1 || !ok {
		t.Errorf("got %d, %v", v, ok)
	}
	if _, ok := m.get("b"); ok {
		t.Error("b was never put")
	}
	clock.SetTime(now.Add(time.Minute))
	if v, ok := m.get("a"); v != 0 || ok {
		t.Errorf("after a minute: %d, %v", v, ok)
	}
	for i := range 100 {
		m.put(fmt.Sprint(i), i)
		if v, ok := m.get(fmt.Sprint(i)); v != i || !ok || len(m.answers) > 10 {
			t.Fatalf("%d: %d, %v; %d answers", i, v, ok, len(m.answers))
		}
	}
	if _, ok := m.answers["a"]; ok {
		t.Error("what is out of date goes first")
	}
}
