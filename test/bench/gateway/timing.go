package main

import (
	"context"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// sample is the result of one measurement of one target.
type sample struct {
	requests  int
	perSecond float64
	// p50 and p99 are in milliseconds.
	p50, p99 float64
	// processor is the processor time of the target in microseconds per request.
	processor float64
}

// sender sends requests over the connection with an index until the time is over, and returns the response times.
type sender func(c *connection, i int, start time.Time) ([]time.Duration, error)

// flatOut sends the next request when the previous one is complete.
func flatOut(request []byte, size int, length time.Duration) sender {
	return func(c *connection, _ int, start time.Time) ([]time.Duration, error) {
		each := make([]time.Duration, 0, 1<<14)
		for sent := time.Now(); sent.Sub(start) < length; {
			if err := c.send(request, size); err != nil {
				return each, err
			}
			now := time.Now()
			each = append(each, now.Sub(sent))
			sent = now
		}
		return each, nil
	}
}

// paced sends at a rate, alternating between the connections. The time of a request that is delayed by the previous one
// counts from when it was due.
func paced(request []byte, size, rate, connections int, length time.Duration) sender {
	interval := time.Duration(connections) * time.Second / time.Duration(rate)
	return func(c *connection, i int, start time.Time) ([]time.Duration, error) {
		var each []time.Duration
		due := start.Add(interval * time.Duration(i) / time.Duration(connections))
		for ; due.Sub(start) < length; due = due.Add(interval) {
			sent := due
			if wait := time.Until(due); wait > 0 {
				time.Sleep(wait)
				sent = time.Now() // do not count the lateness of the timer
			}
			if err := c.send(request, size); err != nil {
				return each, err
			}
			each = append(each, time.Since(sent))
		}
		return each, nil
	}
}

// measure measures a target. The connections are opened first.
func (t *target) measure(ctx context.Context, connections int, length time.Duration, send sender) (sample, error) {
	open, err := t.dialAll(ctx, connections, length)
	defer closeAll(open)
	if err != nil {
		return sample{}, err
	}
	processor := processorSeconds(t.process)
	times, err := measure.Together(len(open), func(i int, start time.Time) ([]time.Duration, error) { return send(open[i], i, start) })
	processor = processorSeconds(t.process) - processor
	if err != nil || len(times.Each) == 0 {
		return sample{}, err
	}
	return sample{
		requests: len(times.Each), perSecond: times.PerSecond(), p50: times.Milliseconds(0.5), p99: times.Milliseconds(0.99),
		processor: processor * 1e6 / float64(len(times.Each)),
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
		if err := c.SetDeadline(time.Now().Add(length + requestTimeout)); err != nil {
			return open, err
		}
	}
	return open, ctx.Err()
}

func closeAll(open []*connection) {
	for _, c := range open {
		if c != nil {
			_ = c.Close()
		}
	}
}
