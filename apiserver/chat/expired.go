package chat

import (
	"context"
	"errors"

	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/internal/content/chat"
)

const (
	// takeOverBatch is the number of runs that are taken over at once.
	takeOverBatch = 20
	// interrupted is the error of a run whose replica was killed.
	interrupted = "the server that answered has ended: send the message again"
)

// endExpired ends runs of replicas that were killed. What they have said remains.
func (s *Service) endExpired(ctx context.Context) error {
	for {
		leases, failed := s.Threads.TakeOver(ctx, takeOverBatch, s.holder)
		for _, lease := range leases {
			failed = errors.Join(failed, s.endOne(ctx, lease))
		}
		if failed != nil || len(leases) < takeOverBatch {
			return failed
		}
	}
}

// endOne ends a run: its messages that are not complete, and then itself.
func (s *Service) endOne(ctx context.Context, lease *chat.RunLease) error {
	run, err := s.Threads.Run(ctx, lease.Account.UID, lease.Thread, lease.Run)
	if err != nil {
		return err
	}
	c := s.cursor(lease.Account.UID, lease.Thread)
	c.after, c.last = run.After, lease.LastSort
	lines, err := c.all(ctx)
	if err != nil {
		return err
	}
	m := &stream.Messages{}
	if err := collect(m, lines); err != nil {
		return err
	}
	var last []stream.Line
	for i := range m.All() {
		message := &m.All()[i]
		switch {
		case !message.InProcess:
		case message.ToolCall != nil:
			failure := stream.ToolError(agent.AbortError, "the server that ran the tool has ended")
			last = append(last, stream.ToolEnded(message.ID, message.ToolCall.Name, message.ToolCall.Input, failure))
		default:
			whole := stream.Whole(message.ID, message.Content, message.Path...)
			whole.Thinking = message.Thinking
			last = append(last, whole)
		}
	}
	l := newLive(s.Threads, s.Clock, lease, func(error) {})
	s.metrics.ran(chat.Failed, nil)
	return l.finish(ctx, chat.Failed, append(last, stream.Error(interrupted))...)
}
