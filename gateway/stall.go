package gateway

import (
	"io"
	"net/http"
	"time"
)

// stallTimeout is how long a caller may neither send nor take anything while it should. The
// answer as a whole has no limit: it may be a stream.
const stallTimeout = 2 * time.Minute

// guardedWriter remembers the status, and cuts a caller that does not take its answer. Moving
// the deadline costs, so a short answer goes without: it fits into the buffers of the network.
type guardedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	status  int
	since   int
	moved   time.Time
}

const unguarded = 64 << 10

func newGuardedWriter(w http.ResponseWriter, now time.Time) *guardedWriter {
	return &guardedWriter{ResponseWriter: w, control: http.NewResponseController(w), moved: now}
}

// WriteHeader implements http.ResponseWriter.
func (g *guardedWriter) WriteHeader(status int) {
	if g.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		g.status = status
	}
	g.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (g *guardedWriter) Write(p []byte) (int, error) {
	if g.status == 0 {
		g.status = http.StatusOK
	}
	g.since += len(p)
	if now := time.Now(); g.since >= unguarded || now.Sub(g.moved) > stallTimeout/10 {
		g.since, g.moved = 0, now
		_ = g.control.SetWriteDeadline(now.Add(stallTimeout))
	}
	return g.ResponseWriter.Write(p)
}

// Unwrap gives http.ResponseController the rest.
func (g *guardedWriter) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// guardedBody cuts a caller that stops sending.
type guardedBody struct {
	io.ReadCloser
	control *http.ResponseController
	moved   time.Time
}

func (g *guardedBody) Read(p []byte) (int, error) {
	if now := time.Now(); now.Sub(g.moved) > stallTimeout/10 {
		g.moved = now
		_ = g.control.SetReadDeadline(now.Add(stallTimeout))
	}
	n, err := g.ReadCloser.Read(p)
	if err != nil {
		g.release()
	}
	return n, err
}

// release takes the deadline back: the connection goes on to the next request.
func (g *guardedBody) release() {
	if !g.moved.IsZero() {
		_ = g.control.SetReadDeadline(time.Time{})
	}
}
