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
)

// Limits for those who give none.
const (
	defaultBodyLimit   = 1 << 20
	defaultMaxInFlight = 500
)

// WrapOptions say how requests are wrapped.
type WrapOptions struct {
	// Log gets the access log and panics; slog.Default() when nil.
	Log *slog.Logger
	// Registerer of the metrics; nil for none. It can be given to one Wrap only.
	Registerer prometheus.Registerer
	// TrustedProxies are the peers whose X-Forwarded-For is believed; none when empty.
	TrustedProxies []netip.Prefix
	// BodyLimit in bytes; 1 MiB when 0. A longer body is refused with 413 when its
	// length is declared; otherwise reading it ends in an *http.MaxBytesError, for which
	// WriteReadError answers.
	BodyLimit int64
	// Errors says in which form errors are answered on a path; nil, or a nil answer, for the
	// usual one.
	Errors func(path string) ErrorWriter
	// MaxInFlight requests are served at a time; 500 when 0. More are answered with 503.
	MaxInFlight int
}

// layer is one thing that is done around every request.
type layer func(next http.Handler) http.Handler

// Wrap puts around next what every request goes through, outermost first: panics become 500,
// a request id, security headers, the client's address, the access log, metrics, the limit
// of the body, the limit of requests at a time.
func Wrap(next http.Handler, o WrapOptions) http.Handler {
	log := cmp.Or(o.Log, slog.Default())
	measure := layer(func(next http.Handler) http.Handler { return next })
	if o.Registerer != nil {
		measure = newRequestMetrics(o.Registerer).measure
	}
	layers := []layer{
		recoverPanics(log, o.Errors),
		identify,
		secureHeaders,
		findClient(o.TrustedProxies),
		logAccess(log),
		measure,
		limitBody(cmp.Or(o.BodyLimit, defaultBodyLimit)),
		limitInFlight(cmp.Or(o.MaxInFlight, defaultMaxInFlight)),
	}
	for _, l := range slices.Backward(layers) {
		next = l(next)
	}
	return next
}

// WriteReadError answers for an error met while reading the request's body: 413 when the
// body is over the limit, otherwise 400 with a message that does not repeat the error.
func WriteReadError(w http.ResponseWriter, err error) {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		writeTooLarge(w, tooLarge.Limit)
		return
	}
	WriteError(w, http.StatusBadRequest, "the body of the request cannot be read")
}

func writeTooLarge(w http.ResponseWriter, limit int64) {
	WriteError(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body of the request is larger than %d bytes", limit))
}

// recoverPanics begins the exchange and outlives whatever happens in it. When the answer has
// begun, its connection is cut: the caller must not take a part for the whole.
func recoverPanics(log *slog.Logger, errorsOn func(path string) ErrorWriter) layer {
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
				// http.ErrAbortHandler is how a handler asks for the cut.
				if cause == http.ErrAbortHandler { //nolint:errorlint // a panic is compared with the very value, as net/http does
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

// identify gives the request its id: the caller's, if it has the form of one.
func identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if !requestIDForm.MatchString(id) {
			id = rand.Text()
		}
		exchangeOf(r.Context()).id = id
		w.Header().Set("X-Request-Id", id)
		next.ServeHTTP(w, r)
	})
}

// secureHeaders sets what holds for every answer. A handler may replace Cache-Control.
func secureHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Strict-Transport-Security", "max-age=31536000")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func findClient(trusted []netip.Prefix) layer {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			exchangeOf(r.Context()).client = clientAddress(r, trusted)
			next.ServeHTTP(w, r)
		})
	}
}

// logAccess writes one line for each request. Of its headers only the host and the user
// agent are in it, and nothing of the query: tokens are passed in both.
func logAccess(log *slog.Logger) layer {
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

func limitBody(limit int64) layer {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > limit {
				writeTooLarge(w, limit)
				return
			}
			// Only net/http's own writer can be told to close the connection behind a body
			// that is too large.
			r.Body = http.MaxBytesReader(exchangeOf(r.Context()).ResponseWriter, r.Body, limit)
			next.ServeHTTP(w, r)
		})
	}
}

func limitInFlight(limit int) layer {
	return func(next http.Handler) http.Handler {
		slots := make(chan struct{}, limit)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
				next.ServeHTTP(w, r)
			default:
				RetryAfter(w, time.Second)
				WriteError(w, http.StatusServiceUnavailable, "too many requests at a time")
			}
		})
	}
}
