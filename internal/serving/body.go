package serving

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	// drainTimeout is how long the rest of a body is read that no handler reads, so that the connection can be
	// used again.
	drainTimeout = 2 * time.Second
	// maxDrain limits what is read of a body that no handler has read.
	maxDrain = 64 << 10
)

// Pace limits the time that the server waits for a body. The zero Pace does not.
type Pace struct {
	// Grace is how long the server waits for a body in total, and Rate the bytes that extend this time by a
	// second. The time in which a handler does not read does not count.
	Grace time.Duration
	Rate  int64
	// Timeout limits the extended time, and Stall the wait for the next bytes; 0 for no limit.
	Timeout, Stall time.Duration
}

// left returns how long the next read may take after the server has waited and received.
func (p Pace) left(waited time.Duration, received int64) time.Duration {
	total := p.Grace + time.Duration(received)*time.Second/time.Duration(p.Rate)
	if p.Timeout > 0 {
		total = min(total, p.Timeout)
	}
	if p.Stall > 0 {
		return min(total-waited, p.Stall)
	}
	return total - waited
}

// tolerance is the difference for which a deadline is not set again: setting it is expensive.
func (p Pace) tolerance() time.Duration { return p.Grace / 10 }

// ErrSlowBody is returned by reading a body that is slower than WrapOptions.BodyPace. It is a timeout as
// net.Error defines it.
var ErrSlowBody error = slowBodyError{}

type slowBodyError struct{}

func (slowBodyError) Error() string   { return "the body of the request arrives too slowly" }
func (slowBodyError) Timeout() bool   { return true }
func (slowBodyError) Temporary() bool { return false }

// limitBody limits the size of bodies and the time that the server waits for them.
func limitBody(usual int64, limitOf func(*http.Request) int64, p Pace) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			limit := usual
			if limitOf != nil {
				limit = cmp.Or(limitOf(r), usual)
			}
			e := exchangeOf(r.Context())
			if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 {
				e.body = newTimedBody(e.ResponseWriter, r, p)
				defer e.body.release()
				r.Body = e.body
			}
			if r.ContentLength > limit {
				writeTooLarge(w, limit)
				return
			}
			// MaxBytesReader needs the writer of net/http to close the connection after a body that
			// is too large.
			r.Body = http.MaxBytesReader(e.ResponseWriter, r.Body, limit)
			next.ServeHTTP(w, r)
		})
	}
}

// timedBody is a body whose reads fail once it is too slow. What the handler does not read, net/http reads
// before it sends a short response over HTTP/1, to use the connection again: without a deadline, a client
// that does not send it would keep the connection. Over HTTP/2 it keeps nothing.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
	pace    Pace
	// expectsContinue and isHTTP1 are properties of the request.
	expectsContinue, isHTTP1 bool
	// waited is the time that was spent waiting for the body, and received what was received.
	waited   time.Duration
	received int64

	// writeTimeout is that of the server for responses; 0 for none.
	writeTimeout time.Duration

	mu       sync.Mutex
	deadline time.Time
	// answerBy is the deadline of the response. It moves with that of a slow body, unless isSet: then it is the handler's.
	answerBy time.Time
	isSet    bool
	// begun means that a handler has begun to read, ended that the body was read completely, and finished that
	// the rest has a deadline, which reads do not extend.
	begun, ended, finished bool
}

func newTimedBody(w http.ResponseWriter, r *http.Request, p Pace) *timedBody {
	b := &timedBody{
		ReadCloser: r.Body, control: http.NewResponseController(w), pace: p,
		expectsContinue: r.Header.Get("Expect") != "", isHTTP1: r.ProtoMajor == 1,
	}
	if s, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && s.WriteTimeout > 0 {
		b.writeTimeout, b.answerBy = s.WriteTimeout, time.Now().Add(s.WriteTimeout)
	}
	return b
}

// Read implements io.Reader.
func (b *timedBody) Read(data []byte) (int, error) {
	start := time.Now()
	b.extend(start)
	n, err := b.ReadCloser.Read(data)
	b.waited += time.Since(start)
	b.received += int64(n)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.end()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, ErrSlowBody
	}
	return n, err
}

// extend sets the deadline of the next read, if it differs by much.
func (b *timedBody) extend(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begun = true
	if b.pace.Rate == 0 || b.finished {
		return
	}
	deadline := now.Add(b.pace.left(b.waited, b.received))
	if deadline.Sub(b.deadline).Abs() < b.pace.tolerance() {
		return
	}
	b.deadline = deadline
	_ = b.control.SetReadDeadline(deadline) // not supported outside of a server: then there is no deadline
	b.extendResponse()
}

// extendResponse lets a response to a slow body, such as 408, have half of its timeout at least: net/http counts it from the
// headers of the request. The caller holds mu.
func (b *timedBody) extendResponse() {
	if b.writeTimeout == 0 || b.isSet || !b.deadline.Add(b.writeTimeout/2).After(b.answerBy) {
		return
	}
	b.answerBy = b.deadline.Add(b.writeTimeout)
	_ = b.control.SetWriteDeadline(b.answerBy) // fails only if the client has disconnected
}

// keepResponse is called when the handler sets the deadline of the response.
func (b *timedBody) keepResponse() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isSet = true
}

// end records that the body was read. From now on net/http reads from the connection to detect that the client
// disconnects.
func (b *timedBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.ended = true
		_ = b.control.SetReadDeadline(time.Time{})
	}
}

// finish is called before a response that is no error. A body that was not read at all is read up to a limit
// and within a timeout: the deadline of net/http's own reading would end the request. It returns false if the
// connection must be closed instead.
func (b *timedBody) finish() bool {
	b.mu.Lock()
	if b.begun || b.ended || b.finished || !b.isHTTP1 || b.expectsContinue {
		defer b.mu.Unlock()
		return b.begun || !b.expectsContinue // the client sends the body when it is requested
	}
	b.limitDrain()
	b.mu.Unlock()
	if _, err := io.CopyN(io.Discard, b.ReadCloser, maxDrain); !errors.Is(err, io.EOF) {
		return false
	}
	b.end()
	return true
}

// release is called when the handler reads no more, such as after an error. It limits the time for the rest of
// the body, which net/http reads after the handler has ended: a rejected request holds no place meanwhile.
func (b *timedBody) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended && !b.finished && b.isHTTP1 {
		b.limitDrain()
	}
}

// InterruptBody ends the reading of the body of a request, by any goroutine, with ErrSlowBody. Outside of Wrap, and
// after the body was read, it does nothing.
func InterruptBody(ctx context.Context) {
	if b := exchangeOf(ctx).body; b != nil {
		b.interrupt()
	}
}

func (b *timedBody) interrupt() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.finished = true
		_ = b.control.SetReadDeadline(time.Now()) // fails only if the client has disconnected
	}
}

func (b *timedBody) limitDrain() {
	b.finished = true
	_ = b.control.SetReadDeadline(time.Now().Add(drainTimeout)) // fails only if the client has disconnected
}
