package chat

import (
	"context"
	"errors"
	"slices"
	"time"

	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/content/chat"
	"github.com/quoin-dev/quoin/internal/store"
)

const (
	// keepInterval is the time between two looks at the runs of this replica: writes of many runs are spread over storeInterval.
	keepInterval = 50 * time.Millisecond
	// keepBatch is the number of runs whose lines are stored in one transaction.
	keepBatch = 64
)

// keep stores the lines with text of the runs of this replica, renews their leases, and ends those whose abort another replica has
// received, while there are runs.
func (s *Service) keep() {
	ctx := context.Background()
	ticker := s.Clock.NewTicker(keepInterval)
	defer ticker.Stop()
	looked := s.Clock.Now()
	for {
		<-ticker.C()
		all, ended := s.runs.list()
		if ended {
			return
		}
		if s.Clock.Since(looked) >= storeInterval {
			looked = s.Clock.Now()
			s.abortRequested(ctx)
		}
		due := s.due(all)
		for batch := range slices.Chunk(due, keepBatch) {
			s.storeAll(ctx, batch)
		}
	}
}

// due returns the runs that are written now, those first whose last write was first. Writes of many runs that began together are
// spread.
func (s *Service) due(all []*live) []*live {
	now := s.Clock.Now()
	type waiting struct {
		*live
		since time.Time
	}
	var out []waiting
	for _, l := range all {
		if since, is := l.due(now); is {
			out = append(out, waiting{l, since})
		}
	}
	slices.SortFunc(out, func(a, b waiting) int { return a.since.Compare(b.since) })
	share := max(keepBatch, len(all)/int(storeInterval/keepInterval)+1)
	due := make([]*live, 0, min(len(out), share))
	for _, w := range out[:min(len(out), share)] {
		due = append(due, w.live)
	}
	return due
}

// due reports whether a run is written now, and when it was last. One that is being written is not.
func (l *live) due(now time.Time) (since time.Time, is bool) {
	if !l.storing.TryLock() {
		return now, false
	}
	defer l.storing.Unlock()
	idle := now.Sub(l.written)
	return l.written, idle >= renewInterval || idle >= storeInterval && l.unstored() > 0
}

// storeAll writes runs in one transaction. A failure is tried again with the next write, until storeTimeout.
func (s *Service) storeAll(ctx context.Context, runs []*live) {
	var held []*live
	var batches []*chat.Batch
	for _, l := range runs {
		if l.storing.TryLock() { // otherwise it is being written
			held, batches = append(held, l), append(batches, &chat.Batch{Lease: l.lease, Bodies: l.notStored()})
		}
	}
	ctx, stop := context.WithTimeout(ctx, storeTimeout)
	defer stop()
	err := s.Threads.AppendAll(ctx, batches...)
	for i, l := range held {
		failed := err
		if err != nil && len(held) > 1 && !errors.Is(err, store.ErrUnavailable) {
			// One of them may be the reason, and the others can be stored.
			failed = s.Threads.AppendAll(ctx, batches[i])
		}
		if failed == nil {
			failed = batches[i].Err
		}
		if failed == nil {
			l.wrote(len(batches[i].Bodies))
		} else {
			l.failed(failed)
		}
		l.storing.Unlock()
	}
}

// failed notes a failure of a write in the background. The caller holds storing.
func (l *live) failed(err error) {
	now := l.clock.Now()
	l.tried = len(l.batch)
	if l.failing.IsZero() {
		l.failing = now
	}
	if final(err) || now.Sub(l.failing) >= storeTimeout {
		l.cancel(err)
	}
}

// abortRequested ends the runs whose abort another replica has received.
func (s *Service) abortRequested(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, storeTimeout)
	defer stop()
	requested, err := s.Threads.Aborts(ctx, s.holder)
	if err != nil {
		crlog.Log.Error(err, "Aborts of chats that other replicas have received are not known") // the next write of each run has its own
		return
	}
	for account, runs := range requested {
		for _, run := range runs {
			if l := s.runs.find(account, run); l != nil {
				l.cancel(agent.ErrAborted)
			}
		}
	}
}
