package model

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestHookLimiter: each hook is followed by a fetch within a second, and two fetches of a deployment are
// at least a second apart.
func TestHookLimiter(t *testing.T) {
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		clock := clocktesting.NewFakeClock(begin)
		hooks := newHookLimiter(clock)
		deployments := []types.UID{"a", "b", "c"}
		slots := map[types.UID][]time.Time{}
		arrived := map[types.UID][]time.Time{}
		for range 300 {
			clock.Step(time.Duration(r.Int64N(int64(time.Duration(1+r.IntN(2000)) * time.Millisecond))))
			of, now := deployments[r.IntN(len(deployments))], clock.Now()
			delay, reserved := hooks.reserve(of)
			if delay < 0 || delay > hookInterval || !reserved && delay != 0 {
				t.Fatalf("seed %d: %s, %v", seed, delay, reserved)
			}
			if reserved {
				slots[of] = append(slots[of], now.Add(delay))
			}
			arrived[of] = append(arrived[of], now)
		}
		for _, of := range deployments {
			fetches := slots[of]
			for i := 1; i < len(fetches); i++ {
				if fetches[i].Sub(fetches[i-1]) < hookInterval {
					t.Fatalf("seed %d: fetches at %s and %s", seed, fetches[i-1], fetches[i])
				}
			}
			for _, at := range arrived[of] {
				for len(fetches) > 0 && fetches[0].Before(at) {
					fetches = fetches[1:]
				}
				if len(fetches) == 0 || fetches[0].Sub(at) > hookInterval {
					t.Fatalf("seed %d: no fetch within a second of %s", seed, at)
				}
			}
		}
	}
}

// TestHookLimiterWait: of many concurrent hooks one continues, one waits, and the others do neither.
func TestHookLimiterWait(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	hooks := newHookLimiter(clock)
	if !hooks.wait("a") {
		t.Fatal("the first hook is not served")
	}
	second := make(chan bool)
	go func() { second <- hooks.wait("a") }()
	for !clock.HasWaiters() {
		select {
		case reserved := <-second:
			t.Fatalf("the second hook does not wait: %v", reserved)
		case <-time.After(time.Millisecond):
		}
	}
	for range 100 {
		if hooks.wait("a") {
			t.Fatal("a third hook is served")
		}
	}
	if !hooks.wait("b") {
		t.Error("a hook of another deployment is not served")
	}
	select {
	case <-second:
		t.Error("the second hook has not waited")
	default:
	}
	clock.Step(hookInterval)
	if !<-second {
		t.Error("the second hook is not served")
	}
	if delay, reserved := hooks.reserve("a"); delay != hookInterval || !reserved {
		t.Errorf("the hook after the second: %s, %v", delay, reserved)
	}
}

// TestHookLimiterForget: deployments without recent hooks take no memory.
func TestHookLimiterForget(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	hooks := newHookLimiter(clock)
	for i := range 1000 {
		hooks.wait(types.UID(fmt.Sprint(i)))
	}
	clock.Step(hookInterval)
	hooks.wait("a")
	if len(hooks.slots) != 1 {
		t.Errorf("%d slots are kept", len(hooks.slots))
	}
}
