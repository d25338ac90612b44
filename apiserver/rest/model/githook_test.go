package model

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestHookTurns: whatever comes when, each hook is followed by a turn within a second, and two
// turns of a deployment are a second apart.
func TestHookTurns(t *testing.T) {
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		clock := clocktesting.NewFakeClock(begin)
		hooks := newHookTurns(clock)
		deployments := []types.UID{"a", "b", "c"}
		given := map[types.UID][]time.Time{}
		arrived := map[types.UID][]time.Time{}
		for range 300 {
			clock.Step(time.Duration(r.Int64N(int64(time.Duration(1+r.IntN(2000)) * time.Millisecond))))
			of, now := deployments[r.IntN(len(deployments))], clock.Now()
			pause, mine := hooks.take(of)
			if pause < 0 || pause > hookPause || !mine && pause != 0 {
				t.Fatalf("seed %d: %s, %v", seed, pause, mine)
			}
			if mine {
				given[of] = append(given[of], now.Add(pause))
			}
			arrived[of] = append(arrived[of], now)
		}
		for _, of := range deployments {
			turns := given[of]
			for i := 1; i < len(turns); i++ {
				if turns[i].Sub(turns[i-1]) < hookPause {
					t.Fatalf("seed %d: turns at %s and %s", seed, turns[i-1], turns[i])
				}
			}
			for _, at := range arrived[of] {
				for len(turns) > 0 && turns[0].Before(at) {
					turns = turns[1:]
				}
				if len(turns) == 0 || turns[0].Sub(at) > hookPause {
					t.Fatalf("seed %d: no turn within a second of %s", seed, at)
				}
			}
		}
	}
}

// TestHookTurnsWait: of many at once one goes ahead, one waits, and the others do neither.
func TestHookTurnsWait(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	hooks := newHookTurns(clock)
	if !hooks.wait("a") {
		t.Fatal("the first has to wait for somebody")
	}
	second := make(chan bool)
	go func() { second <- hooks.wait("a") }()
	for !clock.HasWaiters() {
		select {
		case mine := <-second:
			t.Fatalf("the second does not wait: %v", mine)
		case <-time.After(time.Millisecond):
		}
	}
	for range 100 {
		if hooks.wait("a") {
			t.Fatal("a third one goes ahead")
		}
	}
	if !hooks.wait("b") {
		t.Error("another deployment has to wait for this one")
	}
	select {
	case <-second:
		t.Error("the second has not waited")
	default:
	}
	clock.Step(hookPause)
	if !<-second {
		t.Error("the second has waited for nothing")
	}
	if pause, mine := hooks.take("a"); pause != hookPause || !mine {
		t.Errorf("who comes when the second goes ahead: %s, %v", pause, mine)
	}
}

// TestHookTurnsForget: deployments that had no hook lately take no memory.
func TestHookTurnsForget(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	hooks := newHookTurns(clock)
	for i := range 1000 {
		hooks.wait(types.UID(fmt.Sprint(i)))
	}
	clock.Step(hookPause)
	hooks.wait("a")
	if len(hooks.turns) != 1 {
		t.Errorf("%d deployments are remembered", len(hooks.turns))
	}
}
