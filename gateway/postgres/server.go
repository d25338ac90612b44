// Package postgres proxies connections of the SQL interface to pods. It parses the start of a
// connection only.
//
// The server name in the TLS handshake (SNI) determines the deployment, because the PostgreSQL
// protocol has no host name: <deployment>.sql.<data domain>, or a custom domain. The pod checks
// user and password.
//
// A cancel request uses a separate connection and contains a key that one pod knows. Over TLS, it
// is sent to all pods of the environment; those that do not know the key ignore it. Without TLS,
// as sent by libpq before release 17, the deployment is unknown and the request is dropped.
package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-dev/quoin/gateway/route"
	"github.com/quoin-dev/quoin/gateway/upstream"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/serving/pending"
)

const (
	// startTimeout is the timeout for TLS handshake and start-up packet, and loginTimeout for the
	// authentication by the pod after that.
	startTimeout  = 10 * time.Second
	loginTimeout  = 30 * time.Second
	dialTimeout   = 2 * time.Second
	maxDials      = 4
	acceptBackoff = 100 * time.Millisecond
	// alpnProtocol is the ALPN protocol, which direct TLS connections must offer.
	alpnProtocol = "postgresql"
)

// Options configure a Server.
type Options struct {
	// GetCertificate returns the serving certificate.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Environment returns the environment of a host.
	Environment func(host string) (route.Environment, error)
	// Pools hold the endpoints.
	Pools *upstream.Pools
	// Pending are the connections that have not logged in. PeerNetwork returns the network that they
	// count for.
	Pending     *pending.Set
	PeerNetwork func(net.Addr) netip.Prefix
	// Handshakes delays the starts of connections; nil for no limit.
	Handshakes *serving.Handshakes
	// MaxPerDeployment limits the connections to a deployment that have logged in, and
	// MaxConnections all open connections, of which those of an account that have logged in are at most half.
	MaxPerDeployment, MaxConnections int
	// DrainTimeout is how long open connections may continue after the server stops accepting.
	DrainTimeout time.Duration
	Log          *slog.Logger
	Registerer   prometheus.Registerer
}

// Server serves the SQL interface.
type Server struct {
	Options
	tls     *tls.Config
	metrics *metrics

	mu            sync.Mutex
	open          map[net.Conn]struct{}
	perDeployment map[target]int
	perAccount    map[string]int
	running       sync.WaitGroup
}

// New returns a server.
func New(o Options) *Server {
	o.Log = cmp.Or(o.Log, slog.Default())
	s := &Server{
		Options: o, metrics: newMetrics(o.Registerer), open: map[net.Conn]struct{}{}, perDeployment: map[target]int{}, perAccount: map[string]int{},
		tls: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: o.GetCertificate, NextProtos: []string{alpnProtocol}},
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(sessions{s})
	}
	return s
}

// Run serves until ctx ends. Then it accepts no more connections, and closes the open ones after
// DrainTimeout. It closes the listener.
func (s *Server) Run(ctx context.Context, l net.Listener) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	defer l.Close()
	// Open connections outlive ctx.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				s.drain(cancel)
				return
			}
			// Possibly temporary, such as too many open files.
			s.Log.Error("Cannot accept an SQL connection", "error", err)
			time.Sleep(acceptBackoff)
			continue
		}
		if !s.track(conn) && !(s.Pending.EndOldest() && s.track(conn)) {
			s.metrics.total.WithLabelValues("refused").Inc()
			_ = conn.Close()
			continue
		}
		s.start(work, conn)
	}
}

// start serves a connection, which is pending until it has logged in.
func (s *Server) start(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	network := s.PeerNetwork(conn.RemoteAddr())
	peer := s.Pending.Add(network, func() {
		cancel()
		s.untrack(conn)
	})
	s.running.Go(func() {
		defer cancel()
		defer peer.Done()
		defer s.untrack(conn)
		s.serve(ctx, conn, network, peer)
	})
}

func (s *Server) track(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= s.MaxConnections {
		return false
	}
	s.open[conn] = struct{}{}
	s.metrics.open.Inc()
	return true
}

func (s *Server) untrack(conn net.Conn) {
	_ = conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.open[conn]; open {
		delete(s.open, conn)
		s.metrics.open.Dec()
	}
}

func (s *Server) drain(cancel func()) {
	ended := make(chan struct{})
	go func() { s.running.Wait(); close(ended) }()
	select {
	case <-ended:
		return
	case <-time.After(s.DrainTimeout):
	}
	s.mu.Lock()
	s.Log.Warn("Closing the SQL connections that are still open", "count", len(s.open))
	for conn := range s.open {
		_ = conn.Close()
	}
	s.mu.Unlock()
	cancel()
	<-ended
}

// target is the deployment of a connection.
type target struct{ account, namespace, deployment string }

// acquire counts a connection to a deployment, or returns false if it or its account has the maximum.
func (s *Server) acquire(deployment target) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.perDeployment[deployment] >= s.MaxPerDeployment || s.perAccount[deployment.account] >= max(1, s.MaxConnections/2) {
		return false
	}
	s.perDeployment[deployment]++
	s.perAccount[deployment.account]++
	return true
}

func (s *Server) release(deployment target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.perDeployment[deployment]--; s.perDeployment[deployment] <= 0 {
		delete(s.perDeployment, deployment)
	}
	if s.perAccount[deployment.account]--; s.perAccount[deployment.account] <= 0 {
		delete(s.perAccount, deployment.account)
	}
}

// rejection is the reason for closing a connection, for the user.
type rejection struct{ outcome, state, message, hint string }

func (s *Server) serve(ctx context.Context, conn net.Conn, network netip.Prefix, peer *pending.Peer) {
	_ = conn.SetDeadline(time.Now().Add(startTimeout))
	client, rejected, err := s.secure(ctx, conn, network)
	if err != nil {
		s.Log.Debug("SQL connection ended before start-up", "client", conn.RemoteAddr().String(), "error", err)
		s.metrics.total.WithLabelValues("aborted").Inc()
		return
	}
	if rejected != nil {
		s.reject(conn, *rejected)
		return
	}
	first, err := readPacket(client, nil)
	if err != nil {
		s.metrics.total.WithLabelValues("aborted").Inc()
		return
	}
	environment, err := s.Environment(client.ConnectionState().ServerName)
	if err != nil {
		hint := "Connect to the host in the environment's api_credentials.sql.host; the client must send it as SNI."
		s.reject(client, rejection{"refused", stateNoDatabase, err.Error(), hint})
		return
	}
	peer.Join(environment.Namespace + "/" + environment.Deployment)
	if first.code == codeCancel {
		s.cancel(ctx, environment, first)
		return
	}
	s.proxy(ctx, &session{raw: conn, client: client, environment: environment, peer: peer}, first)
}

// secure handles the requests before the TLS handshake, and performs the handshake.
func (s *Server) secure(ctx context.Context, conn net.Conn, network netip.Prefix) (*tls.Conn, *rejection, error) {
	for range 3 { // an SSLRequest may follow a GSSENCRequest
		first := make([]byte, 1)
		if _, err := conn.Read(first); err != nil {
			return nil, nil, err
		}
		if first[0] == firstTLS {
			client, err := s.handshake(ctx, &prefixedConn{Conn: conn, prefix: first}, network)
			if err == nil && client.ConnectionState().NegotiatedProtocol != alpnProtocol {
				err = errors.New("direct TLS requires the ALPN protocol " + alpnProtocol)
			}
			return client, nil, err
		}
		request, err := readPacket(conn, first)
		if err != nil {
			return nil, nil, err
		}
		switch request.code {
		case codeSSL:
			if _, err := conn.Write([]byte{'S'}); err != nil {
				return nil, nil, err
			}
			client, err := s.handshake(ctx, conn, network)
			return client, nil, err
		case codeGSS:
			if _, err := conn.Write([]byte{'N'}); err != nil {
				return nil, nil, err
			}
		case codeCancel:
			return nil, nil, errors.New("cancel request without TLS")
		default:
			return nil, &rejection{"refused", stateNoTLS, "TLS is required: its server name determines the deployment",
				"Use sslmode=require or stricter, with a client that sends SNI (libpq 14 or later)."}, nil
		}
	}
	return nil, &rejection{"refused", stateProtocol, "too many encryption requests", ""}, nil
}

func (s *Server) handshake(ctx context.Context, conn net.Conn, network netip.Prefix) (*tls.Conn, error) {
	limited := &serving.HandshakeConn{Conn: conn}
	limited.Handshake.Limit(s.Handshakes, network, ctx.Done())
	client := tls.Server(limited, s.tls)
	defer limited.Handshake.Answer()
	return client, client.HandshakeContext(ctx)
}

// reject sends the reason and closes the connection. It closes the write side first: closing a
// connection with unread data resets it, and the client would not receive the reason.
func (s *Server) reject(conn net.Conn, why rejection) {
	s.metrics.total.WithLabelValues(why.outcome).Inc()
	s.Log.Info("Rejected SQL connection", "client", conn.RemoteAddr().String(), "reason", why.message)
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	_, _ = conn.Write(errorResponse(why.state, why.message, why.hint))
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = conn.Read(make([]byte, 512))
	}
}

// prefixedConn is a connection whose first bytes have already been read.
type prefixedConn struct {
	net.Conn
	prefix []byte
}

func (p *prefixedConn) Read(b []byte) (int, error) {
	if len(p.prefix) > 0 {
		n := copy(b, p.prefix)
		p.prefix = p.prefix[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

func (p *prefixedConn) CloseWrite() error {
	if half, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// cancel sends a cancel request to all pods of the environment. Pods do not respond to it.
func (s *Server) cancel(ctx context.Context, e route.Environment, request packet) {
	s.metrics.total.WithLabelValues("cancel").Inc()
	var sent sync.WaitGroup
	for _, address := range s.Pools.Get(e.Namespace, e.Name, engine.PortNameSQL).Addresses() {
		sent.Go(func() {
			conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
			if err != nil {
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(dialTimeout))
			if _, err := conn.Write(request.raw); err == nil {
				_, _ = conn.Read(make([]byte, 1)) // until the pod has closed it
			}
		})
	}
	sent.Wait()
}
