package serving

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxAnnotationBytes is the maximum length of a value of Annotate, and of values that the access
// log copies from the request.
const maxAnnotationBytes = 256

// exchange is the state of one request and its response. It is the ResponseWriter of handlers, and
// records the response.
type exchange struct {
	http.ResponseWriter
	// status is the status that was sent, or 0; bytes is the length of the body.
	status int
	bytes  int64
	// id and client are set before the wrapped handler runs.
	id     string
	client netip.Addr
	// errors writes errors in the form of the request's protocol; nil for the default form.
	errors ErrorWriter
	// authenticated releases the place among the unauthenticated requests of the client's address; nil
	// without a limit.
	authenticated func()
	// isAuthenticated is set when the caller has been authenticated, for a WebSocket also by a message after the handler has returned.
	isAuthenticated atomic.Bool
	// body is the body of the request; nil if it has none.
	body *timedBody

	mu          sync.Mutex
	annotations []slog.Attr
}

type exchangeKey struct{}

// exchangeOf returns the exchange of a context, or an empty one outside of Wrap.
func exchangeOf(ctx context.Context) *exchange {
	if e, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return e
	}
	return &exchange{}
}

// RequestID returns the id of the request, which is also in the response's X-Request-Id: 1 to 64
// characters of [A-Za-z0-9_-]; empty outside of Wrap.
func RequestID(ctx context.Context) string { return exchangeOf(ctx).id }

// RemoteAddress returns the address of the client: the peer, or the client for which trusted
// proxies forward the request. Outside of Wrap, it returns the zero Addr, which is not valid.
func RemoteAddress(ctx context.Context) netip.Addr { return exchangeOf(ctx).client }

// ClientNetwork returns the Network of the client. Outside of Wrap, it returns the zero Prefix, which is
// not valid.
func ClientNetwork(ctx context.Context) netip.Prefix { return Network(exchangeOf(ctx).client) }

// Network returns the network by which limits for each client address count: the address itself for
// IPv4, and the /64 prefix for IPv6, because a client can choose its address in it. That of an invalid
// address is the zero Prefix.
func Network(address netip.Addr) netip.Prefix {
	address = address.Unmap()
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	network, err := address.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return network
}

// AnnotationRoute is the annotation for the label route of the metrics. Its value is a pattern such
// as "GET /api/v1/deployments/{id}", never a path: each value is a time series.
const AnnotationRoute = "route"

// Annotate adds an attribute to the access log of the request, or replaces it. The value is
// truncated to 256 bytes and must not be a secret. Outside of Wrap, Annotate does nothing.
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

// annotated returns a copy of the annotations.
func (e *exchange) annotated() []slog.Attr {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.annotations)
}

// outcome returns the status for log and metrics: 500 if the handler panicked, even if it had sent
// another status.
func (e *exchange) outcome(panicked bool) int {
	switch {
	case panicked:
		return http.StatusInternalServerError
	case e.status == 0:
		return http.StatusOK
	}
	return e.status
}

// SetWriteDeadline is called by http.ResponseController.
func (e *exchange) SetWriteDeadline(deadline time.Time) error {
	if e.body != nil {
		e.body.keepResponse()
	}
	return http.NewResponseController(e.ResponseWriter).SetWriteDeadline(deadline)
}

// WriteHeader implements http.ResponseWriter. Informational statuses are not recorded.
func (e *exchange) WriteHeader(status int) {
	if e.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		e.status = status
		e.finishBody()
	}
	e.ResponseWriter.WriteHeader(status)
}

// finishBody limits the time for the body before the response. After an error, no handler reads it.
func (e *exchange) finishBody() {
	switch {
	case e.body == nil:
	case e.status >= http.StatusBadRequest:
		e.body.release()
	case !e.body.finish():
		e.Header().Set("Connection", "close")
	}
}

// Write implements http.ResponseWriter.
func (e *exchange) Write(data []byte) (int, error) {
	e.implyOK()
	n, err := e.ResponseWriter.Write(data)
	e.bytes += int64(n)
	return n, err
}

// FlushError is called by http.ResponseController. Flushing sends the header.
func (e *exchange) FlushError() error {
	e.implyOK()
	return http.NewResponseController(e.ResponseWriter).Flush()
}

// Flush implements http.Flusher for handlers that do not use http.ResponseController.
func (e *exchange) Flush() { _ = e.FlushError() }

// Unwrap returns the wrapped writer, for deadlines and Hijack of http.ResponseController.
func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }

func (e *exchange) implyOK() {
	if e.status == 0 {
		e.status = http.StatusOK
		e.finishBody()
	}
}

func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return s[:limit]
}
