package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// work is one way to send requests.
type work struct {
	what        string
	connections int
	size        int
	send        sender
}

// works are all of them.
func (w *world) works(o options, length time.Duration) []work {
	small, large := w.request(pathSmall), w.request(pathLarge)
	return []work{
		{fmt.Sprintf("1 KiB, %d connections", o.connections), o.connections, bytesSmall, flatOut(small, bytesSmall, length)},
		{fmt.Sprintf("100 KiB, %d connections", o.connections), o.connections, bytesLarge, flatOut(large, bytesLarge, length)},
		{"1 KiB, 1 connection", 1, bytesSmall, flatOut(small, bytesSmall, length)},
		{fmt.Sprintf("1 KiB, %d/s", o.rate), o.rateConnections, bytesSmall, paced(small, bytesSmall, o.rate, o.rateConnections, length)},
	}
}

// Places of the works above.
const (
	workSmall = iota
	workLarge
	workOne
	workRate
)

// takeTurns has all targets do all of the work, round after round; each round begins with another
// one.
func (w *world) takeTurns(ctx context.Context, o options, r *report) error {
	targets := w.targets()
	for _, t := range w.fronts() { // what was asked while they started
		if _, err := emptyLog(t.accessLog); err != nil {
			return err
		}
	}
	measure.Progress("warming up")
	for _, k := range w.works(o, o.time/4) {
		for _, t := range targets {
			if _, err := takeTurn(ctx, t, k, o.time/4); err != nil {
				return err
			}
		}
	}
	for round := range o.rounds {
		measure.Progress("round %d of %d", round+1, o.rounds)
		for i, k := range w.works(o, o.time) {
			for n := range targets {
				t := targets[(n+round)%len(targets)]
				done, err := takeTurn(ctx, t, k, o.time)
				if err != nil {
					return err
				}
				r.add(i, k.what, t.name, done)
			}
		}
	}
	return nil
}

// takeTurn measures, and checks that the access log has had a line for each request.
func takeTurn(ctx context.Context, t *target, k work, length time.Duration) (turn, error) {
	done, err := t.measure(ctx, k.connections, length, k.send)
	if err != nil {
		return done, fmt.Errorf("%s, %s: %w", t.name, k.what, err)
	}
	if t.accessLog == "" {
		return done, nil
	}
	// The line of an answer may be written after it.
	lines := 0
	for range 100 {
		more, err := emptyLog(t.accessLog)
		if err != nil {
			return done, err
		}
		if lines += more; lines >= done.requests {
			return done, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return done, fmt.Errorf("%s, %s: %d lines in the access log, want %d", t.name, k.what, lines, done.requests)
}

// emptyLog counts the lines of an access log and takes them away: the machine's disk is not what is
// measured.
func emptyLog(file string) (int, error) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	lines, room := 0, make([]byte, 1<<20)
	for {
		n, err := f.Read(room)
		lines += bytes.Count(room[:n], []byte{'\n'})
		if err == io.EOF {
			return lines, f.Truncate(0)
		}
		if err != nil {
			return lines, err
		}
	}
}
