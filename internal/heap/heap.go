// Package heap keeps the garbage in the heap of a server small while it costs little processor time to collect it.
package heap

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/quoin-dev/quoin/internal/processors"
)

const (
	// small and usual are the growth of the live heap in percent after which garbage is collected. The usual one is Go's default.
	small, usual = 40, 100
	// cheap and expensive are shares as share returns them. Collection after small growth costs usual ÷ small times as
	// much as after the usual one.
	cheap, expensive = 0.05, 0.15
	// interval is the time between two looks at the cost, and weight that of the last look in the mean: that of about five.
	interval = time.Second
	weight   = 0.2
)

// Trim lets garbage be collected after small growth, and after the usual one while that is expensive, until the context ends. It
// does nothing if the environment variable GOGC is set.
func Trim(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	growth := small
	usualGrowth := debug.SetGCPercent(growth)
	defer debug.SetGCPercent(usualGrowth)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	mean, last, before := 0.0, time.Now(), readTimes()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, spent := time.Now(), readTimes()
		mean, last, before = mean+weight*(share(before, spent, now.Sub(last))-mean), now, spent
		if next := after(growth, mean); next != growth {
			growth = next
			debug.SetGCPercent(growth)
		}
	}
}

// after returns the growth after a time in which collection took a share of the processors with the present growth.
func after(growth int, share float64) int {
	switch {
	case share > expensive:
		return usual
	case share < cheap:
		return small
	}
	return growth
}

// times are the processor times of this process in seconds as Go estimates them: of collections that have ended, and of all else. A
// goroutine that runs counts also while the kernel has given its processor to another process.
type times struct{ collecting, other float64 }

func readTimes() times {
	samples := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/user:cpu-seconds"}}
	metrics.Read(samples)
	return times{samples[0].Value.Float64(), samples[1].Value.Float64()}
}

// share returns what collection costs: its share of the processors, or its share of the time of this process if that is less. The
// first is too high while other processes use the processors, and the second says nothing about a process that does little.
func share(before, spent times, elapsed time.Duration) float64 {
	collecting, other := spent.collecting-before.collecting, spent.other-before.other
	if collecting <= 0 {
		return 0
	}
	return min(collecting/(elapsed.Seconds()*float64(processors.Count)), collecting/(collecting+max(other, 0)))
}
