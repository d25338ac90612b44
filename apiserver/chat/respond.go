package chat

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/internal/content/chat"
)

const (
	// keepAlive is the time between two empty lines of a stream without others. The credential of the reader is checked then.
	keepAlive = 10 * time.Second
	// writeTimeout is how long a client may read nothing.
	writeTimeout = time.Minute
)

// reader is the stream of an answer.
type reader struct {
	*Answer
	out     *stream.Writer
	control *http.ResponseController
	// deadline is that of writes, and written is when the last line was.
	deadline, written time.Time
	// look is when the reader looks whether an empty line is due, and whether its credential is valid. The timer calls wake then.
	look  time.Time
	timer clock.Timer
	wake  func()
	// gone is true when the client has disconnected.
	gone atomic.Bool
	// failed is true after an error line.
	failed bool
}

// Serve writes the stream of an answer. It returns at its end, or when the client has disconnected; a run goes on.
func (a *Answer) Serve(ctx context.Context, w http.ResponseWriter) {
	a.service.metrics.streams.Inc()
	defer a.service.metrics.streams.Dec()
	r := &reader{Answer: a, control: http.NewResponseController(w)}
	// The library has set the first one for the body: at its end net/http would end the request.
	_ = r.control.SetReadDeadline(time.Time{}) // not supported by recorders of tests
	r.extend()
	r.out = stream.NewWriter(w)
	err := r.serve(ctx)
	if err != nil && ctx.Err() == nil {
		if !errors.Is(err, errWrite) {
			crlog.FromContext(ctx).Error(err, "A stream of a chat has ended early")
		}
		// The response does not end as a complete one does.
		panic(http.ErrAbortHandler)
	}
}

// errWrite is a failure of the connection.
var errWrite = errors.New("the client does not read")

// extend sets the deadline of writes.
func (r *reader) extend() {
	if now := time.Now(); r.deadline.Sub(now) < writeTimeout/2 {
		r.deadline = now.Add(writeTimeout)
		_ = r.control.SetWriteDeadline(r.deadline) // not supported by recorders of tests
	}
}

func (r *reader) write(line []byte) error {
	r.extend()
	r.written = r.service.Clock.Now()
	r.failed = bytes.HasPrefix(line, []byte(`{"error":`))
	if err := r.out.WriteEncoded(line); err != nil {
		return errors.Join(errWrite, err)
	}
	return nil
}

func (r *reader) writeLine(l stream.Line) error {
	line, err := l.Encode()
	if err != nil {
		return err
	}
	return r.write(line)
}

// serve writes all lines.
func (r *reader) serve(ctx context.Context) error {
	c, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer r.wakeFor(ctx, c.more)()
	for {
		lines, more, err := c.next(ctx)
		if err != nil {
			return err
		}
		for _, line := range lines {
			if err := r.write(line); err != nil {
				return err
			}
		}
		if len(lines) > 0 {
			continue
		}
		if more == nil {
			break
		}
		<-more
		if err := r.woken(ctx); err != nil || r.failed {
			return err
		}
	}
	if r.failed {
		return nil
	}
	return r.end(ctx, c)
}

// begin writes the lines before those of the run, and returns where the run is read from.
func (r *reader) begin(ctx context.Context) (*cursor, error) {
	s, running := r.service, r.thread.RunID != 0
	if r.run != nil {
		running = true // also in a replay, which has the same bytes
	}
	if err := r.writeLine(stream.Cutoff(r.thread.ChatID, running)); err != nil {
		return nil, err
	}
	c := s.cursor(r.account, r.thread.ID)
	c.last = r.thread.LastSort
	switch {
	case r.run == nil:
		c.run, c.after = r.thread.RunID, chat.HistoryStart(r.thread.LastSort)
	case r.begun || r.run.State != chat.Running:
		c.run, c.after = r.run.ID, r.run.After
		return c, nil
	default:
		c.run, c.after = r.run.ID, r.run.After
	}
	// What there is already, as messages; the lines after it continue them.
	lines, err := c.all(ctx)
	if err != nil {
		return nil, err
	}
	m := &stream.Messages{}
	if err := collect(m, lines); err != nil {
		return nil, err
	}
	if lines, err = linesOf(m); err != nil {
		return nil, err
	}
	for _, line := range lines {
		if err := r.write(line); err != nil {
			return nil, err
		}
	}
	// The last line of a run that has failed meanwhile.
	if m.Err() != "" && r.run != nil {
		return c, r.writeLine(stream.Error(m.Err()))
	}
	return c, nil
}

// wakeFor lets the channel on which the reader waits for lines receive too when the client has disconnected, and when it is time to
// look, until stop is called. To wait for one channel is cheaper than for three, and a timer that is not reset for each line too.
func (r *reader) wakeFor(ctx context.Context, more chan<- struct{}) (stop func()) {
	r.wake = func() { notify(more) }
	r.lookLater(r.service.Clock.Now())
	forget := context.AfterFunc(ctx, func() {
		r.gone.Store(true)
		r.wake()
	})
	return func() {
		r.timer.Stop()
		forget()
	}
}

// lookLater sets when the reader looks: if there is no line until then, an empty one is due.
func (r *reader) lookLater(now time.Time) {
	r.look = r.written.Add(keepAlive)
	r.timer = r.service.Clock.AfterFunc(r.look.Sub(now), r.wake)
}

// woken is called when the reader has waited. When it is time to look, it writes an empty line if there was no other one, and ends the
// stream of a reader whose credential is no longer valid.
func (r *reader) woken(ctx context.Context) error {
	if r.gone.Load() {
		return ctx.Err()
	}
	now := r.service.Clock.Now()
	if now.Before(r.look) {
		return nil
	}
	if now.Sub(r.written) >= keepAlive {
		r.extend()
		r.written = now
		if err := r.out.KeepAlive(); err != nil {
			return errors.Join(errWrite, err)
		}
	}
	r.lookLater(now)
	if _, err := auth.Again(ctx); errors.Is(err, auth.ErrNoCredential) || errors.Is(err, auth.ErrForbidden) {
		return r.writeLine(stream.Error("the credential was revoked or has expired"))
	}
	return nil
}

// end writes the last line.
func (r *reader) end(ctx context.Context, c *cursor) error {
	first := c.after
	if r.run != nil {
		first = r.run.After
	}
	line, err := r.service.state(ctx, r.account, r.thread.ID, first, c.after)
	if err != nil {
		return err
	}
	return r.write(line)
}
