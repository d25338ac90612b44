package upstream

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxRetries = 3
	// retryWindow is how long after the first failure a request is sent again. Waiting for an
	// endpoint does not count: that has a limit of its own.
	retryWindow = 2 * time.Second
	dialTimeout = time.Second
	// idleTimeout is less than the 5 seconds after which the server (Node.js, keepAliveTimeout)
	// closes an idle connection: so nothing is sent into one that is being closed.
	idleTimeout     = 4 * time.Second
	maxIdlePerPod   = 256
	maxHeaderBytes  = 256 << 10
	tcpKeepAlive    = 15 * time.Second
	expectContinues = time.Second
)

// Call is one request: what the transport has to know of it, and what it learnt.
type Call struct {
	Pool *Pool
	// Query says that the request may be sent again although a pod may have read it.
	Query bool

	// Address of the last pod it was sent to, and how often it was sent again.
	Address string
	Retries int

	tried        []*Endpoint
	firstFailure time.Time
	waited       time.Duration
}

var errLost = errors.New("the request cannot be sent again: too much of its body was read")

type callKey struct{}

// WithCall is a context for a request to a pool.
func WithCall(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// Transport sends a request to a pod of the Call in its context.
type Transport struct {
	base    *http.Transport
	metrics *Metrics
}

// NewTransport makes a transport that speaks HTTP/1.1, all that the server knows.
func NewTransport(m *Metrics) *Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: tcpKeepAlive}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return &Transport{metrics: m, base: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			m.Connections.Inc()
			return &countedConn{Conn: conn, closed: m.Connections.Dec}, nil
		},
		Protocols:              protocols,
		DisableCompression:     true, // bodies pass as they are
		MaxIdleConnsPerHost:    maxIdlePerPod,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ExpectContinueTimeout:  expectContinues,
	}}
}

// CloseIdleConnections lets go of what is not in use.
func (t *Transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// countedConn knows whether anything was written to it.
type countedConn struct {
	net.Conn
	writes atomic.Int64
	once   sync.Once
	closed func()
}

// Write counts before it writes, and takes that back when nothing was written: who looks at
// the count in between must not believe that nothing was sent.
func (c *countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	n, err := c.Conn.Write(p)
	if n == 0 && err != nil {
		c.writes.Add(-1)
	}
	return n, err
}

// CloseWrite lets a WebSocket end one direction.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (c *countedConn) Close() error {
	c.once.Do(c.closed)
	return c.Conn.Close()
}

// RoundTrip implements http.RoundTripper. It sends a request again, on another pod if there is
// one, when no pod has got it; a query also when a pod may have got it and has not answered.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	call, ok := r.Context().Value(callKey{}).(*Call)
	if !ok {
		return nil, errors.New("a request without a call")
	}
	body := &replay{source: r.Body}
	// Who expects 100 Continue sends its body when the pod wants it.
	if 0 < r.ContentLength && r.ContentLength <= maxReadAhead && r.Header.Get("Expect") == "" {
		body.readAhead(r.ContentLength)
	}
	for {
		begun := time.Now()
		endpoint, err := call.Pool.Acquire(r.Context(), call.tried)
		if err != nil {
			return nil, err
		}
		call.waited += time.Since(begun)
		response, reason, err := t.attempt(r, body, call, endpoint)
		if reason == "" {
			return response, err
		}
		call.tried = append(call.tried, endpoint)
		if call.firstFailure.IsZero() {
			call.firstFailure, call.waited = time.Now(), 0
		}
		spent := time.Since(call.firstFailure) - call.waited
		draining := response != nil
		if call.Retries >= maxRetries || spent >= retryWindow || body.gone() || draining && !call.Pool.other(call.tried) {
			return response, err
		}
		if draining {
			_ = response.Body.Close()
		}
		call.Retries++
		t.metrics.Retries.WithLabelValues(reason).Inc()
	}
}

func (r *replay) gone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// Why a request may be sent again.
const (
	unreachable = "unreachable" // no connection
	unsent      = "unsent"      // a connection that broke before anything was written
	unanswered  = "unanswered"  // a query whose connection broke before the answer
	draining    = "draining"    // a server that is about to end and takes nothing new
)

// attempt sends the request once. The reason is empty when that was that.
func (t *Transport) attempt(r *http.Request, body *replay, call *Call, e *Endpoint) (*http.Response, string, error) {
	call.Address = e.Address
	var conn net.Conn
	var before int64
	out := r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			conn = info.Conn
			if counted, ok := conn.(*countedConn); ok {
				before = counted.writes.Load()
			}
		},
	}))
	u := *r.URL
	u.Host = e.Address
	out.URL = &u
	if r.Body != nil && r.Body != http.NoBody {
		var whole bool
		if out.Body, whole = body.again(); !whole {
			e.Release()
			return nil, "", errLost
		}
		out.GetBody = nil
	}
	response, err := t.base.RoundTrip(out)
	if err == nil {
		e.Reached()
		release := sync.OnceFunc(e.Release)
		response.Body = released(response.Body, release)
		if call.Query && response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") != "" {
			return response, draining, nil
		}
		return response, "", nil
	}
	e.Release()
	if failure := cmp.Or(body.failure(), r.Context().Err()); failure != nil {
		return nil, "", failure
	}
	counted, ok := conn.(*countedConn)
	operation := &net.OpError{}
	switch {
	case errors.As(err, &operation) && operation.Op == "dial":
		e.Failed()
		return nil, unreachable, err
	case ok && counted.writes.Load() == before:
		return nil, unsent, err
	case call.Query:
		return nil, unanswered, err
	}
	return nil, "", err
}

// releasedBody gives the endpoint back when the answer has been read or let go.
type releasedBody struct {
	io.ReadCloser
	release func()
}

func (b *releasedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.release()
	}
	return n, err
}

func (b *releasedBody) Close() error {
	b.release()
	return b.ReadCloser.Close()
}

// upgradedBody is the connection after 101.
type upgradedBody struct {
	io.ReadWriteCloser
	release func()
}

func (b *upgradedBody) Close() error {
	b.release()
	return b.ReadWriteCloser.Close()
}

func (b *upgradedBody) CloseWrite() error {
	if half, ok := b.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func released(body io.ReadCloser, release func()) io.ReadCloser {
	if both, ok := body.(io.ReadWriteCloser); ok {
		return &upgradedBody{both, release}
	}
	return &releasedBody{body, release}
}
