package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/dataplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// work is one way to send requests.
type work struct {
	what        string
	connections int
	size        int
	send        sender
}

// works returns all kinds of work.
func (w *world) works(o options, length time.Duration) []work {
	small, large := w.request(dataplane.PathSmall), w.request(dataplane.PathLarge)
	return []work{
		{fmt.Sprintf("1 KiB, %d connections", o.connections), o.connections, dataplane.BytesSmall, flatOut(small, dataplane.BytesSmall, length)},
		{fmt.Sprintf("100 KiB, %d connections", o.connections), o.connections, dataplane.BytesLarge, flatOut(large, dataplane.BytesLarge, length)},
		{"1 KiB, 1 connection", 1, dataplane.BytesSmall, flatOut(small, dataplane.BytesSmall, length)},
		{fmt.Sprintf("1 KiB, %d/s", o.rate), o.rateConnections, dataplane.BytesSmall, paced(small, dataplane.BytesSmall, o.rate, o.rateConnections, length)},
	}
}

// Indexes of the works above.
const (
	workSmall = iota
	workLarge
	workOne
	workRate
)

// runRounds measures all work with all targets in every round. Each round begins with another target.
func (w *world) runRounds(ctx context.Context, o options, r *report) error {
	targets := w.targets()
	for _, t := range w.proxies() { // requests of the readiness checks
		if _, err := emptyLog(t.accessLog); err != nil {
			return err
		}
	}
	measure.Progress("warming up")
	for _, k := range w.works(o, o.time/4) {
		for _, t := range targets {
			if _, err := measureWork(ctx, t, k, o.time/4); err != nil {
				return err
			}
		}
	}
	for round := range o.rounds {
		measure.Progress("round %d of %d", round+1, o.rounds)
		for i, k := range w.works(o, o.time) {
			for n := range targets {
				t := targets[(n+round)%len(targets)]
				s, err := measureWork(ctx, t, k, o.time)
				if err != nil {
					return err
				}
				r.add(i, k.what, t.name, s)
			}
		}
	}
	return nil
}

// measureWork measures, and checks that the access log has a line for each request.
func measureWork(ctx context.Context, t *target, k work, length time.Duration) (sample, error) {
	s, err := t.measure(ctx, k.connections, length, k.send)
	if err != nil {
		return s, fmt.Errorf("%s, %s: %w", t.name, k.what, err)
	}
	if t.accessLog == "" {
		return s, nil
	}
	// The line may be written after the response.
	lines := 0
	for range 100 {
		more, err := emptyLog(t.accessLog)
		if err != nil {
			return s, err
		}
		if lines += more; lines >= s.requests {
			return s, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return s, fmt.Errorf("%s, %s: %d lines in the access log, want %d", t.name, k.what, lines, s.requests)
}

// emptyLog counts the lines of an access log and truncates it: the disk is not measured.
func emptyLog(file string) (int, error) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	lines, buffer := 0, make([]byte, 1<<20)
	for {
		n, err := f.Read(buffer)
		lines += bytes.Count(buffer[:n], []byte{'\n'})
		if err == io.EOF {
			return lines, f.Truncate(0)
		}
		if err != nil {
			return lines, err
		}
	}
}
