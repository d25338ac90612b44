package serving

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// abandonTimeout is how long the rest of a body is read after an error response: a client that sends it
// keeps the connection.
const abandonTimeout = time.Second

// pace limits the duration of a body: grace, and in addition the time that it needs at rate, in bytes
// per second; timeout at most.
type pace struct {
	grace, timeout time.Duration
	rate           int64
}

// paceOf returns the pace of WrapOptions.MinBodyRate.
func paceOf(rate int64) pace { return pace{grace: 10 * time.Second, timeout: time.Minute, rate: rate} }

// ErrSlowBody is returned by reading a body that is slower than WrapOptions.MinBodyRate.
var ErrSlowBody = errors.New("the body of the request arrives too slowly")

// limitBody limits the size of bodies, and their duration if the rate is not 0.
func limitBody(usual int64, limitOf func(*http.Request) int64, p pace) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			limit := usual
			if limitOf != nil {
				limit = cmp.Or(limitOf(r), usual)
			}
			e := exchangeOf(r.Context())
			if p.rate > 0 && r.ContentLength != 0 {
				e.body = &timedBody{ReadCloser: r.Body, control: http.NewResponseController(e.ResponseWriter), pace: p}
				r.Body = e.body
			}
			if r.ContentLength > limit {
				limitDrain(w, r)
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

// timedBody is a body whose reads fail once it is too slow.
type timedBody struct {
	io.ReadCloser

	control *http.ResponseController
	pace    pace
	// deadline moves with the bytes that have been read, up to last. Both are set by the first read.
	deadline, last time.Time
	// ended reports whether the body has been read, or is not read any more.
	ended atomic.Bool
}

// Read implements io.Reader.
func (b *timedBody) Read(data []byte) (int, error) {
	if b.last.IsZero() {
		now := time.Now()
		b.deadline, b.last = now.Add(b.pace.grace), now.Add(b.pace.timeout)
	}
	if !b.ended.Load() {
		// Not supported outside of a server: then there is no deadline.
		_ = b.control.SetReadDeadline(b.deadline)
	}
	n, err := b.ReadCloser.Read(data)
	b.deadline = b.deadline.Add(time.Duration(n) * time.Second / time.Duration(b.pace.rate))
	if b.deadline.After(b.last) {
		b.deadline = b.last
	}
	switch {
	case err == nil:
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, ErrSlowBody
	case errors.Is(err, io.EOF) && !b.ended.Swap(true):
		// net/http reads on to detect that the client has disconnected.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// abandon limits how long net/http reads the rest of the body, which it does before it sends a short
// response, so that a client that does not send it does not keep the connection.
func (b *timedBody) abandon() {
	if !b.ended.Swap(true) {
		_ = b.control.SetReadDeadline(time.Now().Add(abandonTimeout))
	}
}

// BodyDrainTimeout is the timeout for the body of a request that was rejected without reading it.
const BodyDrainTimeout = 2 * time.Second

// limitDrain sets the deadline for the body of a request that is rejected without reading it. Over
// HTTP/1, net/http reads the rest of a body to reuse the connection; without a deadline, a client
// that does not send it would keep the connection. Over HTTP/2, a rejected request does not keep
// anything.
func limitDrain(w http.ResponseWriter, r *http.Request) {
	if exchangeOf(r.Context()).body != nil {
		return // has deadlines of its own
	}
	if r.ProtoMajor == 1 && r.Body != nil && r.Body != http.NoBody {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(BodyDrainTimeout)) // fails only if the client has disconnected
	}
}
