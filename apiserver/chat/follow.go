package chat

import (
	"context"
	"time"

	"github.com/quoin-dev/quoin/internal/content/chat"
)

const (
	// pageLines is the number of lines that are read from the store at once.
	pageLines = 200
	// minPoll and maxPoll are the times between two reads of a run that another replica works on. They double while there is
	// nothing new.
	minPoll = 100 * time.Millisecond
	maxPoll = time.Second
)

// cursor is a place in a thread from which a run is read, wherever it runs.
type cursor struct {
	service *Service
	account string
	thread  int64
	// run is that whose lines are read; 0 for those through last.
	run  int64
	last int64
	// after is the sort of the last line that was read.
	after int64
	poll  time.Duration
	// more receives when there may be further lines. Its buffer is one.
	more chan struct{}
	// tail has the lines that were copied from a run of this replica, and list is the list of them.
	tail lineBuffer
	list [][]byte
}

// cursor returns a cursor at the beginning of a thread. The caller sets what it reads: run or last.
func (s *Service) cursor(account string, thread int64) *cursor {
	return &cursor{service: s, account: account, thread: thread, more: make(chan struct{}, 1)}
}

// next returns the lines after the cursor that there are, and moves it. They are valid until it is called again. If there are none,
// more is nil at the end; otherwise it receives when there may be some.
func (c *cursor) next(ctx context.Context) (lines [][]byte, more <-chan struct{}, err error) {
	if l := c.service.runs.find(c.account, c.run); l != nil {
		clear(c.list) // a long line that was read must not stay in memory
		known, ended := l.after(c.after, &c.tail, c.more)
		switch {
		case !known:
		case len(c.tail.ends) > 0:
			c.list = c.tail.appendTo(c.list[:0], c.after)
			c.after = c.tail.last()
			return c.list, nil, nil
		case ended:
			return nil, nil, nil
		default:
			return nil, c.more, nil
		}
	}
	last, running := c.last, false
	if c.run != 0 {
		// The state first: the lines of a run that has ended are all there.
		r, err := c.service.Threads.Run(ctx, c.account, c.thread, c.run)
		if err != nil {
			return nil, nil, err
		}
		last, running = r.Last, r.State == chat.Running
	}
	read, err := c.service.Threads.Lines(ctx, c.account, c.thread, c.after, pageLines)
	if err != nil {
		return nil, nil, err
	}
	for i := range read {
		if running || read[i].Sort <= last {
			lines = append(lines, read[i].Body)
			c.after = read[i].Sort
		}
	}
	switch {
	case len(lines) > 0:
		c.poll = minPoll
		return lines, nil, nil
	case !running:
		return nil, nil, nil
	}
	c.service.Clock.AfterFunc(max(c.poll, minPoll), func() { notify(c.more) })
	c.poll = min(2*max(c.poll, minPoll), maxPoll)
	return nil, c.more, nil
}

// all returns the lines that there are now.
func (c *cursor) all(ctx context.Context) (all [][]byte, err error) {
	for {
		c.tail, c.list = lineBuffer{}, nil // the caller has those of the last call
		lines, _, err := c.next(ctx)
		if len(lines) == 0 || err != nil {
			return all, err
		}
		all = append(all, lines...)
	}
}
