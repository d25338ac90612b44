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
	small, usual = 50, 100
	// cheap and expensive are shares of the processors. Collection after small growth costs twice as much as after the usual one.
	cheap, expensive = 0.06, 0.15
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
	mean, last, before := 0.0, time.Now(), collecting()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, spent := time.Now(), collecting()
		share := (spent - before).Seconds() / now.Sub(last).Seconds() / float64(processors.Count)
		mean, last, before = mean+weight*(share-mean), now, spent
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

// collecting returns the processor time of all collections that have ended.
func collecting() time.Duration {
	sample := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(sample)
	return time.Duration(sample[0].Value.Float64() * float64(time.Second))
}
