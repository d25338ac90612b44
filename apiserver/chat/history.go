package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/internal/content/chat"
)

// maxState is the size of the messages of the line __state__ in bytes: it has the last ones.
const maxState = 512 << 10

// collect adds lines as they are stored to messages.
func collect(m *stream.Messages, lines [][]byte) error {
	for _, body := range lines {
		l, err := stream.Decode(body)
		if err != nil {
			return fmt.Errorf("read a chat: %w", err)
		}
		m.Add(l)
	}
	return nil
}

// history returns the messages of a thread through a sort at which no run was in progress, without the oldest lines of a long thread.
// first is the sort before that of the run, or the end of the thread, from which the length counts.
func (s *Service) history(ctx context.Context, account string, thread, first, last int64) (*stream.Messages, error) {
	return s.Threads.Messages(ctx, account, thread, chat.HistoryStart(first), last)
}

// lines returns messages as lines that replace what clients have of them, in the order of their last lines.
func linesOf(m *stream.Messages) ([][]byte, error) {
	all := slices.Clone(m.All())
	slices.SortStableFunc(all, func(a, b stream.Message) int { return cmp.Compare(a.Sort, b.Sort) })
	var out [][]byte
	for i := range all {
		l := all[i].Line()
		body, err := l.Encode()
		if err != nil {
			return nil, err
		}
		out = append(out, body)
	}
	return out, nil
}

// state returns the line __state__: the last messages of a history, as many as fit in. Few are made at a time.
func (s *Service) state(ctx context.Context, account string, thread, first, last int64) ([]byte, error) {
	turn, err := states.Begin(ctx, account)
	if err != nil {
		return nil, err
	}
	defer turn.End()
	m, err := s.history(ctx, account, thread, first, last)
	if err != nil {
		return nil, err
	}
	all := m.All()
	texts := make([][]byte, len(all))
	begin, size := len(all), 0
	for ; begin > 0; begin-- {
		text, err := json.Marshal(&all[begin-1])
		if err != nil {
			return nil, err
		}
		if size += len(text); size > maxState {
			break
		}
		texts[begin-1] = text
	}
	l := stream.State(texts[begin:]...)
	l.Sort = last + 1
	return l.Encode()
}
