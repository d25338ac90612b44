package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/internal/content/chat"
	"github.com/quoin-dev/quoin/internal/store"
)

// slowLog is a store that takes a second for each write.
type slowLog struct {
	mu                      sync.Mutex
	writing, highest, lines int
}

func (s *slowLog) write(lines int) {
	s.mu.Lock()
	s.writing++
	s.highest = max(s.highest, s.writing)
	s.mu.Unlock()
	time.Sleep(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing--
	s.lines += lines
}

func (s *slowLog) AppendAll(_ context.Context, batches ...*chat.Batch) error {
	for _, b := range batches {
		s.write(len(b.Bodies))
	}
	return nil
}

func (s *slowLog) End(_ context.Context, _ *chat.RunLease, _ chat.State, bodies ...[]byte) error {
	s.write(len(bodies))
	return nil
}

// TestFewWriters: of many runs that end together, a few write at a time, and each is stored as a whole.
func TestFewWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowLog{}
		var all sync.WaitGroup
		n := 4 * maxWriters
		for i := range n {
			all.Go(func() {
				l := newLive(s, clock.RealClock{}, &chat.RunLease{}, func(error) {})
				if err := l.Append(t.Context(), stream.Whole("answer", fmt.Sprint(i), stream.PathFinal)); err != nil {
					t.Error(err)
				}
				if err := l.finish(t.Context(), chat.Done); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if s.highest != maxWriters || s.lines != n {
			t.Errorf("%d runs have written at a time, want %d; %d lines are stored, want %d", s.highest, maxWriters, s.lines, n)
		}
	})
}

// unsureLog is a store of one run. Writes whose answers are lost are stored, and fail.
type unsureLog struct {
	lines []string
	lost  int
}

func (u *unsureLog) AppendAll(_ context.Context, batches ...*chat.Batch) error {
	for _, b := range batches {
		switch begin, end := int(b.Lease.LastSort), int(b.Lease.LastSort)+len(b.Bodies); len(u.lines) {
		case begin:
			for _, body := range b.Bodies {
				u.lines = append(u.lines, string(body))
			}
		case end: // they are stored
		default:
			b.Err = chat.ErrLost
			return nil
		}
		if u.lost > 0 {
			u.lost--
			return errors.Join(store.ErrUnavailable, store.ErrUnknownOutcome)
		}
		b.Lease.LastSort += int64(len(b.Bodies))
	}
	return nil
}

func (u *unsureLog) End(ctx context.Context, lease *chat.RunLease, _ chat.State, bodies ...[]byte) error {
	b := &chat.Batch{Lease: lease, Bodies: bodies}
	return errors.Join(u.AppendAll(ctx, b), b.Err)
}

// TestUnknownOutcome: lines that were stored by a write in the background, whose answer is lost, are stored once, and the run goes on.
func TestUnknownOutcome(t *testing.T) {
	for name, further := range map[string][]stream.Line{
		"the end follows":     nil,
		"a tool call follows": {stream.ToolStarted("call", "query", "{}"), stream.ToolEnded("call", "query", "{}", "[]")},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unsureLog{lost: 1}
			l := newLive(u, clock.RealClock{}, &chat.RunLease{}, func(err error) { t.Errorf("the run ends: %v", err) })
			if err := l.Append(t.Context(), stream.Delta("answer", "One, ", stream.PathFinal)); err != nil {
				t.Fatal(err)
			}
			l.storing.Lock()
			l.failed(u.AppendAll(t.Context(), &chat.Batch{Lease: l.lease, Bodies: l.notStored()}))
			l.storing.Unlock()
			for _, line := range further {
				if err := l.Append(t.Context(), line); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.finish(t.Context(), chat.Done, stream.Whole("answer", "One, two.", stream.PathFinal)); err != nil {
				t.Fatal(err)
			}
			if want := 2 + len(further); len(u.lines) != want || !strings.Contains(u.lines[want-1], "One, two.") {
				t.Errorf("the lines are %s", strings.Join(u.lines, "\n"))
			}
		})
	}
}
