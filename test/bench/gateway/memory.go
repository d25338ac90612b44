package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/dataplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// spareFiles is the number of open files that a process needs besides its idle connections.
const spareFiles = 2000

// memoryUse is the memory of a process without and with idle connections.
type memoryUse struct {
	name          string
	before, after float64 // MiB
	connections   int
}

// measureMemory measures the memory of each proxy in a new process.
func (w *world) measureMemory(ctx context.Context, o options, r *report) error {
	if o.idle == 0 {
		return nil
	}
	if err := allowFiles(uint64(o.idle + spareFiles)); err != nil {
		measure.Progress("SKIPPED LOUDLY: memory with %d connections: %v", o.idle, err)
		r.skipped = append(r.skipped, fmt.Sprintf("memory: **skipped**: %v", err))
		return nil
	}
	for _, t := range w.proxies() {
		measure.Progress("%s with %d idle connections", t.name, o.idle)
		t.process.Stop()
		if err := t.startAndWait(ctx, w.request(dataplane.PathSmall)); err != nil {
			return err
		}
		m, err := w.memoryOf(ctx, t, o.idle)
		if err != nil {
			return fmt.Errorf("%s with %d idle connections: %w", t.name, o.idle, err)
		}
		r.memory = append(r.memory, m)
	}
	return nil
}

// allowFiles raises the limit of open files, of this process and those that it starts.
func allowFiles(n uint64) error {
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = max(limit.Cur, n)
	limit.Max = max(limit.Max, n)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("cannot open %d files: %w", n, err)
	}
	return nil
}

// memoryOf opens the connections, sends one request over each, and measures when memory is stable.
func (w *world) memoryOf(ctx context.Context, t *target, n int) (memoryUse, error) {
	m := memoryUse{name: t.name, before: stableMemory(ctx, t.process), connections: n}
	open, err := w.openIdle(ctx, t, n)
	defer closeAll(open)
	if err != nil {
		return m, err
	}
	m.after = stableMemory(ctx, t.process)
	for i := 0; i < n; i += max(1, n/100) { // they must still be open
		if err := open[i].send(w.request(dataplane.PathSmall), dataplane.BytesSmall); err != nil {
			return m, fmt.Errorf("an idle connection: %w", err)
		}
	}
	return m, ctx.Err()
}

func (w *world) openIdle(ctx context.Context, t *target, n int) ([]*connection, error) {
	const dialers = 32
	request := w.request(dataplane.PathSmall)
	open := make([]*connection, n) // nil if it could not be opened
	_, err := measure.Spread(ctx, n, dialers, func(_ context.Context, i int) (_ time.Duration, err error) {
		if open[i], err = t.dial(); err != nil {
			return 0, err
		}
		if err := open[i].SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
			return 0, err
		}
		return 0, open[i].send(request, dataplane.BytesSmall)
	})
	return open, err
}

// stableMemory returns the memory of a process after it has not changed by more than 1 % for 3 seconds.
func stableMemory(ctx context.Context, p *process.Process) float64 {
	const (
		interval = 500 * time.Millisecond
		stable   = 6
		limit    = 40
	)
	last, same := residentMiB(p), 0
	for i := 0; i < limit && same < stable && ctx.Err() == nil; i++ {
		time.Sleep(interval)
		now := residentMiB(p)
		if change := now - last; change*change < last*last/1e4 {
			same++
			continue
		}
		last, same = now, 0
	}
	return residentMiB(p)
}
