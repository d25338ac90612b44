package recording

import (
	"context"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// gate is a response that says that something was done only when that is in the log.
type gate struct {
	http.ResponseWriter
	ctx     context.Context //nolint:containedctx // of the request that is answered
	request *Request
	refuse  func(http.ResponseWriter, int, string)

	isOpen, isShut bool
}

// Gate holds an answer back until the outcomes of all that the request has changed are stored. If
// they cannot be, a success becomes a 503 that refuse writes: the change may have been made, its
// event says that it was attempted, and nobody is told that it is done.
func (r *Request) Gate(ctx context.Context, w http.ResponseWriter, refuse func(http.ResponseWriter, int, string)) http.ResponseWriter {
	if r.who == nil {
		return w
	}
	return &gate{ResponseWriter: w, ctx: ctx, request: r, refuse: refuse}
}

// Close stores what is still to be stored of a request that has been answered, or never will be.
func (r *Request) Close(ctx context.Context) {
	if r.who == nil {
		return
	}
	if err := r.settle(ctx); err != nil {
		log.FromContext(ctx).Error(err, "An event of the audit log stays without its outcome")
	}
}

// WriteHeader implements http.ResponseWriter.
func (g *gate) WriteHeader(status int) {
	if g.isOpen || status < http.StatusOK {
		g.ResponseWriter.WriteHeader(status)
		return
	}
	g.isOpen = true
	if err := g.request.settle(g.ctx); err != nil && status < http.StatusBadRequest {
		g.isShut = true
		for _, of := range []string{"Content-Length", "ETag", "Location"} {
			g.Header().Del(of)
		}
		g.refuse(g.ResponseWriter, http.StatusServiceUnavailable, "the change was made, or may have been, and the audit log does not take its outcome: look again later")
		return
	}
	g.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (g *gate) Write(data []byte) (int, error) {
	if !g.isOpen {
		g.WriteHeader(http.StatusOK)
	}
	if g.isShut {
		return len(data), nil
	}
	return g.ResponseWriter.Write(data)
}

// FlushError makes http.ResponseController pass through the gate.
func (g *gate) FlushError() error {
	if !g.isOpen {
		g.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(g.ResponseWriter).Flush()
}

// Unwrap makes the rest of http.ResponseController work.
func (g *gate) Unwrap() http.ResponseWriter { return g.ResponseWriter }
