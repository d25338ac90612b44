package chat

import (
	"context"

	"github.com/quoin-dev/quoin/internal/agent/stream"
)

// ChatID returns the id of the thread.
func (a *Answer) ChatID() string { return a.thread.ChatID }

// Wait waits until the message is answered and returns the messages of the run, for callers that do not stream. seen is called with
// each line. The run goes on if the context ends.
func (a *Answer) Wait(ctx context.Context, seen func(*stream.Line)) (*stream.Messages, error) {
	c := a.service.cursor(a.account, a.thread.ID)
	c.run, c.after = a.run.ID, a.run.After
	m := &stream.Messages{}
	for {
		lines, more, err := c.next(ctx)
		if err != nil {
			return nil, err
		}
		for _, body := range lines {
			l, err := stream.Decode(body)
			if err != nil {
				return nil, err
			}
			m.Add(l)
			seen(l)
		}
		switch {
		case len(lines) > 0:
			continue
		case more == nil:
			return m, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-more:
		}
	}
}
