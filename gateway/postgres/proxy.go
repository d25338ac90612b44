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
)

// lingering is how long a client may take to close after the pod has.
const lingering = 5 * time.Second

// pass connects a client with a pod until one of them ends.
func (s *Server) pass(ctx context.Context, raw net.Conn, client *tls.Conn, e route.Environment, first packet) {
	deployment := e.Namespace + "/" + e.Deployment
	if !s.take(deployment) {
		s.refuse(client, refusal{"refused", stateTooMany, "too many connections to this deployment", ""})
		return
	}
	defer s.give(deployment)
	_ = raw.SetDeadline(time.Time{}) // waiting for a pod has its own limit
	pod, release, err := s.dial(ctx, e)
	if err != nil {
		s.refuse(client, refusal{"unavailable", stateUnavailable, err.Error(), "Try again later."})
		return
	}
	defer release()
	defer pod.Close()
	begun := time.Now()
	if _, err := pod.Write(first.raw); err != nil {
		s.refuse(client, refusal{"unavailable", stateUnavailable, "the pod has closed the connection", "Try again."})
		return
	}
	in, out := splice(client, pod)
	s.metrics.total.WithLabelValues("served").Inc()
	s.Log.Info("Served SQL connection", "client", raw.RemoteAddr().String(), "account", e.Account, "deployment", e.Deployment,
		"pod", pod.RemoteAddr().String(), "bytesIn", in+int64(len(first.raw)), "bytesOut", out, "durationSeconds", time.Since(begun).Seconds())
}

// dial connects to a pod. The pod has seen nothing yet, so another one is as good.
func (s *Server) dial(ctx context.Context, e route.Environment) (net.Conn, func(), error) {
	pool := s.Pools.Of(e.Namespace, e.Name, engine.PortNameSQL)
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

// splice copies both ways. Who ends writing may go on reading; when one is gone, both are.
func splice(client *tls.Conn, pod net.Conn) (in, out int64) {
	var toPod, toClient atomic.Int64
	var both sync.WaitGroup
	oneWay := func(to, from net.Conn, count *atomic.Int64) {
		n, err := io.Copy(to, from)
		count.Store(n)
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
	both.Go(func() { oneWay(pod, client, &toPod) })
	both.Go(func() {
		oneWay(client, pod, &toClient)
		// Nobody listens to the client any more, but it may not have noticed.
		_ = client.SetReadDeadline(time.Now().Add(lingering))
	})
	both.Wait()
	return toPod.Load(), toClient.Load()
}
