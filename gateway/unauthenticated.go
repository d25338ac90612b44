package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-dev/quoin/gateway/token"
	"github.com/quoin-dev/quoin/gateway/upstream"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/serving/pending"
)

// unauthenticatedTimeout is how long a preflight may take, and how long a WebSocket may be open
// without a valid token.
const unauthenticatedTimeout = 10 * time.Second

// Reasons why a request without a token is ended.
var (
	errEvicted                = errors.New("too many requests without a token: try again")
	errUnauthenticatedTimeout = errors.New("the request did not complete, or no valid token was received, within the time limit")
)

// serveUnauthenticated serves a preflight or a WebSocket without a token. It holds no place of the
// deployment, but one of the unauthenticated requests, until a WebSocket authenticates.
func (h *handler) serveUnauthenticated(w *deadlineWriter, r *http.Request, e *exchange) {
	address := serving.RemoteAddress(r.Context())
	deployment := types.NamespacedName{Namespace: e.target.Namespace, Name: e.target.Deployment}
	if wait := h.limits.admitUnauthenticated(address, deployment); wait > 0 && e.webSocket {
		e.outcome = outcomeLimited
		serving.RetryAfter(w, wait)
		writeError(w, http.StatusTooManyRequests, "too many WebSockets without a token: retry after the delay in Retry-After")
		return
	} else if !e.webSocket && (wait > 0 || !e.call.Pool.Ready()) {
		e.outcome = outcomePreflight
		answerPreflight(w, r)
		return
	}
	if e.webSocket && !e.call.Pool.Ready() {
		h.writeUnavailable(w, r, e, upstream.ErrNoEndpoint) // it neither wakes the environment nor waits
		return
	}
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	peer := h.unauthenticated.Add(serving.Network(address), func() { end(errEvicted) })
	defer peer.Done()
	peer.Join(deployment.String())
	timeout := time.AfterFunc(unauthenticatedTimeout, func() { end(errUnauthenticatedTimeout) })
	defer timeout.Stop()
	r = r.Clone(ctx)
	// The body of a preflight is not read.
	r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil
	r.Header.Del("Content-Length")
	if e.webSocket {
		r.Header.Del("Sec-WebSocket-Extensions") // the message with the token must not be compressed
		a := &authentication{handler: h, request: r, exchange: e, peer: peer, timeout: timeout, end: end}
		defer a.release()
		w.onHijack = a.wrap
	}
	h.proxy.ServeHTTP(w, r)
}

// authentication waits for the token on a WebSocket.
type authentication struct {
	handler  *handler
	request  *http.Request
	exchange *exchange
	peer     *pending.Peer
	timeout  *time.Timer
	end      context.CancelCauseFunc

	mu    sync.Mutex
	done  func() // releases the place of the deployment
	ended bool   // the request has ended: it takes no place any more
}

func (a *authentication) wrap(conn net.Conn) net.Conn {
	conn = &tokenConn{Conn: conn, check: a.check}
	if a.exchange.target.MaySleep() {
		conn = &usedConn{Conn: conn, used: a.used}
	}
	return conn
}

// used records the use of the environment, once the WebSocket has authenticated.
func (a *authentication) used() {
	a.mu.Lock()
	authenticated := a.done != nil
	a.mu.Unlock()
	if authenticated {
		a.handler.usage.Used(a.exchange.environment())
	}
}

// check checks the token of a message. If it is valid for data, the WebSocket takes a place of the
// deployment; if there is none, it is closed. Messages with other tokens are left to the pod.
func (a *authentication) check(value string) bool {
	h, target := a.handler, a.exchange.target
	kind, _, err := h.keys.Check(a.request.Context(), a.exchange.environment(), value)
	if err != nil || !kind.May(token.ReadMetadata|token.RunQueries) {
		return false
	}
	done, wait := h.limits.acquire(types.NamespacedName{Namespace: target.Namespace, Name: target.Deployment})
	if wait > 0 {
		a.end(errEvicted)
		return true
	}
	if !a.hold(done) {
		return false
	}
	if a.timeout.Stop() {
		a.peer.Done()
	}
	serving.Authenticated(a.request, target.Account)
	return true
}

// hold keeps the place of the deployment until release, or returns it at once if the request has ended while its token
// was checked.
func (a *authentication) hold(done func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		done()
		return false
	}
	a.done = done
	return true
}

func (a *authentication) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.done != nil {
		a.done()
	}
}
