package gateway

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/gateway/route"
	"github.com/quoin-dev/quoin/gateway/token"
	"github.com/quoin-dev/quoin/gateway/upstream"
	"github.com/quoin-dev/quoin/gateway/usage"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/serving/pending"
)

// newTestHandler returns a handler with one deployment, acme/sales, whose keys are "data" and
// "meta" and whose pod is at address.
func newTestHandler(t testing.TB, address string, requestsPerSecond float64) *handler {
	t.Helper()
	secret := func(name, key, value string) client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}, Data: map[string][]byte{key: []byte(value)}}
	}
	reader := fake.NewClientBuilder().WithObjects(secret("sales-production-credentials", "apiSecret", "data"), secret("sales-production-gateway", "metadataKey", "meta")).Build()
	m := upstream.NewMetrics(nil)
	f := &handler{
		objects: reader, keys: &token.Store{Reader: reader, Now: time.Now}, usage: &usage.Recorder{Now: time.Now},
		pools:  upstream.NewPools(upstream.Limits{Wait: 100 * time.Millisecond, MaxWaiting: 10}, m),
		limits: newLimits(requestsPerSecond, max(1, int(requestsPerSecond)), 1000, 2000), metrics: newRequestMetrics(prometheus.NewRegistry()), listings: newListings(), transport: upstream.NewTransport(m),
	}
	f.unauthenticated = pending.NewSet(pending.Limits{Total: 100, PerAddress: 100, PerDeployment: 100}, pending.NewMetrics("gateway", prometheus.NewRegistry()), pending.KindRequest)
	f.proxy = f.newProxy(f.transport, nil, slog.New(slog.DiscardHandler))
	account := v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Spec: v1alpha1.AccountSpec{Host: "example.com", Namespace: "acme"}}
	production := v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales-production"}}
	production.Spec.DeploymentRef.Name, production.Spec.Type = "sales", v1alpha1.EnvironmentProduction
	f.table.Store(route.NewTable(route.Objects{
		Accounts:     []v1alpha1.Account{account},
		Deployments:  []v1alpha1.Deployment{{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales"}}},
		Environments: []v1alpha1.Environment{production},
	}))
	if address != "" {
		pod, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		f.pools.Set(types.NamespacedName{Namespace: "acme", Name: engine.APIName("sales-production")}, []*discoveryv1.EndpointSlice{{
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{pod.IP.String()}}},
			Ports:     []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To(int32(pod.Port))}},
		}})
	}
	return f
}

func signed(t testing.TB, key string) string {
	t.Helper()
	s, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"exp": time.Now().Add(time.Hour).Unix(), "tenant": "acme"}).SignedString([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestOnlyQueriesAreRetried: other requests are retried only if no pod has received any of them.
func TestOnlyQueriesAreRetried(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan int, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			n, _ := conn.Read(make([]byte, 1024))
			accepted <- n
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}()
	f := newTestHandler(t, l.Addr().String(), 1000)
	for _, tc := range []struct {
		method, path string
		attempts     int
	}{
		{"POST", "/cubejs-api/v1/pre-aggregations/jobs", 1},
		{"DELETE", "/cubejs-api/v1/running-query/1", 1},
		{"POST", "/cubejs-api/v1/load", 4},
		{"GET", "/cubejs-api/v1/load", 4},
	} {
		r := httptest.NewRequest(tc.method, "https://sales.data.example.com"+tc.path, strings.NewReader(""))
		r.Header.Set("Authorization", signed(t, "data"))
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		if w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), "did not answer") {
			t.Errorf("%s %s: %d %s", tc.method, tc.path, w.Code, w.Body)
		}
		if got := len(accepted); got != tc.attempts {
			t.Errorf("%s %s was sent %d times, want %d", tc.method, tc.path, got, tc.attempts)
		}
		for len(accepted) > 0 {
			<-accepted
		}
	}
}

// TestUnavailable: requests without a pod, or without credentials, receive a 503.
func TestUnavailable(t *testing.T) {
	f := newTestHandler(t, "", 1000)
	get := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "https://sales.data.example.com/cubejs-api/v1/load", nil)
		r.Header.Set("Authorization", signed(t, "data"))
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		return w
	}
	if w := get(); w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "no pod of the environment is ready") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	f.keys = &token.Store{Reader: fake.NewClientBuilder().Build(), Now: time.Now}
	if w := get(); w.Code != 503 || !strings.Contains(w.Body.String(), "no credentials yet") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	f.keys = &token.Store{Reader: fake.NewClientBuilder().Build(), Now: time.Now}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequest(http.MethodGet, "https://sales.data.example.com/cubejs-api/v1/load", nil).WithContext(ctx)
	r.Header.Set("Authorization", signed(t, "data"))
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	if w.Code != statusClientClosedRequest && w.Code != 503 {
		t.Errorf("canceled request: %d %s", w.Code, w.Body)
	}
}

func TestLimitsArePerDeployment(t *testing.T) {
	l := newLimits(1, 2, 2, 10)
	a, b := types.NamespacedName{Namespace: "acme", Name: "a"}, types.NamespacedName{Namespace: "acme", Name: "b"}
	done, wait := l.acquire(a)
	if wait != 0 {
		t.Fatal(wait)
	}
	done()
	one, two, three := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")
	for i, tc := range []struct {
		deployment types.NamespacedName
		address    netip.Addr // of an unauthenticated request
		admitted   bool
	}{
		{a, netip.Addr{}, true}, {a, netip.Addr{}, false}, {b, netip.Addr{}, true},
		{a, one, true}, {a, one, false}, {b, one, false}, {a, two, true}, {a, three, false},
	} {
		wait := time.Duration(0)
		if tc.address.IsValid() {
			wait = l.admitUnauthenticated(tc.address, tc.deployment)
		} else {
			_, wait = l.acquire(tc.deployment)
		}
		if (wait == 0) != tc.admitted {
			t.Errorf("request %d: wait %s", i, wait)
		}
	}
	l.prune(func(string, string) bool { return false })
	if len(l.deployments) != 2 {
		t.Error("limits with requests in flight were removed")
	}
}

// The deployments of an account have half of all concurrent requests together.
func TestLimitsOfAnAccount(t *testing.T) {
	l := newLimits(1000, 1000, 2, 6)
	var done []func()
	for i, admitted := range []bool{true, true, true, false} {
		release, wait := l.acquire(types.NamespacedName{Namespace: "acme", Name: []string{"a", "a", "b", "b"}[i]})
		if (wait == 0) != admitted {
			t.Fatalf("request %d: wait %s", i, wait)
		}
		done = append(done, release)
	}
	if _, wait := l.acquire(types.NamespacedName{Namespace: "globex", Name: "a"}); wait != 0 {
		t.Errorf("another account: wait %s", wait)
	}
	done[0]()
	if _, wait := l.acquire(types.NamespacedName{Namespace: "acme", Name: "b"}); wait != 0 {
		t.Errorf("after a request has ended: wait %s", wait)
	}
}

// withDomain returns a deployment that holds metrics.example.net and requests a domain.
func withDomain(domain v1alpha1.Host) v1alpha1.Deployment {
	return v1alpha1.Deployment{
		Spec:   v1alpha1.DeploymentSpec{DataAPI: &v1alpha1.DataAPI{CustomDomain: domain + ":1"}},
		Status: v1alpha1.DeploymentStatus{CustomDomain: "metrics.example.net"},
	}
}

func TestCertificateNames(t *testing.T) {
	accounts := []v1alpha1.Account{{Spec: v1alpha1.AccountSpec{Host: "b.example.com:8443"}}, {Spec: v1alpha1.AccountSpec{Host: "a.example.com", DataDomain: "bi.example.org:1"}}}
	deployments := []v1alpha1.Deployment{{}, withDomain("metrics.example.net"), withDomain("other.example.net")}
	got := strings.Join(certificateNames(accounts, deployments), " ")
	const want = "*.bi.example.org *.data.b.example.com *.sql.bi.example.org *.sql.data.b.example.com metrics.example.net"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// BenchmarkProxy compares requests through the gateway, with its access log, to requests directly
// to the pod. Both are without TLS.
func BenchmarkProxy(b *testing.B) {
	answer := strings.Repeat("x", 2048)
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
	defer pod.Close()
	f := newTestHandler(b, pod.Listener.Addr().String(), 1e9)
	proxied := httptest.NewServer(serving.Wrap(f, serving.WrapOptions{Log: slog.New(slog.NewJSONHandler(io.Discard, nil)), MaxInFlight: 1000}))
	defer proxied.Close()
	for name, url := range map[string]string{"direct": pod.URL, "gateway": proxied.URL} {
		for kind, key := range map[string]string{"data": "data", "metadata": "meta"} {
			value, path := signed(b, key), map[string]string{"data": "/cubejs-api/v1/load", "metadata": "/cubejs-api/v1/meta"}[kind]
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.ReportAllocs()
				c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
				defer c.CloseIdleConnections()
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						r, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, url+path, nil)
						r.Host = "sales.data.example.com"
						r.Header.Set("Authorization", value)
						response, err := c.Do(r)
						if err != nil {
							b.Fatal(err)
						}
						if n, _ := io.Copy(io.Discard, response.Body); n != int64(len(answer)) {
							b.Fatalf("%d, %d bytes", response.StatusCode, n)
						}
						_ = response.Body.Close()
					}
				})
			})
		}
	}
}

// TestMessagesOfWebSocketsAreUse: an environment is in use while messages are sent over a WebSocket.
func TestMessagesOfWebSocketsAreUse(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	written := make(chan struct{}, 10)
	kube := fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(&v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales-stg"}}).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
				defer func() { written <- struct{}{} }()
				return c.Patch(ctx, o, p, options...)
			},
		}).Build()
	start, minutes := time.Now(), atomic.Int64{}
	h := &handler{
		limits: newLimits(100, 100, 1, 2),
		usage: &usage.Recorder{Cache: kube, Writer: kube, Log: slog.New(slog.DiscardHandler),
			Now: func() time.Time { return start.Add(time.Duration(minutes.Load()) * time.Minute) }},
		proxy: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.Copy(conn, conn)
		}),
	}
	go func() { _ = h.usage.Run(t.Context()) }()
	pools := upstream.NewPools(upstream.Limits{}, upstream.NewMetrics(prometheus.NewRegistry()))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := &exchange{webSocket: true, target: route.Target{Environment: route.Environment{
			Account: "acme", Namespace: "acme", Name: "sales-stg", Deployment: "sales", Type: v1alpha1.EnvironmentStaging,
		}}}
		e.call.Pool = pools.Get("acme", "sales-stg", engine.PortNameHTTP)
		h.serveAuthenticated(newDeadlineWriter(w, time.Now()), r, e)
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		select {
		case <-written:
		case <-time.After(5 * time.Second):
			t.Fatalf("no use is recorded after %d minutes", minutes.Load())
		}
		minutes.Add(6)
		if _, err := io.WriteString(conn, "message"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWebSocketThatEndsDuringCheck: a WebSocket that ends while its token is checked leaves no place of the deployment.
func TestWebSocketThatEndsDuringCheck(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: engine.CredentialsName("sales-production")},
		Data:       map[string][]byte{engine.KeyAPISecret: []byte("secret")},
	}
	value, err := jwt.New(jwt.SigningMethodHS256).SignedString([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	h := &handler{
		limits: newLimits(100, 100, 1, 2),
		keys:   &token.Store{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(secret).Build(), Now: time.Now},
	}
	set := pending.NewSet(pending.Limits{Total: 1, PerAddress: 1, PerDeployment: 1}, pending.NewMetrics("gateway", prometheus.NewRegistry()), pending.KindRequest)
	a := &authentication{
		handler: h, request: httptest.NewRequest(http.MethodGet, "/", nil), end: func(error) {},
		peer: set.Add(netip.Prefix{}, func() {}), timeout: time.NewTimer(time.Hour),
		exchange: &exchange{target: route.Target{Environment: route.Environment{
			Account: "acme", Namespace: "acme", Name: "sales-production", Deployment: "sales", Type: v1alpha1.EnvironmentProduction,
		}}},
	}
	a.release() // the proxy has returned, but the goroutine that reads from the client is still in check
	a.check(value)
	if done, _ := h.limits.acquire(types.NamespacedName{Namespace: "acme", Name: "sales"}); done == nil {
		t.Error("the WebSocket has ended, but its place is never released")
	}
}
