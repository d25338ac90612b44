// Package measure measures how long work takes, reads the metrics of programs, and publishes results beside their
// bars.
package measure

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Times are the durations of pieces of work, and the time that all of them took together.
type Times struct {
	Each []time.Duration
	Took time.Duration
}

// PerSecond returns the throughput.
func (t Times) PerSecond() float64 { return float64(len(t.Each)) / t.Took.Seconds() }

// Milliseconds returns a percentile, such as 0.99, or 0 if there are no times.
func (t Times) Milliseconds(percentile float64) float64 {
	if len(t.Each) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t.Each))
	i := min(int(percentile*float64(len(sorted))), len(sorted)-1)
	return float64(sorted[i]) / float64(time.Millisecond)
}

// With returns the times of both, as if done one after the other.
func (t Times) With(other Times) Times {
	return Times{append(t.Each, other.Each...), t.Took + other.Took}
}

// Timed does the piece of work with index i and returns how long it took.
type Timed func(ctx context.Context, i int) (time.Duration, error)

// Spread does n pieces of work with the given number of concurrent callers. The first error ends it.
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

// Together runs workers concurrently and returns all their times. The error is that of any of them.
func Together(workers int, work func(worker int, start time.Time) ([]time.Duration, error)) (Times, error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	t := Times{}
	var err error
	start := time.Now()
	for worker := range workers {
		all.Go(func() {
			each, workErr := work(worker, start)
			mu.Lock()
			defer mu.Unlock()
			t.Each = append(t.Each, each...)
			if workErr != nil {
				err = workErr
			}
		})
	}
	all.Wait()
	t.Took = time.Since(start)
	return t, err
}

// Median returns the median, or 0 if there are no values.
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

// Total returns the sum of all values.
func Total[K comparable, V int | float64](of map[K]V) V {
	var sum V
	for _, v := range of {
		sum += v
	}
	return sum
}
