package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/gateway/route"
	"github.com/quoin-dev/quoin/gateway/token"
	"github.com/quoin-dev/quoin/gateway/upstream"
	"github.com/quoin-dev/quoin/gateway/usage"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/engine/dataapi"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/serving/pending"
	"github.com/quoin-dev/quoin/internal/tracing"
)

// wakeInterval is how often an environment is requested to wake while a request waits: it may go
// to sleep in between.
const wakeInterval = 2 * time.Second

// handler routes and authorizes requests.
type handler struct {
	table atomic.Pointer[route.Table]
	// objects reads what is not in the table.
	objects client.Reader
	keys    *token.Store
	usage   *usage.Recorder
	pools   *upstream.Pools
	limits  *limits
	metrics *requestMetrics
	// unauthenticated are the requests without a token that are forwarded.
	unauthenticated *pending.Set
	// connections limits the HTTP connections; sqlPending are the SQL connections that have not
	// logged in.
	connections *serving.Connections
	sqlPending  *pending.Set
	handshakes  *serving.Handshakes
	// listings limit the derived listings.
	listings *listings
	// proxy forwards requests; transport is used by it and for derived listings.
	proxy     http.Handler
	transport http.RoundTripper
}

// exchange is the state of one request.
type exchange struct {
	target    route.Target
	call      upstream.Call
	webSocket bool
	// header is the name of the header with the token; exchanged, unless it is empty, is the token
	// that replaces it.
	header, exchanged string
	// unauthenticated is set for requests without a token that the pod authorizes.
	unauthenticated bool
	outcome         string
}

type exchangeKey struct{}

func (e *exchange) kind() string {
	if e.target.Type == "" {
		return kindNone
	}
	return string(e.target.Type)
}

func (e *exchange) environment() types.NamespacedName {
	return types.NamespacedName{Namespace: e.target.Namespace, Name: e.target.Name}
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	writer := newDeadlineWriter(w, start)
	e, finished := &exchange{outcome: outcomeAborted}, false
	h.metrics.inFlight.Inc()
	defer func() {
		h.metrics.inFlight.Dec()
		if !finished { // panicked, such as by http.ErrAbortHandler
			e.outcome = outcomeAborted
		}
		if writer.status == 0 && e.webSocket {
			writer.status = http.StatusSwitchingProtocols // written to the hijacked connection
		}
		h.metrics.count(e, writer.status, time.Since(start))
		h.annotate(r.Context(), e)
	}()
	h.serve(writer, r, e)
	finished = true
}

// annotate adds the target and the outcome to the access log.
func (h *handler) annotate(ctx context.Context, e *exchange) {
	serving.Annotate(ctx, "outcome", e.outcome)
	if e.target.Name == "" {
		return
	}
	tracing.SetTarget(ctx, e.target.Account, e.target.Deployment)
	serving.Annotate(ctx, serving.AnnotationAccount, e.target.Account)
	serving.Annotate(ctx, "environment", e.target.Name)
	if e.call.Address != "" {
		serving.Annotate(ctx, "pod", e.call.Address)
	}
	if e.webSocket {
		serving.Annotate(ctx, "webSocket", "true")
	}
	if e.call.Retries > 0 {
		serving.Annotate(ctx, "retries", strconv.Itoa(e.call.Retries))
	}
}

func (h *handler) serve(w *deadlineWriter, r *http.Request, e *exchange) {
	e.webSocket = isWebSocket(r)
	if !e.webSocket {
		r.Header.Del("Upgrade") // other protocols could not be inspected
	}
	target, err := h.table.Load().HTTP(r.Host, r.URL.EscapedPath(), e.webSocket)
	if err != nil {
		e.outcome = outcomeNoRoute
		writeError(w, http.StatusNotFound, err.Error())
		return
	}
	e.target = target
	if e.webSocket && r.ContentLength != 0 {
		writeError(w, http.StatusBadRequest, "a request for a WebSocket must not have a body")
		return
	}
	if !h.authorize(w, r, e) {
		return
	}
	e.call.Pool = h.pools.Get(target.Namespace, target.Name, engine.PortNameHTTP)
	e.call.Query = dataapi.IsQuery(r.Method, target.Rest)
	r = r.WithContext(upstream.WithCall(context.WithValue(r.Context(), exchangeKey{}, e), &e.call))
	if e.unauthenticated {
		h.serveUnauthenticated(w, r, e)
		return
	}
	serving.Authenticated(r, target.Account)
	h.serveAuthenticated(w, r, e)
}

func (h *handler) serveAuthenticated(w *deadlineWriter, r *http.Request, e *exchange) {
	target := e.target
	done, wait := h.limits.acquire(types.NamespacedName{Namespace: target.Namespace, Name: target.Deployment})
	if wait > 0 {
		e.outcome = outcomeLimited
		serving.RetryAfter(w, wait)
		writeError(w, http.StatusTooManyRequests, "too many requests to this deployment or its account: retry after the delay in Retry-After")
		return
	}
	defer done()
	if target.MaySleep() {
		h.usage.Used(e.environment())
		if !e.call.Pool.Ready() {
			defer h.wake(r.Context(), e)()
		}
		if e.webSocket {
			w.onHijack = func(conn net.Conn) net.Conn {
				return &usedConn{Conn: conn, used: func() { h.usage.Used(e.environment()) }}
			}
		}
	}
	if derive := derivations[target.Rest]; derive != nil && slices.Contains([]string{http.MethodGet, http.MethodHead}, r.Method) {
		h.derive(w, r, e, derive)
		return
	}
	h.proxy.ServeHTTP(w, r)
}

// authorize checks the token and whether it permits the request. If not, it writes an error and
// returns false.
func (h *handler) authorize(w http.ResponseWriter, r *http.Request, e *exchange) bool {
	value, header, err := token.Find(r.Header)
	if errors.Is(err, token.ErrNone) && (e.webSocket || isPreflight(r)) {
		// Browsers cannot send a token with either. On a WebSocket, the token is in the first
		// message, which the pod checks: it does not know the metadata key, so it rejects metadata
		// tokens. A preflight reads no data.
		e.unauthenticated = true
		return true
	}
	kind := token.Kind(0)
	if err == nil {
		kind, e.exchanged, err = h.keys.Check(r.Context(), e.environment(), value)
	}
	e.header = header
	switch {
	case errors.Is(err, token.ErrAmbiguous):
		writeError(w, http.StatusBadRequest, err.Error())
	case errors.Is(err, token.ErrTooLarge):
		writeError(w, http.StatusRequestHeaderFieldsTooLarge, err.Error())
	case errors.Is(err, token.ErrNone), errors.Is(err, token.ErrInvalid), errors.Is(err, token.ErrExpired), errors.Is(err, token.ErrNotYet):
		e.outcome = outcomeUnauthorized
		w.Header().Set("WWW-Authenticate", `Bearer realm="data API"`)
		writeError(w, http.StatusUnauthorized, err.Error())
	case err != nil:
		h.writeUnavailable(w, r, e, err)
	case !kind.May(token.RunQueries) && (e.webSocket || !kind.May(token.ReadMetadata) || !dataapi.IsMetadata(r.Method, e.target.Rest)):
		e.outcome = outcomeForbidden
		writeError(w, http.StatusForbidden, forbidden(e.target.Rest))
	case kind.May(token.RunQueries) && !kind.May(token.RunSQL) && !e.webSocket && dataapi.MayRunSQL(e.target.Rest):
		e.outcome = outcomeForbidden
		writeError(w, http.StatusForbidden, "this token is for queries, and not for SQL: its user needs the permission SqlRunnerRead")
	case !kind.May(token.ReadMetadata) && (e.webSocket || dataapi.MayReadMetadata(e.target.Rest)):
		e.outcome = outcomeForbidden
		writeError(w, http.StatusForbidden, "this token is for queries, and not for metadata, GraphQL or WebSockets: its user needs the permission SchemaRead")
	default:
		return true
	}
	return false
}

// forbidden returns the error for a metadata token without the required scope, with the server's
// message.
func forbidden(rest string) string {
	const only = "this token is for metadata only: GET /v1/meta, /v1/entities and /v1/data-sources"
	if scope := dataapi.Scope(rest); scope != dataapi.ScopeMeta {
		return "API scope is missing: " + scope + " (" + only + ")"
	}
	return only
}

// wake requests that an environment wakes until it has a pod or stop is called.
func (h *handler) wake(ctx context.Context, e *exchange) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		ticker := time.NewTicker(wakeInterval)
		defer ticker.Stop()
		for !e.call.Pool.Ready() {
			h.usage.RequestWake(e.environment())
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return cancel
}

func isWebSocket(r *http.Request) bool {
	return r.Method == http.MethodGet && r.ProtoMajor == 1 &&
		hasToken(r.Header.Values("Connection"), "upgrade") && hasToken(r.Header.Values("Upgrade"), "websocket")
}

// hasToken reports whether a comma-separated header contains a token.
func hasToken(values []string, token string) bool {
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// isPreflight reports whether a request is a CORS preflight (Fetch standard, "CORS-preflight
// request").
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// answerPreflight responds to a preflight with the server's defaults, on behalf of a sleeping
// environment: requests without a token do not wake it, but the request that follows does.
func answerPreflight(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", "*")
	header.Set("Access-Control-Allow-Methods", "GET,HEAD,PUT,PATCH,POST,DELETE")
	if requested := r.Header.Get("Access-Control-Request-Headers"); requested != "" {
		header.Set("Access-Control-Allow-Headers", requested)
	}
	header.Add("Vary", "Access-Control-Request-Headers")
	w.WriteHeader(http.StatusNoContent)
}

// writeError writes an error. Like the server's errors, it is readable by scripts of any origin,
// and it contains nothing that the caller does not know.
func writeError(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	serving.WriteError(w, status, message)
}
