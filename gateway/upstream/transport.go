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
	// retryWindow is how long after the first failure a request is retried. Waiting for an
	// endpoint does not count: it has its own timeout.
	retryWindow = 2 * time.Second
	dialTimeout = time.Second
	// idleTimeout is shorter than the 5 seconds after which the server (Node.js,
	// keepAliveTimeout) closes an idle connection, so that no request is sent on a connection
	// that is being closed.
	idleTimeout           = 4 * time.Second
	maxIdlePerPod         = 256
	maxHeaderBytes        = 256 << 10
	tcpKeepAlive          = 15 * time.Second
	expectContinueTimeout = time.Second
)

// Call holds the parameters of one request, and what the transport records about it.
type Call struct {
	Pool *Pool
	// Query means that the request may be retried although a pod may have read it.
	Query bool

	// Address is the last pod that it was sent to, and Retries the number of retries.
	Address string
	Retries int

	tried        []*Endpoint
	firstFailure time.Time
	waited       time.Duration
}

var errNotReplayable = errors.New("the request cannot be retried: its body exceeds the replay buffer")

type callKey struct{}

// WithCall returns a context with a call.
func WithCall(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// Transport sends a request to a pod of the Call in its context.
type Transport struct {
	base    *http.Transport
	metrics *Metrics
}

// NewTransport returns a transport for HTTP/1.1, the only version that the server supports.
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
		DisableCompression:     true, // bodies are forwarded unchanged
		MaxIdleConnsPerHost:    maxIdlePerPod,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ExpectContinueTimeout:  expectContinueTimeout,
	}}
}

// CloseIdleConnections closes the connections that are not in use.
func (t *Transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// countedConn counts the writes to a connection.
type countedConn struct {
	net.Conn
	writes atomic.Int64
	once   sync.Once
	closed func()
}

// Write counts before it writes, and corrects the count if nothing was written: a concurrent
// reader of the count must not conclude that nothing was sent.
func (c *countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	n, err := c.Conn.Write(p)
	if n == 0 && err != nil {
		c.writes.Add(-1)
	}
	return n, err
}

// CloseWrite closes the write side of a WebSocket.
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

// RoundTrip implements http.RoundTripper. It retries a request, on another pod if possible, if no
// pod has received it; a query also if a pod may have received it but has not answered.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	call, ok := r.Context().Value(callKey{}).(*Call)
	if !ok {
		return nil, errors.New("the request has no call in its context")
	}
	body := &replay{source: r.Body}
	// With Expect: 100-continue, the client sends its body when the pod requests it.
	if 0 < r.ContentLength && r.ContentLength <= maxReadAhead && r.Header.Get("Expect") == "" {
		body.readAhead(r.ContentLength)
	}
	for {
		start := time.Now()
		endpoint, err := call.Pool.Acquire(r.Context(), call.tried)
		if err != nil {
			return nil, err
		}
		call.waited += time.Since(start)
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
		if call.Retries >= maxRetries || spent >= retryWindow || body.truncated() || draining && !call.Pool.hasUntried(call.tried) {
			return response, err
		}
		if draining {
			_ = response.Body.Close()
		}
		call.Retries++
		t.metrics.Retries.WithLabelValues(reason).Inc()
	}
}

func (r *replay) truncated() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.overflowed
}

// Reasons for a retry: values of the label reason.
const (
	reasonUnreachable = "unreachable" // no connection
	reasonUnsent      = "unsent"      // the connection broke before anything was written
	reasonUnanswered  = "unanswered"  // the connection broke before a query was answered
	reasonDraining    = "draining"    // the server is shutting down and accepts no new requests
)

// attempt sends the request once. The reason is empty if the request must not be retried.
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
		var ok bool
		if out.Body, ok = body.newReader(); !ok {
			e.Release()
			return nil, "", errNotReplayable
		}
		out.GetBody = nil
	}
	response, err := t.base.RoundTrip(out)
	if err == nil {
		e.Reached()
		release := sync.OnceFunc(e.Release)
		response.Body = releaseOnEnd(response.Body, release)
		if call.Query && response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") != "" {
			return response, reasonDraining, nil
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
		return nil, reasonUnreachable, err
	case ok && counted.writes.Load() == before:
		return nil, reasonUnsent, err
	case call.Query:
		return nil, reasonUnanswered, err
	}
	return nil, "", err
}

// releasingBody releases the endpoint when the response body has been read or closed.
type releasingBody struct {
	io.ReadCloser
	release func()
}

func (b *releasingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.release()
	}
	return n, err
}

func (b *releasingBody) Close() error {
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

func releaseOnEnd(body io.ReadCloser, release func()) io.ReadCloser {
	if both, ok := body.(io.ReadWriteCloser); ok {
		return &upgradedBody{both, release}
	}
	return &releasingBody{body, release}
}
