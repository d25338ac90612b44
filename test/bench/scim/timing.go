package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// alternate sends n requests of each kind, one at a time, in a random order: other load on the machine affects all kinds, and
// each kind follows each other one equally often, so that none of them more often finds a server that was idle.
func alternate(ctx context.Context, n int, kinds ...measure.Timed) ([]measure.Times, error) {
	all := make([]measure.Times, len(kinds))
	for i := range n {
		for _, k := range random.Perm(len(kinds)) {
			m, err := measure.Spread(ctx, 1, 1, func(ctx context.Context, _ int) (time.Duration, error) { return kinds[k](ctx, i) })
			if err != nil {
				return nil, err
			}
			all[k] = all[k].With(m)
		}
	}
	return all, nil
}

// reporting writes the progress of n requests every few seconds.
func reporting(what string, n int, request measure.Timed) measure.Timed {
	const interval = 5 * time.Second
	var done, reported atomic.Int64
	start := time.Now()
	return func(ctx context.Context, i int) (time.Duration, error) {
		took, err := request(ctx, i)
		passed := time.Since(start)
		count := done.Add(1)
		if last := reported.Load(); passed >= time.Duration(last+1)*interval && reported.CompareAndSwap(last, int64(passed/interval)) {
			rate := float64(count) / passed.Seconds()
			measure.Progress("  %d of %d %s, %.0f/s, %s to go", count, n, what, rate, time.Duration(float64(n-int(count))/rate*float64(time.Second)).Round(time.Second))
		}
		return took, err
	}
}
