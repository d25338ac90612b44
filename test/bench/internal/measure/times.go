// Package measure is what the benches find out with: how long work takes, what a program says of
// itself in its metrics, and tables of what was found beside what is wanted.
package measure

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Times are how long pieces of work took, each and together.
type Times struct {
	Each []time.Duration
	Took time.Duration
}

// PerSecond is how many were done in a second.
func (t Times) PerSecond() float64 { return float64(len(t.Each)) / t.Took.Seconds() }

// Milliseconds is a percentile, such as 0.99: the shortest time that so many did not exceed; 0 of none.
func (t Times) Milliseconds(percentile float64) float64 {
	if len(t.Each) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t.Each))
	i := min(int(percentile*float64(len(sorted))), len(sorted)-1)
	return float64(sorted[i]) / float64(time.Millisecond)
}

// With is both, one after the other.
func (t Times) With(other Times) Times {
	return Times{append(t.Each, other.Each...), t.Took + other.Took}
}

// Timed is a piece of work, by its number; it tells how long it took.
type Timed func(ctx context.Context, i int) (time.Duration, error)

// Spread does n pieces, as many at once as there are callers. The first that fails ends it.
func Spread(ctx context.Context, n, callers int, work Timed) (Times, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := Times{Each: make([]time.Duration, n)}
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
				t.Each[i] = took
			}
		})
	}
	all.Wait()
	t.Took = time.Since(start)
	return t, context.Cause(ctx)
}

// Together has workers work at once, and puts the times together that each tells. An error is that of
// any of them.
func Together(workers int, work func(worker int, start time.Time) ([]time.Duration, error)) (Times, error) {
	var lock sync.Mutex
	var all sync.WaitGroup
	t := Times{}
	var failed error
	start := time.Now()
	for worker := range workers {
		all.Go(func() {
			each, err := work(worker, start)
			lock.Lock()
			defer lock.Unlock()
			t.Each = append(t.Each, each...)
			if err != nil {
				failed = err
			}
		})
	}
	all.Wait()
	t.Took = time.Since(start)
	return t, failed
}

// Median of any numbers; 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// Total is the sum of all values.
func Total[K comparable, V int | float64](of map[K]V) V {
	var sum V
	for _, v := range of {
		sum += v
	}
	return sum
}
