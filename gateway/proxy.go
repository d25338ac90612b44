package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/gateway/token"
	"github.com/quoin-dev/quoin/gateway/upstream"
	"github.com/quoin-dev/quoin/internal/engine/dataapi"
	"github.com/quoin-dev/quoin/internal/serving"
)

// retryAfter is the Retry-After of a 503.
const retryAfter = 5 * time.Second

// newProxy returns the reverse proxy. httputil.ReverseProxy flushes responses of unknown length,
// which may be streams, after each write; for other responses that would only cost system calls.
func (h *handler) newProxy(transport http.RoundTripper, trusted []netip.Prefix, logger *slog.Logger) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport:      transport,
		Rewrite:        func(p *httputil.ProxyRequest) { rewrite(p, trusted) },
		ModifyResponse: modifyResponse,
		ErrorHandler:   h.handleError,
		BufferPool:     &buffers{},
		ErrorLog:       slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Only the server sets these.
		w.Header().Del("Cache-Control")
		w.Header().Del("X-Content-Type-Options")
		proxy.ServeHTTP(w, r)
	})
}

// rewrite sets the path, the forwarding headers and the token of the request to a pod: that which was checked, or the one that it
// was exchanged for.
func rewrite(p *httputil.ProxyRequest, trusted []netip.Prefix) {
	e := exchangeOf(p.In.Context())
	out := p.Out
	out.URL.Scheme, out.URL.Host = "http", "pod" // upstream.Transport sets the address
	setPath(out, e.target.Path)
	out.URL.RawQuery = p.In.URL.RawQuery // unchanged, even if net/url cannot parse it
	p.SetXForwarded()
	if before := p.In.Header["X-Forwarded-For"]; len(before) > 0 && serving.IsTrusted(p.In.RemoteAddr, trusted) {
		out.Header.Set("X-Forwarded-For", strings.Join(append(slices.Clone(before), out.Header.Get("X-Forwarded-For")), ", "))
	}
	out.Header.Set("X-Request-Id", serving.RequestID(p.In.Context()))
	switch {
	case e.exchanged != "":
		out.Header.Del(dataapi.HeaderToken)
		out.Header.Set("Authorization", e.exchanged)
	case e.header != "":
		// A client may name it in Connection, and it is removed then: the pod would use another token than the one that was
		// checked.
		out.Header[e.header] = p.In.Header[e.header]
	}
	if _, sent := p.In.Header["User-Agent"]; !sent {
		out.Header["User-Agent"] = nil // suppresses the default of net/http
	}
}

// setPath sets an escaped path, without re-encoding it.
func setPath(r *http.Request, escaped string) {
	r.URL.Path, r.URL.RawPath = escaped, ""
	if strings.Contains(escaped, "%") {
		if plain, err := url.PathUnescape(escaped); err == nil {
			r.URL.Path, r.URL.RawPath = plain, escaped
		}
	}
}

// modifyResponse sets the outcome, and removes the headers that the gateway sets itself.
func modifyResponse(response *http.Response) error {
	exchangeOf(response.Request.Context()).outcome = outcomeServed
	response.Header.Del("X-Request-Id")
	response.Header.Del("Strict-Transport-Security")
	return nil
}

// handleError responds to a request that no pod has answered.
func (h *handler) handleError(w http.ResponseWriter, r *http.Request, err error) {
	e := exchangeOf(r.Context())
	var tooLarge *http.MaxBytesError
	cause := context.Cause(r.Context())
	switch {
	case errors.Is(err, serving.ErrSlowBody):
		w.Header().Set("Connection", "close")
		writeError(w, http.StatusRequestTimeout, serving.ErrSlowBody.Error())
	case errors.Is(cause, errEvicted):
		e.outcome = outcomeLimited
		writeError(w, http.StatusTooManyRequests, cause.Error())
	case errors.Is(cause, errUnauthenticatedTimeout):
		e.outcome = outcomeFailed
		writeError(w, http.StatusGatewayTimeout, cause.Error())
	case errors.As(err, &tooLarge):
		w.Header().Set("Access-Control-Allow-Origin", "*")
		serving.WriteReadError(w, err)
	case r.Context().Err() != nil:
		// For log and metrics only.
		w.WriteHeader(statusClientClosedRequest)
	default:
		h.writeUnavailable(w, r, e, err)
	}
}

// statusClientClosedRequest is nginx's status for requests whose client has disconnected.
const statusClientClosedRequest = 499

// writeUnavailable responds to a request that cannot be served now.
func (h *handler) writeUnavailable(w http.ResponseWriter, r *http.Request, e *exchange, err error) {
	if errors.Is(err, context.Canceled) {
		w.WriteHeader(statusClientClosedRequest)
		return
	}
	id := serving.RequestID(r.Context())
	logger := log.FromContext(r.Context()).WithValues("requestID", id, "environment", e.environment().String())
	e.outcome = outcomeUnavailable
	serving.RetryAfter(w, retryAfter)
	switch {
	case errors.Is(err, upstream.ErrNoEndpoint), errors.Is(err, upstream.ErrTooManyWaiting), errors.Is(err, token.ErrNoKeys):
		logger.Info("Cannot serve a request", "reason", err.Error())
		writeError(w, http.StatusServiceUnavailable, err.Error()+": try again later")
	case e.call.Address == "":
		logger.Error(err, "Cannot check a token")
		writeError(w, http.StatusServiceUnavailable, "cannot check the token now: try again")
	default:
		e.outcome = outcomeFailed
		logger.Info("A pod did not answer", "pod", e.call.Address, "retries", e.call.Retries, "error", err.Error())
		writeError(w, http.StatusBadGateway, "the environment did not answer; request id "+id)
	}
}

// exchangeOf returns the exchange of a request, or an empty one outside of handler.
func exchangeOf(ctx context.Context) *exchange {
	if e, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return e
	}
	return &exchange{}
}

// buffers is the pool of the buffers that responses are copied with.
type buffers struct{ pool sync.Pool }

const bufferBytes = 32 << 10

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[bufferBytes]byte); ok {
		return buffer[:]
	}
	return make([]byte, bufferBytes)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) {
	if len(buffer) == bufferBytes {
		b.pool.Put((*[bufferBytes]byte)(buffer))
	}
}
