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
	// small is the size in bytes up to which a heap may grow so that its collection is not too often.
	small = 80 << 20
	// bar is the share of processor time, as share returns it, that collection should take at most.
	bar = 0.06
	// often is how many collections a second there should be at most: each delays requests for some milliseconds.
	often = 0.25
	// interval is the time between two looks at the cost, and weight that of the last look in the mean: that of about five.
	interval = time.Second
	weight   = 0.2
	// step is the least change of the growth: a change has a cost of its own.
	step = 1.1
)

// Trim lets garbage be collected after the least growth, and after more while that is expensive or frequent, until the context
// ends. It does nothing if the environment variable GOGC is set.
func Trim(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	growth := float64(least)
	before := debug.SetGCPercent(least)
	defer debug.SetGCPercent(before)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	// Twice the growth halves the share and the number of collections: the mean of their products with it is what has to be paid.
	var mean cost
	last, spent := time.Now(), read()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, next := time.Now(), read()
		elapsed := now.Sub(last)
		mean.share += weight * (share(spent, next, elapsed)*growth - mean.share)
		mean.rate += weight * ((next.collections-spent.collections)/elapsed.Seconds()*growth - mean.rate)
		last, spent = now, next
		if to := after(mean, next.live); to > growth*step || to < growth/step {
			growth = to
			debug.SetGCPercent(int(math.Round(growth)))
		}
	}
}

// cost is what collection costs, each as a product with the growth: the share that share returns, and the collections a second.
type cost struct{ share, rate float64 }

// after returns the growth of a heap after which its collection takes no more than the bar and is not too often, within what is
// allowed for its size.
func after(c cost, live float64) float64 {
	live = max(live, 1)
	cheap := min(c.share/bar, max(usual, 100*spare/live))
	seldom := min(c.rate/often, 100*(small/live-1))
	return max(cheap, seldom, least)
}

// state is the state of the collector: processor times in seconds as Go estimates them, of collections that have ended and of all
// else, and the size of the live heap in bytes. A goroutine that runs counts also while the kernel has given its processor to another
// process.
type state struct{ collecting, other, live, collections float64 }

func read() state {
	samples := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/user:cpu-seconds"}, {Name: "/gc/heap/live:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(samples)
	return state{samples[0].Value.Float64(), samples[1].Value.Float64(), float64(samples[2].Value.Uint64()), float64(samples[3].Value.Uint64())}
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
