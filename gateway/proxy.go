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

// retryAfter is what callers are told who found no pod.
const retryAfter = 5 * time.Second

// newProxy passes requests on. An answer of unknown length may be a stream, and
// httputil.ReverseProxy flushes it as it comes; for one whose length is known that would cost a
// system call and gain nothing.
func (f *front) newProxy(transport http.RoundTripper, trusted []netip.Prefix, logger *slog.Logger) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport:      transport,
		Rewrite:        func(p *httputil.ProxyRequest) { rewrite(p, trusted) },
		ModifyResponse: answered,
		ErrorHandler:   f.failed,
		BufferPool:     &buffers{},
		ErrorLog:       slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// These are the server's to set, if it likes to.
		w.Header().Del("Cache-Control")
		w.Header().Del("X-Content-Type-Options")
		proxy.ServeHTTP(w, r)
	})
}

// rewrite makes the request that a pod gets: the caller's, but for the path, the forwarding
// headers and a token that only the gateway knows.
func rewrite(p *httputil.ProxyRequest, trusted []netip.Prefix) {
	e := exchangeOf(p.In.Context())
	out := p.Out
	out.URL.Scheme, out.URL.Host = "http", "pod" // upstream.Transport says which
	setPath(out, e.target.Path)
	out.URL.RawQuery = p.In.URL.RawQuery // as it is, even what Go cannot parse
	p.SetXForwarded()
	if before := p.In.Header["X-Forwarded-For"]; len(before) > 0 && serving.IsTrusted(p.In.RemoteAddr, trusted) {
		out.Header.Set("X-Forwarded-For", strings.Join(append(slices.Clone(before), out.Header.Get("X-Forwarded-For")), ", "))
	}
	out.Header.Set("X-Request-Id", serving.RequestID(p.In.Context()))
	if e.relay != "" {
		out.Header.Del(dataapi.HeaderToken)
		out.Header.Set("Authorization", e.relay)
	}
	if _, sent := p.In.Header["User-Agent"]; !sent {
		out.Header["User-Agent"] = nil // net/http would put its own
	}
}

// setPath sets an escaped path, which stays as it is.
func setPath(r *http.Request, escaped string) {
	r.URL.Path, r.URL.RawPath = escaped, ""
	if strings.Contains(escaped, "%") {
		if plain, err := url.PathUnescape(escaped); err == nil {
			r.URL.Path, r.URL.RawPath = plain, escaped
		}
	}
}

// answered notes that a pod has answered. Headers of ours are not there twice.
func answered(response *http.Response) error {
	exchangeOf(response.Request.Context()).outcome = outcomeServed
	response.Header.Del("X-Request-Id")
	response.Header.Del("Strict-Transport-Security")
	return nil
}

// failed answers for a request that no pod has answered.
func (f *front) failed(w http.ResponseWriter, r *http.Request, err error) {
	e := exchangeOf(r.Context())
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		w.Header().Set("Access-Control-Allow-Origin", "*")
		serving.WriteReadError(w, err)
	case r.Context().Err() != nil:
		// Nobody reads it; the log has it. 499 is what nginx calls it.
		w.WriteHeader(statusClientGone)
	default:
		f.unavailable(w, r, e, err)
	}
}

// statusClientGone says in log and metrics that the caller did not wait.
const statusClientGone = 499

// unavailable answers when a request cannot be served now.
func (f *front) unavailable(w http.ResponseWriter, r *http.Request, e *exchange, err error) {
	if errors.Is(err, context.Canceled) {
		w.WriteHeader(statusClientGone)
		return
	}
	id := serving.RequestID(r.Context())
	logger := log.FromContext(r.Context()).WithValues("requestID", id, "environment", e.environment().String())
	e.outcome = outcomeUnavailable
	serving.RetryAfter(w, retryAfter)
	switch {
	case errors.Is(err, upstream.ErrNoEndpoint), errors.Is(err, upstream.ErrTooManyWaiting), errors.Is(err, token.ErrNoKeys):
		logger.Info("Cannot serve a request", "reason", err.Error())
		refuse(w, http.StatusServiceUnavailable, err.Error()+": try again later")
	case e.call.Address == "":
		logger.Error(err, "Cannot check a token")
		refuse(w, http.StatusServiceUnavailable, "cannot check the token now: try again")
	default:
		e.outcome = outcomeFailed
		logger.Info("A pod did not answer", "pod", e.call.Address, "retries", e.call.Retries, "error", err.Error())
		refuse(w, http.StatusBadGateway, "the environment did not answer; request id "+id)
	}
}

// exchangeOf is the exchange of a request; an empty one outside of front.
func exchangeOf(ctx context.Context) *exchange {
	if e, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return e
	}
	return &exchange{}
}

// buffers are those that answers are copied with.
type buffers struct{ pool sync.Pool }

const bufferBytes = 32 << 10

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if held, ok := b.pool.Get().(*[bufferBytes]byte); ok {
		return held[:]
	}
	return make([]byte, bufferBytes)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) {
	if len(buffer) == bufferBytes {
		b.pool.Put((*[bufferBytes]byte)(buffer))
	}
}
