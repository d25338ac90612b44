package heap

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quoin-dev/quoin/internal/processors"
)

func TestAfter(t *testing.T) {
	for _, c := range []struct {
		growth int
		share  float64
		want   int
	}{
		{small, 0, small}, {small, 0.14, small}, {small, 0.16, usual},
		{usual, 0.14, usual}, {usual, 0.06, usual}, {usual, 0.04, small},
	} {
		if got := after(c.growth, c.share); got != c.want {
			t.Errorf("growth %d %% with a share of %.2f becomes %d %%, want %d %%", c.growth, c.share, got, c.want)
		}
	}
	// Otherwise the growth would change again at once.
	if most := cheap * usual / small; most >= expensive {
		t.Errorf("what costs %.2f after the usual growth costs %.2f after the small one: allowed are less than %.2f", cheap, most, expensive)
	}
}

// growthNow returns the growth that is set.
func growthNow() int {
	n := debug.SetGCPercent(-1)
	debug.SetGCPercent(n)
	return n
}

func TestTrim(t *testing.T) {
	before := debug.SetGCPercent(80)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv("GOGC", "")
	_ = os.Unsetenv("GOGC") // t.Setenv restores it
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { Trim(ctx); close(done) }()
		synctest.Wait()
		if n := growthNow(); n != small {
			t.Errorf("the heap grows by %d %% at first, want %d %%", n, small)
		}
		time.Sleep(3 * interval)
		if n := growthNow(); n != small {
			t.Errorf("the heap grows by %d %% while nothing is collected, want %d %%", n, small)
		}
		cancel()
		<-done
	})
	if n := growthNow(); n != 80 {
		t.Errorf("the heap grows by %d %% at the end, want 80 %% as before", n)
	}
}

// TestTrimUnlessSet: an administrator who sets GOGC decides.
func TestTrimUnlessSet(t *testing.T) {
	before := growthNow()
	t.Setenv("GOGC", "100")
	Trim(t.Context())
	if n := growthNow(); n != before {
		t.Errorf("the heap grows by %d %%, want %d %% as before", n, before)
	}
}

func TestShare(t *testing.T) {
	all := float64(processors.Count)
	for _, c := range []struct {
		name              string
		collecting, other float64
		want              float64
	}{
		{"no collection", 0, all, 0},
		{"a process that does little", 0.01 * all, 0.01 * all, 0.01},
		{"a process that uses the processors alone", 0.2 * all, 0.8 * all, 0.2},
		{"a process that waits for processors, with more goroutines at a time than there are", 0.2 * all, 1.8 * all, 0.1},
	} {
		before := times{5, 7}
		if got := share(before, times{5 + 2*c.collecting, 7 + 2*c.other}, 2*time.Second); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: collection costs %.3f, want %.3f", c.name, got, c.want)
		}
	}
}

func TestTimes(t *testing.T) {
	before := readTimes()
	runtime.GC()
	if spent := readTimes().collecting - before.collecting; spent <= 0 {
		t.Errorf("a collection takes %.6f s", spent)
	}
}
