package main

import (
	"context"
	"slices"
	"sync"
	"time"
)

// turn is what came of one turn of one target.
type turn struct {
	requests  int
	perSecond float64
	// p50 and p99 in milliseconds.
	p50, p99 float64
	// processor time of the target, in microseconds for each request.
	processor float64
}

// sender sends over one connection until the time is over, and tells how long each answer took.
type sender func(c *connection, number int, begun time.Time) ([]time.Duration, error)

// flatOut sends the next request when the one before is answered.
func flatOut(request []byte, size int, length time.Duration) sender {
	return func(c *connection, _ int, begun time.Time) ([]time.Duration, error) {
		each := make([]time.Duration, 0, 1<<14)
		for sent := time.Now(); sent.Sub(begun) < length; {
			if err := c.ask(request, size); err != nil {
				return each, err
			}
			now := time.Now()
			each = append(each, now.Sub(sent))
			sent = now
		}
		return each, nil
	}
}

// paced sends at a rate, over a number of connections in turn. A request that had to wait for the
// one before it counts from when it was due.
func paced(request []byte, size, rate, connections int, length time.Duration) sender {
	interval := time.Duration(connections) * time.Second / time.Duration(rate)
	return func(c *connection, number int, begun time.Time) ([]time.Duration, error) {
		var each []time.Duration
		due := begun.Add(interval * time.Duration(number) / time.Duration(connections))
		for ; due.Sub(begun) < length; due = due.Add(interval) {
			sent := due
			if wait := time.Until(due); wait > 0 {
				time.Sleep(wait)
				sent = time.Now() // the timer's lateness is not the target's
			}
			if err := c.ask(request, size); err != nil {
				return each, err
			}
			each = append(each, time.Since(sent))
		}
		return each, nil
	}
}

// measure has a target take a turn. The connections are made before it begins.
func (t *target) measure(ctx context.Context, connections int, length time.Duration, send sender) (turn, error) {
	open, err := t.dialAll(ctx, connections, length)
	defer closeAll(open)
	if err != nil {
		return turn{}, err
	}
	var lock sync.Mutex
	var all sync.WaitGroup
	var each []time.Duration
	var failed error
	processor, begun := t.process.processorSeconds(), time.Now()
	for i, c := range open {
		all.Go(func() {
			own, err := send(c, i, begun)
			lock.Lock()
			defer lock.Unlock()
			each = append(each, own...)
			if err != nil {
				failed = err
			}
		})
	}
	all.Wait()
	took := time.Since(begun)
	processor = t.process.processorSeconds() - processor
	if failed != nil || len(each) == 0 {
		return turn{}, failed
	}
	slices.Sort(each)
	return turn{
		requests: len(each), perSecond: float64(len(each)) / took.Seconds(), p50: percentile(each, 0.5), p99: percentile(each, 0.99),
		processor: processor * 1e6 / float64(len(each)),
	}, ctx.Err()
}

func (t *target) dialAll(ctx context.Context, connections int, length time.Duration) ([]*connection, error) {
	var open []*connection
	for range connections {
		c, err := t.dial()
		if err != nil {
			return open, err
		}
		open = append(open, c)
		if err := c.allow(length + patience); err != nil {
			return open, err
		}
	}
	return open, ctx.Err()
}

func closeAll(open []*connection) {
	for _, c := range open {
		_ = c.Close()
	}
}

// percentile is the shortest of sorted times that so many did not exceed, in milliseconds.
func percentile(sorted []time.Duration, of float64) float64 {
	i := min(int(of*float64(len(sorted))), len(sorted)-1)
	return float64(sorted[i]) / float64(time.Millisecond)
}

// median of any numbers; 0 of none.
func median(values []float64) float64 {
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
