// Package heap keeps the garbage in the heap of a server small while it costs little processor time to collect it.
package heap

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/quoin-dev/quoin/internal/processors"
)

const (
	// least and usual are the growth of the live heap in percent after which garbage is collected. The usual one is Go's default.
	least, usual = 40, 100
	// spare is by how many bytes a small heap may grow, which can be more than the usual growth.
	spare = 128 << 20
	// bar is the share of processor time, as share returns it, that collection should take at most.
	bar = 0.06
	// interval is the time between two looks at the cost, and weight that of the last look in the mean: that of about five.
	interval = time.Second
	weight   = 0.2
	// step is the least change of the growth: a change has a cost of its own.
	step = 1.1
)

// Trim lets garbage be collected after the least growth, and after more while that is expensive, until the context ends. It does
// nothing if the environment variable GOGC is set.
func Trim(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	growth := float64(least)
	before := debug.SetGCPercent(least)
	defer debug.SetGCPercent(before)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	// What costs a share after a growth costs half of it after twice the growth: the mean of the products is what has to be paid.
	mean, last, spent := 0.0, time.Now(), read()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, next := time.Now(), read()
		mean += weight * (share(spent, next, now.Sub(last))*growth - mean)
		last, spent = now, next
		if to := after(mean, next.live); to > growth*step || to < growth/step {
			growth = to
			debug.SetGCPercent(int(math.Round(growth)))
		}
	}
}

// after returns the growth of a heap after which its collection takes no more than the bar, within what is allowed for its size.
// product is that of the share which collection takes and of the growth.
func after(product, live float64) float64 {
	most := max(usual, 100*spare/max(live, 1))
	return min(max(product/bar, least), most)
}

// state is the state of the collector: processor times in seconds as Go estimates them, of collections that have ended and of all
// else, and the size of the live heap in bytes. A goroutine that runs counts also while the kernel has given its processor to another
// process.
type state struct{ collecting, other, live float64 }

func read() state {
	samples := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/user:cpu-seconds"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return state{samples[0].Value.Float64(), samples[1].Value.Float64(), float64(samples[2].Value.Uint64())}
}

// share returns what collection costs: its share of the processors, or its share of the time of this process if that is less. The
// first is too high while other processes use the processors, and the second says nothing about a process that does little.
func share(from, to state, elapsed time.Duration) float64 {
	collecting, other := to.collecting-from.collecting, to.other-from.other
	if collecting <= 0 {
		return 0
	}
	return min(collecting/(elapsed.Seconds()*float64(processors.Count)), collecting/(collecting+max(other, 0)))
}
