package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// spareFiles are those that a process needs besides its idle connections.
const spareFiles = 2000

// weighed is what a process takes at rest and with idle connections.
type weighed struct {
	name          string
	before, after float64 // MiB
	connections   int
}

// weigh measures the memory of each front in a process that is new.
func (w *world) weigh(ctx context.Context, o options, r *report) error {
	if o.idle == 0 {
		return nil
	}
	if err := allowFiles(uint64(o.idle + spareFiles)); err != nil {
		measure.Progress("SKIPPED LOUDLY: memory with %d connections: %v", o.idle, err)
		r.skipped = append(r.skipped, fmt.Sprintf("memory: **skipped**: %v", err))
		return nil
	}
	for _, t := range w.fronts() {
		measure.Progress("%s with %d idle connections", t.name, o.idle)
		t.process.Stop()
		if err := t.startAndWait(ctx, w.request(pathSmall)); err != nil {
			return err
		}
		m, err := w.weighOne(ctx, t, o.idle)
		if err != nil {
			return fmt.Errorf("%s with %d idle connections: %w", t.name, o.idle, err)
		}
		r.weights = append(r.weights, m)
	}
	return nil
}

// allowFiles raises the limit of open files, of this process and those that it starts.
func allowFiles(wanted uint64) error {
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = max(limit.Cur, wanted)
	limit.Max = max(limit.Max, wanted)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("cannot open %d files: %w", wanted, err)
	}
	return nil
}

// weighOne opens the connections, asks once over each, and looks when nothing has happened for a
// while.
func (w *world) weighOne(ctx context.Context, t *target, n int) (weighed, error) {
	m := weighed{name: t.name, before: settled(ctx, t.process), connections: n}
	open, err := w.openIdle(ctx, t, n)
	defer closeAll(open)
	if err != nil {
		return m, err
	}
	m.after = settled(ctx, t.process)
	for i := 0; i < n; i += max(1, n/100) { // they must not have been closed meanwhile
		if err := open[i].ask(w.request(pathSmall), bytesSmall); err != nil {
			return m, fmt.Errorf("a connection that was idle: %w", err)
		}
	}
	return m, ctx.Err()
}

func (w *world) openIdle(ctx context.Context, t *target, n int) ([]*connection, error) {
	const dialers = 32
	request := w.request(pathSmall)
	open := make([]*connection, n) // nil are those that could not be made
	_, err := measure.Spread(ctx, n, dialers, func(_ context.Context, i int) (_ time.Duration, err error) {
		if open[i], err = t.dial(); err != nil {
			return 0, err
		}
		if err := open[i].allow(2 * time.Minute); err != nil {
			return 0, err
		}
		return 0, open[i].ask(request, bytesSmall)
	})
	return open, err
}

// settled is the memory of a process once it has stayed the same, within a hundredth, for a few
// seconds.
func settled(ctx context.Context, p *process.Process) float64 {
	const (
		often  = 500 * time.Millisecond
		enough = 6
		atMost = 40
	)
	last, same := residentMiB(p), 0
	for i := 0; i < atMost && same < enough && ctx.Err() == nil; i++ {
		time.Sleep(often)
		now := residentMiB(p)
		if change := now - last; change*change < last*last/1e4 {
			same++
			continue
		}
		last, same = now, 0
	}
	return residentMiB(p)
}
