package recording

import (
	"context"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// gate is a response that reports success only after the outcomes are stored.
type gate struct {
	http.ResponseWriter
	ctx     context.Context //nolint:containedctx // of the request that is answered
	request *Request
	refuse  func(http.ResponseWriter, int, string)

	isOpen, isShut bool
}

// Gate returns a response that waits until the outcomes of all changes of the request are stored. If
// that fails, a success becomes a 503, written by refuse: the change may have been made, and its event
// is attempted.
func (r *Request) Gate(ctx context.Context, w http.ResponseWriter, refuse func(http.ResponseWriter, int, string)) http.ResponseWriter {
	r.gate = gate{ResponseWriter: w, ctx: ctx, request: r, refuse: refuse}
	return &r.gate
}

// Close stores the remaining outcomes of a request.
func (r *Request) Close(ctx context.Context) {
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
		g.refuse(g.ResponseWriter, http.StatusServiceUnavailable, "the change may have been made, but its outcome could not be stored in the audit log: check the object and retry if necessary")
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

// FlushError implements http.ResponseController's interface for flushing.
func (g *gate) FlushError() error {
	if !g.isOpen {
		g.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(g.ResponseWriter).Flush()
}

// Unwrap supports http.ResponseController.
func (g *gate) Unwrap() http.ResponseWriter { return g.ResponseWriter }
