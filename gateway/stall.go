package gateway

import (
	"bufio"
	"net"
	"net/http"
	"time"

	"github.com/quoin-dev/quoin/internal/serving"
)

// stallTimeout is how long a client may neither send nor receive anything. Responses as a whole have no
// timeout, because they may be streams.
const stallTimeout = 2 * time.Minute

// bodyPace limits the time of bodies: a client must not hold a request with a body that it sends octet by
// octet.
var bodyPace = serving.Pace{Grace: 20 * time.Second, Rate: 1 << 10, Stall: stallTimeout}

// deadlineWriter records the status, and disconnects a client that does not read the response.
// Setting a deadline is expensive, so short responses, which fit into socket buffers, have none.
type deadlineWriter struct {
	http.ResponseWriter
	control     *http.ResponseController
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
	}
	d.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (d *deadlineWriter) Write(p []byte) (int, error) {
	if d.status == 0 {
		d.status = http.StatusOK
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
