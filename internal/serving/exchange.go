package serving

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
)

// maxAnnotationBytes bounds a value that Annotate adds, and what the access log takes over
// from the caller.
const maxAnnotationBytes = 256

// exchange is one request with its answer, as Wrap sees it. It is the ResponseWriter that
// handlers get: it remembers what was answered.
type exchange struct {
	http.ResponseWriter
	// status that was sent, 0 before; bytes of the body.
	status int
	bytes  int64
	// id and client are set before any handler but Wrap's own runs.
	id     string
	client netip.Addr
	// errors writes those of the request's protocol; nil for the usual form.
	errors ErrorWriter

	mu          sync.Mutex
	annotations []slog.Attr
}

type exchangeKey struct{}

// exchangeOf is the exchange of a context; an empty one outside of Wrap.
func exchangeOf(ctx context.Context) *exchange {
	if e, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return e
	}
	return &exchange{}
}

// RequestID is the id of the request: 1 to 64 of [A-Za-z0-9_-], the one in the answer's
// X-Request-Id; empty outside of Wrap.
func RequestID(ctx context.Context) string { return exchangeOf(ctx).id }

// RemoteAddress is who the request comes from: the peer, or whom trusted proxies say they
// forward for. It is the zero Addr, which is not valid, outside of Wrap.
func RemoteAddress(ctx context.Context) netip.Addr { return exchangeOf(ctx).client }

// AnnotationRoute is the annotation from which the metrics take their route. Its value is a
// pattern such as "GET /api/v1/deployments/{id}", never a path: each value is a time series.
const AnnotationRoute = "route"

// Annotate adds an attribute to the access log of the request, or replaces it; a value is cut
// at 256 bytes and must not be a secret. It does nothing outside of Wrap.
func Annotate(ctx context.Context, key, value string) {
	e := exchangeOf(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	attribute := slog.String(key, truncate(value, maxAnnotationBytes))
	i := slices.IndexFunc(e.annotations, func(a slog.Attr) bool { return a.Key == key })
	if i < 0 {
		e.annotations = append(e.annotations, attribute)
		return
	}
	e.annotations[i] = attribute
}

// annotated returns all annotations.
func (e *exchange) annotated() []slog.Attr {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.annotations)
}

// outcome is the status that counts. A handler that panicked has failed, whatever it had
// sent by then.
func (e *exchange) outcome(panicked bool) int {
	switch {
	case panicked:
		return http.StatusInternalServerError
	case e.status == 0:
		return http.StatusOK
	}
	return e.status
}

// WriteHeader implements http.ResponseWriter. Informational answers are not the answer.
func (e *exchange) WriteHeader(status int) {
	if e.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		e.status = status
	}
	e.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (e *exchange) Write(data []byte) (int, error) {
	e.implyOK()
	n, err := e.ResponseWriter.Write(data)
	e.bytes += int64(n)
	return n, err
}

// FlushError is what http.ResponseController calls; flushing sends the header.
func (e *exchange) FlushError() error {
	e.implyOK()
	return http.NewResponseController(e.ResponseWriter).Flush()
}

// Flush implements http.Flusher for those who do not use http.ResponseController.
func (e *exchange) Flush() { _ = e.FlushError() }

// Unwrap gives http.ResponseController the deadlines and Hijack of the connection.
func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }

func (e *exchange) implyOK() {
	if e.status == 0 {
		e.status = http.StatusOK
	}
}

func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return s[:limit]
}
