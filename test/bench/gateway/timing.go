package main

import (
	"context"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
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
	processor := processorSeconds(t.process)
	times, err := measure.Together(len(open), func(i int, begun time.Time) ([]time.Duration, error) { return send(open[i], i, begun) })
	processor = processorSeconds(t.process) - processor
	if err != nil || len(times.Each) == 0 {
		return turn{}, err
	}
	return turn{
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
		if err := c.allow(length + patience); err != nil {
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
