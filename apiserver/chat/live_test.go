package chat

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/internal/content/chat"
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
