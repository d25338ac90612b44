package serving

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"regexp"
	"runtime/debug"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-dev/quoin/internal/tracing"
)

const defaultBodyLimit = 1 << 20

// DefaultMaxInFlight is the default of WrapOptions.MaxInFlight.
const DefaultMaxInFlight = 500

// WrapOptions configure Wrap.
type WrapOptions struct {
	// Log receives the access log and panics; slog.Default() if nil.
	Log *slog.Logger
	// Registerer of the metrics; nil for none. It can be used for one Wrap only.
	Registerer prometheus.Registerer
	// Tracer creates a span for each request; nil for none.
	Tracer *tracing.Tracer
	// TrustedProxies are the peers whose X-Forwarded-For is trusted; none if empty.
	TrustedProxies []netip.Prefix
	// BodyLimit in bytes; 1 MiB if 0. A longer body is rejected with 413 if its length is
	// declared; otherwise reading it returns an *http.MaxBytesError, for WriteReadError.
	BodyLimit int64
	// BodyLimitOf returns another limit for a request; 0 for BodyLimit. It may be nil.
	BodyLimitOf func(*http.Request) int64
	// Errors returns the writer of errors for a path. If Errors or its result is nil, errors have
	// the default form.
	Errors func(path string) ErrorWriter
	// BodyPace limits the time for which the server waits for bodies. Reading a slower body returns
	// ErrSlowBody.
	BodyPace Pace
	// MaxInFlight is the maximum number of concurrent requests; DefaultMaxInFlight if 0. Further
	// requests receive a 503.
	MaxInFlight int
	// IsStream reports whether the response of a request may be a stream that lasts for minutes. Such requests are limited to
	// MaxStreams, and do not count for MaxInFlight. It may be nil.
	IsStream func(*http.Request) bool
	// MaxStreams is the maximum number of concurrent streams. Further ones receive a 503.
	MaxStreams int
	// MaxUnauthenticated is the maximum number of concurrent requests of a client address until the
	// handler calls Authenticated; 0 for no limit. Further requests receive a 429. Clients behind a
	// proxy that is not trusted share an address.
	MaxUnauthenticated int
}

// middleware wraps a handler.
type middleware func(next http.Handler) http.Handler

// Wrap adds the middleware of every request to next, outermost first: panic recovery, request id,
// security headers, client address, pace of refusals, trace, access log, metrics, body limit, concurrency limit.
func Wrap(next http.Handler, o WrapOptions) http.Handler {
	log := cmp.Or(o.Log, slog.Default())
	none := middleware(func(next http.Handler) http.Handler { return next })
	measure, trace := none, none
	if o.Tracer != nil {
		trace = traceRequests(o.Tracer)
	}
	if o.Registerer != nil {
		measure = newRequestMetrics(o.Registerer).measure
	}
	chain := []middleware{
		recoverPanics(log, o.Errors),
		identify,
		secureHeaders,
		findClient(o.TrustedProxies),
		paceRefusals,
		trace,
		logAccess(log),
		measure,
		limitBody(cmp.Or(o.BodyLimit, defaultBodyLimit), o.BodyLimitOf, o.BodyPace),
		limitInFlight(cmp.Or(o.MaxInFlight, DefaultMaxInFlight), o.MaxUnauthenticated, o.IsStream, o.MaxStreams),
	}
	for _, m := range slices.Backward(chain) {
		next = m(next)
	}
	return next
}

// WriteReadError responds to an error of reading the request's body: with 413 if the body exceeds
// the limit, with 408 if it is too slow, otherwise with 400 and a message that does not contain the
// error.
func WriteReadError(w http.ResponseWriter, err error) {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		writeTooLarge(w, tooLarge.Limit)
		return
	}
	if errors.Is(err, ErrSlowBody) {
		WriteError(w, http.StatusRequestTimeout, ErrSlowBody.Error())
		return
	}
	WriteError(w, http.StatusBadRequest, "the body of the request cannot be read")
}

func writeTooLarge(w http.ResponseWriter, limit int64) {
	WriteError(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body of the request is larger than %d bytes", limit))
}

// recoverPanics creates the exchange and recovers from panics. If the response has started, the
// connection is aborted, so that the client does not mistake a part for the complete response.
func recoverPanics(log *slog.Logger, errorsOn func(path string) ErrorWriter) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			e := &exchange{ResponseWriter: w}
			if errorsOn != nil {
				e.errors = errorsOn(r.URL.Path)
			}
			defer func() {
				cause := recover()
				if cause == nil {
					return
				}
				// Handlers abort the connection with http.ErrAbortHandler.
				if cause == http.ErrAbortHandler { //nolint:errorlint // net/http compares the value too
					panic(cause)
				}
				log.Error("Handler panicked", "requestID", e.id, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
				if e.status != 0 {
					panic(http.ErrAbortHandler)
				}
				WriteError(e, http.StatusInternalServerError, "internal error; request id "+e.id)
			}()
			next.ServeHTTP(e, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e)))
		})
	}
}

var requestIDForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// identify sets the request id: the client's, if it is valid, or a new one.
func identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setRequestID(w, r)
		next.ServeHTTP(w, r)
	})
}

// setRequestID sets the id of a request: that of the client if it is one, and otherwise a new one.
func setRequestID(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("X-Request-Id")
	if !requestIDForm.MatchString(id) {
		id = rand.Text()
	}
	exchangeOf(r.Context()).id = id
	w.Header().Set("X-Request-Id", id)
}

// secureHeaders sets the security headers of every response. A handler may replace Cache-Control.
func secureHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Strict-Transport-Security", "max-age=31536000")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func findClient(trusted []netip.Prefix) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			exchangeOf(r.Context()).client = clientAddress(r, trusted)
			next.ServeHTTP(w, r)
		})
	}
}

// logAccess logs one line for each request. Of the headers, it contains only host and user agent;
// the query is omitted. Both may contain tokens.
func logAccess(log *slog.Logger) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			e := exchangeOf(r.Context())
			start, panicked := time.Now(), true
			defer func() {
				status := e.outcome(panicked)
				level := slog.LevelInfo
				if status >= 500 {
					level = slog.LevelWarn
				}
				attributes := []slog.Attr{
					slog.String("method", truncate(r.Method, 16)),
					slog.String("path", truncate(r.URL.Path, maxAnnotationBytes)),
					slog.Int("status", status),
					slog.Int64("bytes", e.bytes),
					slog.Float64("durationSeconds", time.Since(start).Seconds()),
					slog.String("requestID", e.id),
					slog.String("client", e.client.String()),
					slog.String("host", truncate(r.Host, maxAnnotationBytes)),
					slog.String("userAgent", truncate(r.UserAgent(), maxAnnotationBytes)),
				}
				log.LogAttrs(r.Context(), level, "Served request", append(attributes, e.annotated()...)...)
			}()
			next.ServeHTTP(w, r)
			panicked = false
		})
	}
}
