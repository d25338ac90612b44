package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// measured is how long a number of requests took, each and together.
type measured struct {
	each []time.Duration
	took time.Duration
}

func (m measured) perSecond() float64 { return float64(len(m.each)) / m.took.Seconds() }

// ms is a percentile, such as 0.99, in milliseconds: the shortest time that so many requests did
// not exceed.
func (m measured) ms(percentile float64) float64 {
	if len(m.each) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(m.each))
	i := min(int(percentile*float64(len(sorted))), len(sorted)-1)
	return float64(sorted[i]) / float64(time.Millisecond)
}

// with is both together.
func (m measured) with(other measured) measured {
	return measured{append(m.each, other.each...), m.took + other.took}
}

// timed is a request, by its number; it tells how long it took.
type timed func(ctx context.Context, i int) (time.Duration, error)

// spread sends n requests, as many at once as there are callers. The first that fails ends it.
func spread(ctx context.Context, n, callers int, request timed) (measured, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := measured{each: make([]time.Duration, n)}
	var next atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for range min(callers, n) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				took, err := request(ctx, i)
				if err != nil {
					cancel(err)
					return
				}
				m.each[i] = took
			}
		})
	}
	all.Wait()
	m.took = time.Since(start)
	return m, context.Cause(ctx)
}

// inTurns sends n requests of each kind, one at a time, a few of each kind in turn: what else the
// machine does meets all of them.
func inTurns(ctx context.Context, n int, kinds ...timed) ([]measured, error) {
	const block = 20
	all := make([]measured, len(kinds))
	for done := 0; done < n; done += block {
		for k, request := range kinds {
			m, err := spread(ctx, min(block, n-done), 1, func(ctx context.Context, i int) (time.Duration, error) { return request(ctx, done+i) })
			if err != nil {
				return nil, err
			}
			all[k] = all[k].with(m)
		}
	}
	return all, nil
}

// reporting tells the progress of n requests every few seconds.
func reporting(what string, n int, request timed) timed {
	const often = 5 * time.Second
	var done, told atomic.Int64
	start := time.Now()
	return func(ctx context.Context, i int) (time.Duration, error) {
		took, err := request(ctx, i)
		passed := time.Since(start)
		count := done.Add(1)
		if last := told.Load(); passed >= time.Duration(last+1)*often && told.CompareAndSwap(last, int64(passed/often)) {
			rate := float64(count) / passed.Seconds()
			progress("  %d of %d %s, %.0f/s, %s to go", count, n, what, rate, time.Duration(float64(n-int(count))/rate*float64(time.Second)).Round(time.Second))
		}
		return took, err
	}
}
