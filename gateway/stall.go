package gateway

import (
	"io"
	"net/http"
	"time"
)

// stallTimeout is how long a client may neither send nor receive anything. Responses as a whole
// have no timeout, because they may be streams.
const stallTimeout = 2 * time.Minute

// deadlineWriter records the status, and disconnects a client that does not read the response.
// Setting a deadline is expensive, so short responses, which fit into socket buffers, have none.
type deadlineWriter struct {
	http.ResponseWriter
	control     *http.ResponseController
	status      int
	written     int
	deadlineSet time.Time
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

// Unwrap returns the wrapped writer, for http.ResponseController.
func (d *deadlineWriter) Unwrap() http.ResponseWriter { return d.ResponseWriter }

// deadlineBody disconnects a client that stops sending its body.
type deadlineBody struct {
	io.ReadCloser
	control     *http.ResponseController
	deadlineSet time.Time
}

func (d *deadlineBody) Read(p []byte) (int, error) {
	if now := time.Now(); now.Sub(d.deadlineSet) > stallTimeout/10 {
		d.deadlineSet = now
		_ = d.control.SetReadDeadline(now.Add(stallTimeout))
	}
	n, err := d.ReadCloser.Read(p)
	if err != nil {
		d.release()
	}
	return n, err
}

// release resets the deadline for the next request on the connection.
func (d *deadlineBody) release() {
	if !d.deadlineSet.IsZero() {
		_ = d.control.SetReadDeadline(time.Time{})
	}
}
