package heap

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quoin-dev/quoin/internal/processors"
)

func TestAfter(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name string
		cost cost
		live float64
		want float64
	}{
		{"no collection", cost{}, 100 * mib, least},
		{"cheap collection", cost{share: bar * least / 2}, 100 * mib, least},
		{"twice the bar after the least growth", cost{share: 2 * bar * least}, 100 * mib, 2 * least},
		{"twice the bar after the usual growth, of a small heap", cost{share: 2 * bar * usual}, 32 * mib, 2 * usual},
		{"much more than the bar, of a small heap", cost{share: 100 * bar * usual}, 32 * mib, 4 * usual},
		{"much more than the bar, of a heap of the spare size", cost{share: 100 * bar * usual}, spare, usual},
		{"much more than the bar, of a large heap", cost{share: 100 * bar * usual}, 1000 * mib, usual},
		{"less often than allowed", cost{rate: often * least / 2}, 32 * mib, least},
		{"more often than allowed, of a small heap", cost{rate: 3 * often * least}, 32 * mib, 3 * least},
		{"much more often, up to the size of a small heap", cost{rate: 100 * often * least}, 32 * mib, 100 * (small - 32*mib) / (32 * mib)},
		{"much more often, of a heap that is not small", cost{rate: 100 * often * least}, 100 * mib, least},
		{"before the first collection", cost{}, 0, least},
	} {
		if got := after(c.cost, c.live); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: the heap grows by %.0f %%, want %.0f %%", c.name, got, c.want)
		}
	}
}

// growthNow returns the growth that is set.
func growthNow() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
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
		if n := growthNow(); n != least {
			t.Errorf("the heap grows by %d %% at first, want %d %%", n, least)
		}
		time.Sleep(3 * interval)
		if n := growthNow(); n != least {
			t.Errorf("the heap grows by %d %% while nothing is collected, want %d %%", n, least)
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
		before := state{collecting: 5, other: 7}
		if got := share(before, state{collecting: 5 + 2*c.collecting, other: 7 + 2*c.other}, 2*time.Second); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: collection costs %.3f, want %.3f", c.name, got, c.want)
		}
	}
}

func TestRead(t *testing.T) {
	before := read()
	runtime.GC()
	now := read()
	if spent := now.collecting - before.collecting; spent <= 0 {
		t.Errorf("a collection takes %.6f s", spent)
	}
	if n := now.collections - before.collections; n < 1 {
		t.Errorf("%.0f collections", n)
	}
	if now.live <= 0 {
		t.Errorf("the live heap has %.0f bytes", now.live)
	}
}

// TestTrimUnderLoad: a small heap grows by more than the least before it is collected if that is expensive or frequent.
func TestTrimUnderLoad(t *testing.T) {
	t.Setenv("GOGC", "")
	_ = os.Unsetenv("GOGC") // t.Setenv restores it
	before := growthNow()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { Trim(ctx); close(done) }()
	live := pointers(300_000)
	for stop := time.Now().Add(time.Minute); growthNow() <= least && time.Now().Before(stop); {
		for range 10 {
			garbage = pointers(10_000)
		}
	}
	if n := growthNow(); n <= least {
		t.Errorf("the heap grows by %d %%, want more than %d %%", n, least)
	}
	runtime.KeepAlive(live)
	cancel()
	<-done
	if n := growthNow(); n != before {
		t.Errorf("the heap grows by %d %% at the end, want %d %% as before", n, before)
	}
}

// garbage keeps the compiler from allocating on the stack.
var garbage []*[64]byte

func pointers(n int) []*[64]byte {
	all := make([]*[64]byte, n)
	for i := range all {
		all[i] = &[64]byte{}
	}
	return all
}
