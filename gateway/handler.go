package gateway

import (
	"context"
	"errors"
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
)

// wakeAgain is how often an environment that somebody waits for is looked at: it may fall
// asleep in between.
const wakeAgain = 2 * time.Second

// front decides for which environment a request is and whether it may ask what it asks for.
type front struct {
	table atomic.Pointer[route.Table]
	// objects are read for what the table does not have.
	objects client.Reader
	keys    *token.Store
	usage   *usage.Recorder
	pools   *upstream.Pools
	limits  *limits
	metrics *requestMetrics
	// proxy passes a request on; transport is what it and the derived listings send with.
	proxy     http.Handler
	transport http.RoundTripper
}

// exchange is one request on its way.
type exchange struct {
	target    route.Target
	call      upstream.Call
	webSocket bool
	// header has the token; relay, when it is not empty, is what takes its place.
	header, relay string
	// stranger has shown no token: what it may do is up to the pod.
	stranger bool
	outcome  string
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
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	guarded := newGuardedWriter(w, begun)
	e, finished := &exchange{outcome: outcomeAborted}, false
	f.metrics.inFlight.Inc()
	defer func() {
		f.metrics.inFlight.Dec()
		if !finished { // an answer that broke off
			e.outcome = outcomeAborted
		}
		if guarded.status == 0 && e.webSocket {
			guarded.status = http.StatusSwitchingProtocols // written past us
		}
		f.metrics.count(e.kind(), e.outcome, guarded.status, time.Since(begun))
		f.annotate(r.Context(), e)
	}()
	if r.Body != nil && r.Body != http.NoBody {
		body := &guardedBody{ReadCloser: r.Body, control: guarded.control}
		defer body.release()
		r.Body = body
	}
	f.serve(guarded, r, e)
	finished = true
}

// annotate adds to the access log what the request turned out to be for.
func (f *front) annotate(ctx context.Context, e *exchange) {
	serving.Annotate(ctx, "outcome", e.outcome)
	if e.target.Name == "" {
		return
	}
	serving.Annotate(ctx, "account", e.target.Account)
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

func (f *front) serve(w http.ResponseWriter, r *http.Request, e *exchange) {
	e.webSocket = isWebSocket(r)
	if !e.webSocket {
		r.Header.Del("Upgrade") // any other protocol would be out of our sight
	}
	target, err := f.table.Load().HTTP(r.Host, r.URL.EscapedPath(), e.webSocket)
	if err != nil {
		e.outcome = outcomeNoRoute
		refuse(w, http.StatusNotFound, err.Error())
		return
	}
	e.target = target
	if !f.authorize(w, r, e) {
		return
	}
	done, wait := f.limits.take(types.NamespacedName{Namespace: target.Namespace, Name: target.Deployment}, e.stranger)
	if wait > 0 {
		e.outcome = outcomeLimited
		serving.RetryAfter(w, wait)
		refuse(w, http.StatusTooManyRequests, "too many requests to this deployment: wait as long as Retry-After says")
		return
	}
	defer done()
	e.call.Pool = f.pools.Of(target.Namespace, target.Name, engine.PortNameHTTP)
	e.call.Query = dataapi.IsQuery(r.Method, target.Rest)
	if e.stranger && !e.call.Pool.Ready() {
		f.turnAway(w, r, e)
		return
	}
	if target.MaySleep() && !e.stranger {
		f.usage.Used(e.environment())
		if !e.call.Pool.Ready() {
			defer f.wake(r.Context(), e)()
		}
	}
	r = r.WithContext(upstream.WithCall(context.WithValue(r.Context(), exchangeKey{}, e), &e.call))
	if derive := derivations[target.Rest]; derive != nil && slices.Contains([]string{http.MethodGet, http.MethodHead}, r.Method) {
		f.derive(w, r, e, derive)
		return
	}
	f.proxy.ServeHTTP(w, r)
}

// authorize decides with the token what may be asked for, or refuses.
func (f *front) authorize(w http.ResponseWriter, r *http.Request, e *exchange) bool {
	value, header, err := token.Find(r.Header)
	if errors.Is(err, token.ErrNone) && (e.webSocket || isPreflight(r)) {
		// Browsers cannot send a token with either. On a WebSocket it is in the first
		// message, which the pod checks: it knows no metadata key, so a metadata token opens
		// nothing there. A preflight reads no data.
		e.stranger = true
		return true
	}
	kind := token.Kind(0)
	if err == nil {
		kind, e.relay, err = f.keys.Check(r.Context(), e.environment(), value)
	}
	e.header = header
	switch {
	case errors.Is(err, token.ErrAmbiguous):
		refuse(w, http.StatusBadRequest, err.Error())
	case errors.Is(err, token.ErrTooLarge):
		refuse(w, http.StatusRequestHeaderFieldsTooLarge, err.Error())
	case errors.Is(err, token.ErrNone), errors.Is(err, token.ErrInvalid), errors.Is(err, token.ErrExpired), errors.Is(err, token.ErrNotYet):
		e.outcome = outcomeUnauthorized
		w.Header().Set("WWW-Authenticate", `Bearer realm="data API"`)
		refuse(w, http.StatusUnauthorized, err.Error())
	case err != nil:
		f.unavailable(w, r, e, err)
	case kind == token.Metadata && (e.webSocket || !dataapi.IsMetadata(r.Method, e.target.Rest)):
		e.outcome = outcomeForbidden
		refuse(w, http.StatusForbidden, forbidden(e.target.Rest))
	default:
		return true
	}
	return false
}

// forbidden names the scope that a metadata token lacks, in the words of the server.
func forbidden(rest string) string {
	const only = "this token is for metadata only: GET /v1/meta, /v1/entities and /v1/data-sources"
	if scope := dataapi.Scope(rest); scope != dataapi.ScopeMeta {
		return "API scope is missing: " + scope + " (" + only + ")"
	}
	return only
}

// turnAway answers strangers while there is no pod: they neither wake one nor take the place of
// those who wait for one.
func (f *front) turnAway(w http.ResponseWriter, r *http.Request, e *exchange) {
	if e.webSocket {
		f.unavailable(w, r, e, upstream.ErrNoEndpoint)
		return
	}
	e.outcome = outcomePreflight
	answerPreflight(w, r)
}

// wake asks for an environment to be woken until stop is called.
func (f *front) wake(ctx context.Context, e *exchange) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		ticker := time.NewTicker(wakeAgain)
		defer ticker.Stop()
		for !e.call.Pool.Ready() {
			f.usage.Wanted(e.environment())
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

func hasToken(values []string, wanted string) bool {
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(part), wanted) {
				return true
			}
		}
	}
	return false
}

// isPreflight tells whether a browser asks what another site may send (Fetch standard, "CORS
// preflight").
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// answerPreflight says what the server says unless it is configured otherwise. It stands in for
// an environment that sleeps: who has no token does not wake it, and the request that follows
// has one.
func answerPreflight(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", "*")
	header.Set("Access-Control-Allow-Methods", "GET,HEAD,PUT,PATCH,POST,DELETE")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		header.Set("Access-Control-Allow-Headers", asked)
	}
	header.Add("Vary", "Access-Control-Request-Headers")
	w.WriteHeader(http.StatusNoContent)
}

// refuse answers with an error. Scripts of any site may read it, as they may the server's: it
// holds nothing that its reader does not know.
func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	serving.WriteError(w, status, message)
}
