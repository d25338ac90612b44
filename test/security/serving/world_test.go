// Package serving_test attacks `quoin apiserver` from outside, over HTTPS and with a real kube-apiserver: clients that hold
// requests open and clients that make up credentials. Each test describes an attack and what other callers may rely on. The
// tests measure requests in progress and calls of the Kubernetes API, never durations.
package serving_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/apiserver/rest/deployments"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/inprocess"
)

// The accounts: mallory's is the attacker's own, the others are not.
const (
	mallory = "mallory.example.com"
	victim  = "victim.example.com"
	other   = "other.example.com"
)

var (
	cluster *clustertest.Cluster
	address string
	roots   *x509.CertPool
	// keys are tokens of API keys by name: <account>-1 to <account>-3.
	keys = map[string]string{}
	// tokenReviews counts the TokenReviews that the server creates, and secretReads the Secrets that it reads.
	tokenReviews, secretReads atomic.Int64
	// idp is the issuer of the victim's users.
	idp *issuer
)

func TestMain(m *testing.M) {
	clustertest.Main(m, func(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
		cluster = c
		if err := start(ctx); err != nil {
			return 0, err
		}
		return m.Run(), nil
	})
}

// start creates the accounts and starts the server.
func start(ctx context.Context) error {
	idp = newIssuer()
	for _, host := range []string{mallory, victim, other} {
		account, _, _ := strings.Cut(host, ".")
		spec := v1alpha1.AccountSpec{Host: v1alpha1.Host(host), Plan: "Enterprise", AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(host == other)}}
		if host == victim {
			spec.OIDCIssuers = []v1alpha1.OIDCIssuer{{URL: idp.URL, Audiences: []string{"quoin"}}}
		}
		if err := cluster.Account(ctx, account, spec); err != nil {
			return err
		}
		for i := range 3 {
			name := fmt.Sprintf("%s-%d", account, i+1)
			key, token, err := clustertest.Key(account, name, v1alpha1.ApiKeySpec{})
			if err != nil {
				return err
			}
			if err := cluster.Client.Create(ctx, key); err != nil {
				return err
			}
			keys[name] = token
		}
	}
	config := cluster.As(clustertest.APIServer)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next} })
	server, err := inprocess.ServeAs(ctx, cluster, config, apiserver.Config{
		Service: "quoin-apiserver", Region: deployments.Region{Name: "here", Title: "Here"},
		DatabaseURL: "postgres://quoin@127.0.0.1:1/none", // not available
		OIDCClient:  idp.Client(), Aggregation: true,
	})
	if err != nil {
		return err
	}
	address = server.Address.String()
	roots, err = cluster.Roots(ctx)
	return err
}

// counting counts the calls of the Kubernetes API that unauthenticated requests may cause.
type counting struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
		tokenReviews.Add(1)
	case r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/namespaces/victim/secrets/"):
		secretReads.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

// from returns a client whose connections come from the loopback address 127.0.0.n.
func from(t *testing.T, n byte) *http.Client {
	t.Helper()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer(n).DialContext(ctx, "tcp", address)
		},
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 8,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: apiclient.Timeout}
}

// together makes n requests, 32 at a time: the server delays those that it refuses.
func together(n int, request func(i int)) {
	var all sync.WaitGroup
	places := make(chan struct{}, 32)
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			request(i)
		})
	}
	all.Wait()
}

func dialer(n byte) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, n)}}
}

// get sends a GET request and returns the response.
func get(t *testing.T, client *http.Client, host, path, token string) *apiclient.Response {
	t.Helper()
	response, err := apiclient.Request{Method: http.MethodGet, URL: "https://" + host + path, Authorization: "Bearer " + token}.Send(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// inFlight returns the number of requests that the server is handling.
func inFlight(t *testing.T) int {
	t.Helper()
	return gauge(t, "quoin_http_requests_in_flight")
}

// gauge returns the value of a metric of the server with one time series.
func gauge(t *testing.T, name string) int {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return int(family.GetMetric()[0].GetGauge().GetValue() + family.GetMetric()[0].GetCounter().GetValue())
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// idle waits until the server handles no requests, also those of earlier attacks.
func idle(t *testing.T) {
	t.Helper()
	apiclient.Soon(t, func() error {
		if n := inFlight(t); n > 0 {
			return fmt.Errorf("%d requests are in progress", n)
		}
		return nil
	})
}

// slowRequests opens n requests from 127.0.0.<from> whose bodies never come, and waits until each has been refused, is in
// progress or has lost its connection. It returns the statuses of the refused ones. The connections are closed when the test
// ends.
func slowRequests(t *testing.T, n int, from byte, head string) map[int]int {
	t.Helper()
	before := inFlight(t)
	var mu sync.Mutex
	refused, answered := map[int]int{}, 0
	for range n {
		conn, err := tls.DialWithDialer(dialer(from), "tcp", address, &tls.Config{RootCAs: roots, ServerName: mallory, MinVersion: tls.VersionTLS12})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, head); err != nil {
			t.Fatal(err)
		}
		go func() {
			// "HTTP/1.1 429 ...". Requests in progress get no response.
			line := make([]byte, 12)
			_, err := io.ReadFull(conn, line)
			mu.Lock()
			defer mu.Unlock()
			answered++
			if err == nil {
				status := 0
				_, _ = fmt.Sscanf(string(line), "HTTP/1.1 %d", &status)
				refused[status]++
			}
		}()
	}
	apiclient.Soon(t, func() error {
		mu.Lock()
		defer mu.Unlock()
		if held := inFlight(t) - before; held+answered < n {
			return fmt.Errorf("of %d requests %d are in progress and %d answered", n, held, answered)
		}
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	return maps.Clone(refused) // those in progress are answered later
}

// post returns the head of a POST request whose body does not follow.
func post(host, path, headers string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: " + host + "\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n" + headers + "\r\n{"
}
