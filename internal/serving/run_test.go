package serving

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/internal/serving/logtest"
)

// running is a running server on loopback with a certificate for "localhost".
type running struct {
	Addresses
	ca   *x509.CertPool
	log  *logtest.Buffer
	stop context.CancelFunc
	done chan error
}

func start(t *testing.T, o Options, handler http.HandlerFunc) *running {
	t.Helper()
	s := &running{ca: x509.NewCertPool(), log: &logtest.Buffer{}, done: make(chan error, 1)}
	pair, err := certificates.FromSecret(t.Context(), certificates.SecretOptions{
		Client: fake.NewClientBuilder().Build(), Namespace: "quoin-system", Log: s.log.Logger(),
		Names: func() []string { return []string{"localhost"} },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.ca.AppendCertsFromPEM(pair.CA())
	bound := make(chan Addresses, 1)
	o.HTTPS.Address, o.Log = "127.0.0.1:0", s.log.Logger()
	o.OnListen = func(a Addresses) { bound <- a }
	o.GetCertificate = pair.GetCertificate
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	go func() { s.done <- Run(ctx, o, Wrap(handler, WrapOptions{Log: o.Log})) }()
	select {
	case s.Addresses = <-bound:
	case err := <-s.done:
		t.Fatalf("Run returned %v", err)
	}
	t.Cleanup(stop)
	return s
}

func (s *running) tlsConfig() *tls.Config { return &tls.Config{RootCAs: s.ca, ServerName: "localhost"} }

// client returns a client for HTTP/2, or for HTTP/1.1 only.
func (s *running) client(t *testing.T, http2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: s.tlsConfig(), ForceAttemptHTTP2: http2}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (s *running) url(path string) string { return "https://" + s.HTTPS.String() + path }

// wait stops the server and waits until Run returns.
func (s *running) wait(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.done; err != nil {
		t.Errorf("Run returns %v", err)
	}
}

// get returns the status and the body of a response.
func get(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestProtocols(t *testing.T) {
	s := start(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		controller := http.NewResponseController(w)
		if err := errors.Join(controller.SetWriteDeadline(time.Now().Add(time.Hour)), controller.SetReadDeadline(time.Now().Add(time.Hour)), controller.Flush()); err != nil {
			t.Errorf("response controller: %v", err)
		}
		fmt.Fprintf(w, "%s %t", r.Proto, RemoteAddress(r.Context()).IsLoopback())
	})
	for http2, want := range map[bool]string{false: "HTTP/1.1 true", true: "HTTP/2.0 true"} {
		if _, got := get(t, s.client(t, http2), s.url("/")); got != want {
			t.Errorf("served %q, want %q", got, want)
		}
	}
	t.Run("TLS 1.1", func(t *testing.T) {
		config := s.tlsConfig()
		config.MinVersion, config.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		if c, err := tls.Dial("tcp", s.HTTPS.String(), config); err == nil {
			_ = c.Close()
			t.Error("accepted")
		}
	})
	t.Run("TLS 1.2", func(t *testing.T) {
		config := s.tlsConfig()
		config.MaxVersion = tls.VersionTLS12
		c, err := tls.Dial("tcp", s.HTTPS.String(), config)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	})
	t.Run("plain HTTP", func(t *testing.T) {
		status, body := get(t, http.DefaultClient, "http://"+s.HTTPS.String()+"/")
		if status != http.StatusBadRequest {
			t.Errorf("%d %q, want 400", status, body)
		}
	})
	s.wait(t)
	for _, line := range s.log.Lines(t, "Served request") {
		if line["status"] != 200.0 {
			t.Errorf("an informational status is logged: %v", line)
		}
	}
	if strings.Contains(s.log.String(), `"level":"WARN","msg":"http: TLS handshake error`) {
		t.Errorf("failed handshakes are warnings: %s", s.log)
	}
}

func TestHijack(t *testing.T) {
	s := start(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("hijack: %v", err)
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
		_ = c.Close()
	})
	if _, got := get(t, s.client(t, false), s.url("/")); got != "hello" {
		t.Errorf("response %q", got)
	}
	s.wait(t)
}

func TestHeaderLimit(t *testing.T) {
	s := start(t, Options{}, func(http.ResponseWriter, *http.Request) {})
	for _, http2 := range []bool{false, true} {
		for size, want := range map[int]int{30 << 10: http.StatusOK, 40 << 10: http.StatusRequestHeaderFieldsTooLarge} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url("/"), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Large", strings.Repeat("x", size))
			resp, err := s.client(t, http2).Do(r)
			if err != nil {
				// An HTTP/2 client knows the limit and may not send the request.
				if !http2 || want == http.StatusOK {
					t.Errorf("HTTP/2 %t, %d bytes: %v", http2, size, err)
				}
				continue
			}
			_ = resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("HTTP/2 %t, %d bytes: %d, want %d", http2, size, resp.StatusCode, want)
			}
		}
	}
	s.wait(t)
}

// Connections with incomplete headers are closed; without the timeout the test hangs.
func TestReadHeaderTimeout(t *testing.T) {
	s := start(t, Options{ReadHeaderTimeout: 50 * time.Millisecond}, func(http.ResponseWriter, *http.Request) { t.Error("the request is served") })
	c, err := tls.Dial("tcp", s.HTTPS.String(), s.tlsConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n"); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(c); strings.Contains(string(rest), "200 OK") {
		t.Errorf("response %q (%v)", rest, err)
	}
	s.wait(t)
}

// Over HTTP/1.1, a chunked body over the limit is rejected while it is sent, and its connection is
// closed.
func TestChunkedBodyOverTheLimit(t *testing.T) {
	s := start(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			WriteReadError(w, err)
		}
	})
	c, err := tls.Dial("tcp", s.HTTPS.String(), s.tlsConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	size := defaultBodyLimit + 1
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s", size, strings.Repeat("x", size))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	wantError(t, resp, http.StatusRequestEntityTooLarge, "larger than 1048576 bytes")
	if !resp.Close {
		t.Error("the connection stays open")
	}
	_ = c.Close()
	s.wait(t)
}

func TestProbesAndMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "some_metric"}))
	failing := true
	s := start(t, Options{
		Probes: Endpoint{Address: "127.0.0.1:0"}, Metrics: Endpoint{Address: "127.0.0.1:0"}, Gatherer: registry, AuthorizeMetrics: withToken,
		Ready: map[string]func(*http.Request) error{
			"good": func(*http.Request) error { return nil },
			"cache": func(*http.Request) error {
				if failing {
					return errors.New("SECRET")
				}
				return nil
			},
		},
	}, func(http.ResponseWriter, *http.Request) {})
	probes, metrics := "http://"+s.Probes.String(), "https://"+s.Metrics.String()
	anonymous := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	scraper := &http.Client{Transport: bearer{anonymous.Transport}}
	checkAs := func(client *http.Client, url string, want int, text string) {
		t.Helper()
		status, body := get(t, client, url)
		if status != want || !strings.Contains(body, text) || strings.Contains(body, "SECRET") {
			t.Errorf("%s: %d %q, want %d with %q", url, status, body, want, text)
		}
	}
	check := func(url string, want int, text string) {
		t.Helper()
		checkAs(http.DefaultClient, url, want, text)
	}
	check(probes+"/healthz", http.StatusOK, `{"status":"ok"}`)
	check(probes+"/readyz", http.StatusServiceUnavailable, `{"error":"not ready: cache"}`)
	failing = false
	check(probes+"/readyz", http.StatusOK, `{"status":"ok"}`)
	check(probes+"/metrics", http.StatusNotFound, `{"error":"not found"}`)
	checkAs(scraper, metrics+"/metrics", http.StatusOK, "some_metric 0")
	checkAs(scraper, metrics+"/healthz", http.StatusNotFound, `{"error":"not found"}`)
	checkAs(anonymous, metrics+"/metrics", http.StatusUnauthorized, "")
	check("http://"+s.Metrics.String()+"/metrics", http.StatusBadRequest, "HTTPS")
	anonymous.CloseIdleConnections()
	s.wait(t)
}

// withToken is an authorization of the metrics that accepts the token of bearer.
func withToken(next http.Handler) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer scraper" {
			WriteError(w, http.StatusUnauthorized, "no token")
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}

// bearer adds the token that withToken accepts.
type bearer struct{ http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer scraper")
	return b.RoundTripper.RoundTrip(r)
}

func TestDisabledEndpoints(t *testing.T) {
	s := start(t, Options{Probes: Endpoint{Address: "0"}}, func(http.ResponseWriter, *http.Request) {})
	if s.Probes != nil || s.Metrics != nil {
		t.Errorf("bound %v", s.Addresses)
	}
	s.wait(t)
}

func TestDrain(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2 %t", http2), func(t *testing.T) {
			entered, leave := make(chan struct{}), make(chan struct{})
			s := start(t, Options{Probes: Endpoint{Address: "127.0.0.1:0"}, DrainTimeout: time.Hour}, func(w http.ResponseWriter, r *http.Request) {
				close(entered)
				<-leave
				if err := r.Context().Err(); err != nil {
					t.Errorf("the context of the request: %v", err)
				}
				_, _ = io.WriteString(w, "finished")
			})
			answer := make(chan string)
			client := s.client(t, http2)
			go func() {
				resp, err := client.Get(s.url("/"))
				if err != nil {
					answer <- err.Error()
					return
				}
				defer resp.Body.Close()
				body, _ := io.ReadAll(resp.Body)
				answer <- string(body)
			}()
			<-entered
			s.stop()
			// The listener is closed while the request runs.
			eventually(t, func() bool {
				c, err := net.Dial("tcp", s.HTTPS.String())
				if err == nil {
					_ = c.Close()
				}
				return err != nil
			})
			status, body := get(t, http.DefaultClient, "http://"+s.Probes.String()+"/readyz")
			if status != http.StatusServiceUnavailable || !strings.Contains(body, "draining") {
				t.Errorf("/readyz returns %d %q", status, body)
			}
			close(leave)
			if got := <-answer; got != "finished" {
				t.Errorf("response of the running request: %q", got)
			}
			s.wait(t)
		})
	}
}

// TestDrainOfWebSockets: Run waits for handlers that have hijacked their connections too.
func TestDrainOfWebSockets(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s := start(t, Options{DrainTimeout: time.Hour}, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		close(entered)
		<-leave
	})
	conn, err := tls.Dial("tcp", s.HTTPS.String(), s.tlsConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	s.stop()
	select {
	case err := <-s.done:
		s.done <- err
		t.Error("Run has returned while a WebSocket is open")
	case <-time.After(300 * time.Millisecond):
	}
	close(leave)
	s.wait(t)
}

// During the delay, /readyz returns 503 and requests are served.
func TestShutdownDelay(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, Options{HTTPS: Endpoint{Listener: l}, Probes: Endpoint{Address: "127.0.0.1:0"}, ShutdownDelay: time.Hour}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "served")
	})
	s.stop()
	eventually(t, func() bool {
		status, _ := get(t, http.DefaultClient, "http://"+s.Probes.String()+"/readyz")
		return status == http.StatusServiceUnavailable
	})
	if _, got := get(t, s.client(t, true), s.url("/")); got != "served" {
		t.Errorf("response %q", got)
	}
	if status, _ := get(t, http.DefaultClient, "http://"+s.Probes.String()+"/healthz"); status != http.StatusOK {
		t.Errorf("/healthz returns %d", status)
	}
	_ = l.Close()
	if err := <-s.done; err == nil || !strings.Contains(err.Error(), "serve https: ") {
		t.Errorf("Run returns %v for a failed listener", err)
	}
}

// Requests that exceed the drain timeout are aborted.
func TestDrainTimeout(t *testing.T) {
	entered := make(chan struct{})
	s := start(t, Options{DrainTimeout: time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	})
	aborted := make(chan error)
	client := s.client(t, false)
	go func() {
		resp, err := client.Get(s.url("/"))
		if err == nil {
			_ = resp.Body.Close()
		}
		aborted <- err
	}()
	<-entered
	s.wait(t)
	if err := <-aborted; err == nil {
		t.Error("the request was not aborted")
	}
}

func TestCannotListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	busy, free := Endpoint{Address: taken.Addr().String()}, Endpoint{Address: "127.0.0.1:0"}
	certificate := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none") }
	tests := []struct {
		name string
		o    Options
		want []string
	}{
		{"https", Options{HTTPS: busy, GetCertificate: certificate}, []string{"serve https on address", busy.Address, "in use"}},
		{"probes", Options{HTTPS: free, Probes: busy, GetCertificate: certificate}, []string{"serve probes on address", busy.Address, "in use"}},
		{"metrics", Options{HTTPS: free, Metrics: busy, GetCertificate: certificate}, []string{"serve metrics on address", busy.Address, "in use"}},
		{"malformed", Options{HTTPS: Endpoint{Address: "8443"}, GetCertificate: certificate}, []string{`serve https on address "8443"`}},
		{"disabled", Options{GetCertificate: certificate}, []string{"no address"}},
		{"no certificate", Options{HTTPS: free}, []string{"no certificate"}},
		{"no metrics", Options{HTTPS: free, Metrics: free, GetCertificate: certificate, AuthorizeMetrics: withToken}, []string{"no metrics"}},
		{"open metrics", Options{HTTPS: free, Metrics: free, GetCertificate: certificate, Gatherer: prometheus.NewRegistry()}, []string{"no authorization"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.OnListen = func(Addresses) { t.Error("OnListen was called") }
			err := Run(t.Context(), tt.o, http.NotFoundHandler())
			if err == nil {
				t.Fatal("no error")
			}
			for _, text := range tt.want {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not contain %q", err, text)
				}
			}
		})
	}
}

// Run returns an error if a listener fails.
func TestListenerFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	err = Run(t.Context(), Options{
		HTTPS:          Endpoint{Listener: l},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none") },
		OnListen:       func(Addresses) { _ = l.Close() },
		Log:            slog.New(slog.DiscardHandler),
	}, http.NotFoundHandler())
	if err == nil || !strings.Contains(err.Error(), "serve https: ") {
		t.Errorf("Run returns %v", err)
	}
}

// eventually waits until a condition holds, without a timeout of its own.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	for !condition() {
		if t.Context().Err() != nil {
			t.Fatal("the test ended before the condition held")
		}
		time.Sleep(5 * time.Millisecond)
	}
}
