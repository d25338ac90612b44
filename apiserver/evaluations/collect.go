package evaluations

import (
	"context"
	"sync"

	"github.com/quoin-dev/quoin/internal/agent/semantic"
	"github.com/quoin-dev/quoin/internal/agent/stream"
)

// collector has the lines of an answer in memory. It implements agent.Log.
type collector struct {
	mu       sync.Mutex
	sort     int64
	messages stream.Messages
}

// Append implements agent.Log.
func (c *collector) Append(_ context.Context, line stream.Line) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sort++
	line.Sort = c.sort
	c.messages.Add(&line)
	return nil
}

// tables has the result of the last query that has succeeded.
type tables struct {
	mu   sync.Mutex
	last *semantic.Table
}

func (t *tables) add(table *semantic.Table) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = table
}

// take returns the result of the last query, and forgets it; nil if there is none.
func (t *tables) take() *semantic.Table {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.last
	t.last = nil
	return last
}
