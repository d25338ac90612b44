package chat

import (
	"bytes"
	"context"
	"errors"
	"net/http"
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
	// deadline is that of writes, and alive when the credential was checked last.
	deadline, alive time.Time
	// gone is closed when the client has disconnected. It is asked for once: the context of a request is deep.
	gone <-chan struct{}
	// quiet ends keepAlive after the last line.
	quiet clock.Timer
	// failed is true after an error line.
	failed bool
}

// Serve writes the stream of an answer. It returns at its end, or when the client has disconnected; a run goes on.
func (a *Answer) Serve(ctx context.Context, w http.ResponseWriter) {
	a.service.metrics.streams.Inc()
	defer a.service.metrics.streams.Dec()
	r := &reader{Answer: a, control: http.NewResponseController(w), alive: a.service.Clock.Now(), gone: ctx.Done()}
	// The library has set the first one for the body: at its end net/http would end the request.
	_ = r.control.SetReadDeadline(time.Time{}) // not supported by recorders of tests
	r.extend()
	r.out = stream.NewWriter(w)
	err := r.serve(ctx)
	if r.quiet != nil {
		r.quiet.Stop()
	}
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
		if err := r.wait(ctx, more); err != nil || r.failed {
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
	c := &cursor{service: s, account: r.account, thread: r.thread.ID, last: r.thread.LastSort}
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

// wait waits for further lines, and keeps the connection alive.
func (r *reader) wait(ctx context.Context, more <-chan struct{}) error {
	for {
		if r.quiet == nil {
			r.quiet = r.service.Clock.NewTimer(keepAlive)
		} else {
			r.quiet.Reset(keepAlive)
		}
		select {
		case <-r.gone:
			return ctx.Err()
		case <-more:
			return r.check(ctx)
		case <-r.quiet.C():
		}
		r.extend()
		if err := r.out.KeepAlive(); err != nil {
			return errors.Join(errWrite, err)
		}
		if err := r.check(ctx); err != nil || r.failed {
			return err
		}
	}
}

// check ends the stream of a reader whose credential is no longer valid.
func (r *reader) check(ctx context.Context) error {
	now := r.service.Clock.Now()
	if now.Sub(r.alive) < keepAlive {
		return nil
	}
	r.alive = now
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
