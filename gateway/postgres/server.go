// Package postgres passes connections of the SQL interface on to the pods. It understands how a
// connection begins, and nothing of what follows.
//
// Which deployment a connection is for is told by the name that the client says in the TLS
// handshake (SNI), as the PostgreSQL protocol names no host: <deployment>.sql.<data domain>, or
// a custom domain. Users and passwords are the pod's to check.
//
// A request to cancel a query comes over a connection of its own and names a key that one pod
// knows. Under TLS it is sent to all pods of the environment, for those that do not know the key
// ignore it. In the clear, as libpq before release 17 sends it, it does not say for which
// deployment it is, and is dropped.
package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-dev/quoin/gateway/route"
	"github.com/quoin-dev/quoin/gateway/upstream"
	"github.com/quoin-dev/quoin/internal/engine"
)

const (
	// startTimeout bounds the time until a connection has said what it wants.
	startTimeout = 10 * time.Second
	dialTimeout  = 2 * time.Second
	maxDials     = 4
	acceptPause  = 100 * time.Millisecond
	// protocol is the ALPN name; a client must offer it that begins with TLS at once.
	protocol = "postgresql"
)

// Options say how connections are served.
type Options struct {
	// GetCertificate gives the serving certificate.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Environment is that of a host.
	Environment func(host string) (route.Environment, error)
	// Pools have the endpoints.
	Pools *upstream.Pools
	// MaxPerDeployment connections are open for a deployment at a time, and MaxConnections in
	// all.
	MaxPerDeployment, MaxConnections int
	// DrainTimeout is what open connections get when the server ends.
	DrainTimeout time.Duration
	Log          *slog.Logger
	Registerer   prometheus.Registerer
}

// Server serves the SQL interface.
type Server struct {
	Options
	tls     *tls.Config
	metrics *metrics

	mu      sync.Mutex
	open    map[net.Conn]struct{}
	per     map[string]int
	running sync.WaitGroup
}

// New makes a server.
func New(o Options) *Server {
	o.Log = cmp.Or(o.Log, slog.Default())
	return &Server{
		Options: o, metrics: newMetrics(o.Registerer), open: map[net.Conn]struct{}{}, per: map[string]int{},
		tls: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: o.GetCertificate, NextProtos: []string{protocol}},
	}
}

// Run serves until ctx ends; then it takes no more connections, and those that are open get
// DrainTimeout before they are cut. It closes the listener.
func (s *Server) Run(ctx context.Context, l net.Listener) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	defer l.Close()
	// What is open outlives ctx.
	work, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				s.drain(cut)
				return
			}
			// Such as too many open files: it passes.
			s.Log.Error("Cannot accept an SQL connection", "error", err)
			time.Sleep(acceptPause)
			continue
		}
		if !s.admit(conn) {
			_ = conn.Close()
			continue
		}
		s.running.Go(func() {
			defer s.dismiss(conn)
			s.serve(work, conn)
		})
	}
}

func (s *Server) admit(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= s.MaxConnections {
		s.metrics.total.WithLabelValues("refused").Inc()
		return false
	}
	s.open[conn] = struct{}{}
	s.metrics.open.Inc()
	return true
}

func (s *Server) dismiss(conn net.Conn) {
	_ = conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, conn)
	s.metrics.open.Dec()
}

func (s *Server) drain(cut func()) {
	ended := make(chan struct{})
	go func() { s.running.Wait(); close(ended) }()
	select {
	case <-ended:
		return
	case <-time.After(s.DrainTimeout):
	}
	s.mu.Lock()
	s.Log.Warn("Cutting the SQL connections that are still open", "count", len(s.open))
	for conn := range s.open {
		_ = conn.Close()
	}
	s.mu.Unlock()
	cut()
	<-ended
}

// take counts a connection for a deployment; false when it has too many.
func (s *Server) take(deployment string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.per[deployment] >= s.MaxPerDeployment {
		return false
	}
	s.per[deployment]++
	return true
}

func (s *Server) give(deployment string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.per[deployment]--; s.per[deployment] <= 0 {
		delete(s.per, deployment)
	}
}

// refusal is an end with a reason for the user.
type refusal struct{ outcome, state, message, hint string }

func (s *Server) serve(ctx context.Context, conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(startTimeout))
	client, refused, err := s.secure(ctx, conn)
	if err != nil {
		s.Log.Debug("SQL connection ended before it began", "client", conn.RemoteAddr().String(), "error", err)
		s.metrics.total.WithLabelValues("aborted").Inc()
		return
	}
	if refused != nil {
		s.refuse(conn, *refused)
		return
	}
	first, err := readPacket(client, nil)
	if err != nil {
		s.metrics.total.WithLabelValues("aborted").Inc()
		return
	}
	environment, err := s.Environment(client.ConnectionState().ServerName)
	if err != nil {
		hint := "Connect to the host that the environment's api_credentials.sql.host says; the client must send it as SNI."
		s.refuse(client, refusal{"refused", stateNoDatabase, err.Error(), hint})
		return
	}
	if first.code == codeCancel {
		s.cancel(ctx, environment, first)
		return
	}
	s.pass(ctx, conn, client, environment, first)
}

// secure answers what comes before the TLS handshake, and makes it.
func (s *Server) secure(ctx context.Context, conn net.Conn) (*tls.Conn, *refusal, error) {
	for range 3 { // an SSLRequest may follow a GSSENCRequest
		first := make([]byte, 1)
		if _, err := conn.Read(first); err != nil {
			return nil, nil, err
		}
		if first[0] == firstTLS {
			client, err := s.handshake(ctx, &prefixed{Conn: conn, prefix: first})
			if err == nil && client.ConnectionState().NegotiatedProtocol != protocol {
				err = errors.New("TLS at once needs the ALPN protocol " + protocol)
			}
			return client, nil, err
		}
		asked, err := readPacket(conn, first)
		if err != nil {
			return nil, nil, err
		}
		switch asked.code {
		case codeSSL:
			if _, err := conn.Write([]byte{'S'}); err != nil {
				return nil, nil, err
			}
			client, err := s.handshake(ctx, conn)
			return client, nil, err
		case codeGSS:
			if _, err := conn.Write([]byte{'N'}); err != nil {
				return nil, nil, err
			}
		case codeCancel:
			return nil, nil, errors.New("a request to cancel, in the clear")
		default:
			return nil, &refusal{"refused", stateNoTLS, "TLS is required: the name of the server in it says which deployment is meant",
				"Use sslmode=require or stricter, with a client that sends SNI (libpq 14 or later)."}, nil
		}
	}
	return nil, &refusal{"refused", stateProtocol, "too many requests for encryption", ""}, nil
}

func (s *Server) handshake(ctx context.Context, conn net.Conn) (*tls.Conn, error) {
	client := tls.Server(conn, s.tls)
	return client, client.HandshakeContext(ctx)
}

// refuse says why and ends the connection. Writing ends first: a connection that is closed with
// something unread is reset, and the reason lost.
func (s *Server) refuse(conn net.Conn, why refusal) {
	s.metrics.total.WithLabelValues(why.outcome).Inc()
	s.Log.Info("Refused SQL connection", "client", conn.RemoteAddr().String(), "reason", why.message)
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	_, _ = conn.Write(errorResponse(why.state, why.message, why.hint))
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = conn.Read(make([]byte, 512))
	}
}

// prefixed gives back what was read to see what the client wants.
type prefixed struct {
	net.Conn
	prefix []byte
}

func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.prefix) > 0 {
		n := copy(b, p.prefix)
		p.prefix = p.prefix[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

func (p *prefixed) CloseWrite() error {
	if half, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// cancel tells all pods of the environment, and waits for no answer: there is none.
func (s *Server) cancel(ctx context.Context, e route.Environment, request packet) {
	s.metrics.total.WithLabelValues("cancel").Inc()
	var told sync.WaitGroup
	for _, address := range s.Pools.Of(e.Namespace, e.Name, engine.PortNameSQL).Addresses() {
		told.Go(func() {
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
	told.Wait()
}
