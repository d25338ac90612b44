package auth

import (
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestExpiringCache(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(now)
	c := newExpiringCache[string, int](clock, time.Minute, 10)
	c.put("a", 1)
	if v, ok := c.get("a"); v != 1 || !ok {
		t.Errorf("got %d, %v", v, ok)
	}
	if _, ok := c.get("b"); ok {
		t.Error("got a value for a missing key")
	}
	clock.SetTime(now.Add(time.Minute))
	if v, ok := c.get("a"); v != 0 || ok {
		t.Errorf("after a minute: %d, %v", v, ok)
	}
	for i := range 100 {
		c.put(fmt.Sprint(i), i)
		if v, ok := c.get(fmt.Sprint(i)); v != i || !ok || len(c.entries) > 10 {
			t.Fatalf("%d: %d, %v; %d entries", i, v, ok, len(c.entries))
		}
	}
	if _, ok := c.entries["a"]; ok {
		t.Error("the expired entry was not evicted first")
	}
}
