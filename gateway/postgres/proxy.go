package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quoin-dev/quoin/gateway/route"
	"github.com/quoin-dev/quoin/gateway/upstream"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/serving/pending"
)

// lingerTimeout is how long a client may take to close its side after the pod.
const lingerTimeout = 5 * time.Second

// session is a client's connection to an environment.
type session struct {
	raw         net.Conn
	client      *tls.Conn
	environment route.Environment
	peer        *pending.Peer
	// release releases the place of the deployment; nil before the client has logged in.
	release func()
	// rejected is set if there was none.
	rejected bool
}

// proxy forwards a client's connection to a pod until one of them closes it.
func (s *Server) proxy(ctx context.Context, c *session, first packet) {
	_ = c.raw.SetDeadline(time.Time{}) // waiting for a pod has its own timeout
	pod, release, err := s.dial(ctx, c.environment)
	if err != nil {
		s.reject(c.client, rejection{"unavailable", stateUnavailable, err.Error(), "Try again later."})
		return
	}
	defer release()
	defer pod.Close()
	start := time.Now()
	deadline := start.Add(loginTimeout)
	_ = c.raw.SetDeadline(deadline)
	_ = pod.SetDeadline(deadline)
	if _, err := pod.Write(first.raw); err != nil {
		s.reject(c.client, rejection{"unavailable", stateUnavailable, "the pod has closed the connection", "Try again."})
		return
	}
	in, out := s.splice(c, pod)
	if c.rejected {
		return
	}
	outcome := "aborted" // before the client has logged in
	if c.release != nil {
		c.release()
		outcome = "served"
	}
	s.metrics.total.WithLabelValues(outcome).Inc()
	s.Log.Info("Served SQL connection", "outcome", outcome, "client", c.raw.RemoteAddr().String(), "account", c.environment.Account, "deployment", c.environment.Deployment,
		"pod", pod.RemoteAddr().String(), "bytesIn", in+int64(len(first.raw)), "bytesOut", out, "durationSeconds", time.Since(start).Seconds())
}

// dial connects to a pod, and retries with another one: no pod has received anything yet.
func (s *Server) dial(ctx context.Context, e route.Environment) (net.Conn, func(), error) {
	pool := s.Pools.Get(e.Namespace, e.Name, engine.PortNameSQL)
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	var tried []*upstream.Endpoint
	for {
		endpoint, err := pool.Acquire(ctx, tried)
		if err != nil {
			return nil, nil, err
		}
		conn, err := dialer.DialContext(ctx, "tcp", endpoint.Address)
		if err == nil {
			endpoint.Reached()
			return conn, endpoint.Release, nil
		}
		endpoint.Failed()
		endpoint.Release()
		if tried = append(tried, endpoint); len(tried) >= maxDials {
			return nil, nil, upstream.ErrNoEndpoint
		}
	}
}

// splice copies in both directions until both sides have closed. A side that has stopped writing
// may continue to read; an error closes both connections.
func (s *Server) splice(c *session, pod net.Conn) (in, out int64) {
	client := c.client
	var toPod, toClient atomic.Int64
	var both sync.WaitGroup
	oneWay := func(to, from net.Conn, count *atomic.Int64, before func() (int64, error)) {
		n, err := before()
		count.Store(n)
		if err == nil {
			n, err = io.Copy(to, from)
			count.Add(n)
		}
		if err == nil {
			err = errors.ErrUnsupported
			if half, ok := to.(interface{ CloseWrite() error }); ok {
				err = half.CloseWrite()
			}
		}
		if err != nil {
			_ = client.Close()
			_ = pod.Close()
		}
	}
	both.Go(func() { oneWay(pod, client, &toPod, func() (int64, error) { return 0, nil }) })
	both.Go(func() {
		oneWay(client, pod, &toClient, func() (int64, error) { return s.logIn(c, pod) })
		// The pod no longer reads, but the client may not close its side.
		_ = client.SetReadDeadline(time.Now().Add(lingerTimeout))
	})
	both.Wait()
	return toPod.Load(), toClient.Load()
}
