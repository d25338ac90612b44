package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// measured is how long pieces of work took, each and together.
type measured struct {
	each []time.Duration
	took time.Duration
}

func (m measured) perSecond() float64 { return float64(len(m.each)) / m.took.Seconds() }

// ms is a percentile, such as 0.99, in milliseconds: the shortest time that so many did not exceed.
func (m measured) ms(percentile float64) float64 {
	if len(m.each) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(m.each))
	i := min(int(percentile*float64(len(sorted))), len(sorted)-1)
	return float64(sorted[i]) / float64(time.Millisecond)
}

// with is one more.
func (m measured) with(took time.Duration) measured {
	return measured{append(m.each, took), m.took + took}
}

// timed is a piece of work, by its number; it tells how long it took.
type timed func(ctx context.Context, i int) (time.Duration, error)

// spread does n pieces, as many at once as there are callers. The first that fails ends it.
func spread(ctx context.Context, n, callers int, work timed) (measured, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := measured{each: make([]time.Duration, n)}
	var next atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for range min(callers, n) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				took, err := work(ctx, i)
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
