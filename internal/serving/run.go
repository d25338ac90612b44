// Package serving is the HTTPS server of `quoin apiserver` and `quoin gateway`: listeners, serving
// certificates, and the middleware of every request. It is independent of routes and tenants.
//
//	listener ─▶ Wrap ─▶ CanonicalPath ─▶ authentication, routes
//	  Run        │
//	             └ panics, request id, headers, client address, access log, metrics, limits
//
// Errors are the JSON object {"error": "..."}, here and, through WriteError, in all handlers.
package serving

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// maxHeaderBytes limits the request line and headers; net/http accepts 4 KiB more before it
// responds with 431.
const maxHeaderBytes = 32 << 10

// Endpoint is an address to listen on.
type Endpoint struct {
	// Address such as ":8443"; empty or "0" to disable the endpoint.
	Address string
	// Listener is used instead of Address if it is not nil, and closed when Run ends.
	Listener net.Listener
}

// Addresses are the bound addresses; nil for a disabled endpoint.
type Addresses struct {
	HTTPS, Probes, Metrics net.Addr
}

// Options configure Run. Zero durations mean the default.
type Options struct {
	// HTTPS serves requests. It is required.
	HTTPS Endpoint
	// Probes serves /healthz and /readyz over plain HTTP.
	Probes Endpoint
	// Metrics serves /metrics over HTTPS to the clients that AuthorizeMetrics accepts.
	Metrics Endpoint
	// OnListen is called once all addresses are bound, before requests are served; may be nil.
	OnListen func(Addresses)

	// GetCertificate returns the serving certificate, see package certificates.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// ConfigureTLS modifies the configuration before requests are served, for example to request
	// client certificates; may be nil.
	ConfigureTLS func(*tls.Config)
	// Connections limits the connections of HTTPS; nil for no limit.
	Connections *Connections
	// Ready are the checks of /readyz by name. Their errors are logged; the response contains only
	// the names of the failed checks.
	Ready map[string]func(*http.Request) error
	// Gatherer of the metrics; required if Metrics is enabled.
	Gatherer prometheus.Gatherer
	// AuthorizeMetrics wraps the handler of the metrics with authentication and authorization;
	// required if Metrics is enabled. See AuthorizeByReview.
	AuthorizeMetrics func(http.Handler) (http.Handler, error)
	// Log is slog.Default() if nil.
	Log *slog.Logger

	// ReadHeaderTimeout is the timeout for the headers (10 s), ReadTimeout for headers and body
	// (60 s), WriteTimeout for the response (60 s), IdleTimeout for the next request on a
	// connection (2 min). A handler can set its own deadlines with http.ResponseController.
	ReadHeaderTimeout, ReadTimeout, WriteTimeout, IdleTimeout time.Duration
	// ShutdownDelay is how long requests are accepted after /readyz returns 503, so that load
	// balancers notice; 0 for no delay.
	ShutdownDelay time.Duration
	// DrainTimeout is how long requests may run after that (30 s).
	DrainTimeout time.Duration
}

// server is the state of Run: up to three listeners with their servers.
type server struct {
	Options
	draining  atomic.Bool
	https     *http.Server
	auxiliary []*http.Server

	running sync.WaitGroup
	// requests are the running handlers of HTTPS. Shutdown does not wait for those of WebSockets.
	requests sync.WaitGroup
	failed   chan error
}

// Run serves handler over HTTPS, with HTTP/1.1 and HTTP/2, until ctx ends. Then it drains: /readyz
// returns 503; after ShutdownDelay, no more connections are accepted; running requests are aborted
// after DrainTimeout; and Run returns nil. It returns an error if it cannot listen or a listener
// fails. The contexts of requests do not end with ctx.
func Run(ctx context.Context, o Options, handler http.Handler) error {
	s := &server{Options: o.withDefaults(), failed: make(chan error, 3)}
	if err := s.start(ctx, handler); err != nil {
		return err
	}
	defer s.close()
	select {
	case err := <-s.failed:
		return err
	case <-ctx.Done():
	}
	return s.drain()
}

func (o Options) withDefaults() Options {
	o.Log = cmp.Or(o.Log, slog.Default())
	o.ReadHeaderTimeout = cmp.Or(o.ReadHeaderTimeout, 10*time.Second)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, time.Minute)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, time.Minute)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 2*time.Minute)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 30*time.Second)
	return o
}

// start binds all addresses before it serves, so that an address in use is an error at once.
func (s *server) start(ctx context.Context, handler http.Handler) error {
	endpoints := map[string]Endpoint{"https": s.HTTPS, "probes": s.Probes, "metrics": s.Metrics}
	listeners := map[string]net.Listener{}
	closeAll := func(err error) error {
		for name, endpoint := range endpoints {
			if l := cmp.Or(listeners[name], endpoint.Listener); l != nil {
				_ = l.Close()
			}
		}
		return err
	}
	for _, name := range []string{"https", "probes", "metrics"} {
		l, err := endpoints[name].Listen(ctx, name)
		if err != nil {
			return closeAll(err)
		}
		if l != nil {
			listeners[name] = l
		}
	}
	switch {
	case listeners["https"] == nil:
		return closeAll(errors.New("no address to serve https on"))
	case s.GetCertificate == nil:
		return closeAll(errors.New("no certificate to serve https with"))
	}
	metrics, err := s.metrics(listeners["metrics"])
	if err != nil {
		return closeAll(err)
	}
	if s.OnListen != nil {
		s.OnListen(Addresses{HTTPS: address(listeners["https"]), Probes: address(listeners["probes"]), Metrics: address(listeners["metrics"])})
	}

	s.https = s.newServer(s.count(handler))
	s.https.ConnContext = connContext
	s.https.TLSConfig = &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: s.GetCertificate, NextProtos: []string{"h2", "http/1.1"},
		// What is written at once is one record, also at the beginning of a connection: clients of streams parse what a read returns.
		DynamicRecordSizingDisabled: true,
	}
	if s.ConfigureTLS != nil {
		s.ConfigureTLS(s.https.TLSConfig)
	}
	s.https.Protocols = &http.Protocols{}
	s.https.Protocols.SetHTTP1(true)
	s.https.Protocols.SetHTTP2(true)
	s.serve("https", func() error { return s.https.ServeTLS(s.Connections.limit(listeners["https"]), "", "") })
	if l := listeners["probes"]; l != nil {
		s.serveAuxiliary("probes", l, s.probes())
	}
	if l := listeners["metrics"]; l != nil {
		s.serveAuxiliary("metrics", tls.NewListener(l, s.metricsTLS()), metrics)
	}
	return nil
}

// Listen binds the endpoint. It returns nil if the endpoint is disabled. name identifies the
// endpoint in errors.
func (e Endpoint) Listen(ctx context.Context, name string) (net.Listener, error) {
	if e.Listener != nil {
		return e.Listener, nil
	}
	if e.Address == "" || e.Address == "0" {
		return nil, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", e.Address)
	if err != nil {
		return nil, fmt.Errorf("serve %s on address %q: %w", name, e.Address, err)
	}
	return l, nil
}

func address(l net.Listener) net.Addr {
	if l == nil {
		return nil
	}
	return l.Addr()
}

func (s *server) newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: s.ReadHeaderTimeout,
		ReadTimeout:       s.ReadTimeout,
		WriteTimeout:      s.WriteTimeout,
		IdleTimeout:       s.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(quietHandshakes{s.Log.Handler()}, slog.LevelWarn),
	}
}

func (s *server) serveAuxiliary(name string, l net.Listener, handler http.Handler) {
	auxiliary := s.newServer(handler)
	s.auxiliary = append(s.auxiliary, auxiliary)
	s.serve(name, func() error { return auxiliary.Serve(l) })
}

// serve runs one server. If the server fails, Run returns its error.
func (s *server) serve(name string, run func() error) {
	s.running.Go(func() {
		if err := run(); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("serve %s: %w", name, err)
		}
	})
}

// drain waits for running requests. The probes are served meanwhile.
func (s *server) drain() error {
	s.draining.Store(true)
	s.Log.Info("Draining", "delay", s.ShutdownDelay.String(), "timeout", s.DrainTimeout.String())
	select {
	case err := <-s.failed:
		return err
	case <-time.After(s.ShutdownDelay):
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.DrainTimeout)
	defer cancel()
	err := s.https.Shutdown(ctx)
	if err == nil {
		err = s.wait(ctx)
	}
	if err != nil {
		s.Log.Warn("Aborting the requests that are still running", "error", err)
	}
	return nil
}

// count counts the running handlers.
func (s *server) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		defer s.requests.Done()
		next.ServeHTTP(w, r)
	})
}

// wait waits for the running handlers after Shutdown, when no more begin.
func (s *server) wait(ctx context.Context) error {
	select {
	case <-ended(&s.requests):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close closes all connections and waits for the servers.
func (s *server) close() {
	for _, server := range append(s.auxiliary, s.https) {
		_ = server.Close()
	}
	s.running.Wait()
}

// quietHandshakes logs failed TLS handshakes, which port scans and TCP health checks cause, at
// level debug. All other messages of net/http are warnings.
type quietHandshakes struct{ slog.Handler }

// Handle implements slog.Handler.
func (q quietHandshakes) Handle(ctx context.Context, record slog.Record) error {
	if strings.HasPrefix(record.Message, "http: TLS handshake error") {
		if !q.Enabled(ctx, slog.LevelDebug) {
			return nil
		}
		record.Level = slog.LevelDebug
	}
	return q.Handler.Handle(ctx, record)
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	WriteError(w, http.StatusNotFound, "not found")
}
