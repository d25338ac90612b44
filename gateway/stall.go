package gateway

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/quoin-dev/quoin/internal/serving"
)

const (
	// stallTimeout is how long a client may neither send nor receive anything. Responses as a whole
	// have no timeout, because they may be streams.
	stallTimeout = 2 * time.Minute
	// bodyTimeout is how long the gateway waits in total for the body of a request, and minBodyRate
	// the octets that extend it by a second: a client must not hold a request with a body that it
	// sends octet by octet.
	bodyTimeout = 20 * time.Second
	minBodyRate = 1 << 10
	// maxDrain limits what is read of the body of a rejected request.
	maxDrain = 64 << 10
)

// errSlowBody means that the client has not sent the body in time. The text is shown to callers.
var errSlowBody = errors.New("the body of the request was not received in time")

// deadlineWriter records the status, and disconnects a client that does not read the response.
// Setting a deadline is expensive, so short responses, which fit into socket buffers, have none.
type deadlineWriter struct {
	http.ResponseWriter
	control     *http.ResponseController
	body        *deadlineBody // nil without a body
	status      int
	written     int
	deadlineSet time.Time
	// onHijack, unless nil, replaces the connection of a WebSocket.
	onHijack func(net.Conn) net.Conn
}

const writeThreshold = 64 << 10

func newDeadlineWriter(w http.ResponseWriter, now time.Time) *deadlineWriter {
	return &deadlineWriter{ResponseWriter: w, control: http.NewResponseController(w), deadlineSet: now}
}

// WriteHeader implements http.ResponseWriter.
func (d *deadlineWriter) WriteHeader(status int) {
	if d.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		d.status = status
		d.drain()
	}
	d.ResponseWriter.WriteHeader(status)
}

// drain limits the time for the rest of the request's body, which net/http reads before the
// response.
func (d *deadlineWriter) drain() {
	if d.body != nil && !d.body.finish() {
		d.Header().Set("Connection", "close")
	}
}

// Write implements http.ResponseWriter.
func (d *deadlineWriter) Write(p []byte) (int, error) {
	if d.status == 0 {
		d.status = http.StatusOK
		d.drain()
	}
	d.written += len(p)
	if now := time.Now(); d.written >= writeThreshold || now.Sub(d.deadlineSet) > stallTimeout/10 {
		d.written, d.deadlineSet = 0, now
		_ = d.control.SetWriteDeadline(now.Add(stallTimeout))
	}
	return d.ResponseWriter.Write(p)
}

// Hijack implements http.Hijacker.
func (d *deadlineWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := d.control.Hijack()
	if err == nil && d.onHijack != nil {
		conn = d.onHijack(conn)
	}
	return conn, buffered, err
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (d *deadlineWriter) Unwrap() http.ResponseWriter { return d.ResponseWriter }

// deadlineBody disconnects a client that does not send its body, or too slowly.
type deadlineBody struct {
	io.ReadCloser
	control *http.ResponseController
	// expectsContinue and http2 are properties of the request.
	expectsContinue, http2 bool
	// waited is the time that was spent waiting for the body, and received what was received.
	waited   time.Duration
	received int64

	mu       sync.Mutex
	deadline time.Time
	// ended means that the body was read completely; finished that the handler reads no
	// more; draining that the rest has a deadline.
	ended, finished, draining bool
}

// Read implements io.Reader.
func (d *deadlineBody) Read(p []byte) (int, error) {
	start := time.Now()
	d.extend(start)
	n, err := d.ReadCloser.Read(p)
	d.waited += time.Since(start)
	d.received += int64(n)
	switch {
	case err == io.EOF:
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ended = true
		// Now net/http reads from the connection to detect that the client disconnects.
		_ = d.control.SetReadDeadline(time.Time{})
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errSlowBody
	}
	return n, err
}

// extend sets the deadline, if it differs by much.
func (d *deadlineBody) extend(now time.Time) {
	left := bodyTimeout + time.Duration(d.received)*time.Second/minBodyRate - d.waited
	deadline := now.Add(min(stallTimeout, left))
	d.mu.Lock()
	defer d.mu.Unlock()
	if difference := deadline.Sub(d.deadline); d.finished || difference.Abs() < stallTimeout/20 {
		return
	}
	d.deadline = deadline
	_ = d.control.SetReadDeadline(deadline)
}

// finish is called before the response. A body that was not read at all, such as that of a rejected
// request, is read up to a limit and within a timeout, so that the connection can be used again. It
// returns false if the connection must be closed instead.
func (d *deadlineBody) finish() bool {
	d.mu.Lock()
	if d.ended || !d.deadline.IsZero() || d.http2 {
		d.mu.Unlock()
		return true
	}
	d.finished = true
	if d.expectsContinue {
		d.mu.Unlock()
		return false // the client sends the body when it is requested
	}
	d.limitDrain()
	d.mu.Unlock()
	if _, err := io.CopyN(io.Discard, d.ReadCloser, maxDrain); !errors.Is(err, io.EOF) {
		return false
	}
	_ = d.control.SetReadDeadline(time.Time{})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	return true
}

// release is called when the handler ends: net/http may read the rest of the body.
func (d *deadlineBody) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.finished = true
	if !d.ended && !d.http2 && !d.draining {
		d.limitDrain()
	}
}

func (d *deadlineBody) limitDrain() {
	d.draining = true
	_ = d.control.SetReadDeadline(time.Now().Add(serving.BodyDrainTimeout))
}
