package gateway

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/gateway/route"
	"github.com/quoin-dev/quoin/gateway/token"
	"github.com/quoin-dev/quoin/gateway/upstream"
	"github.com/quoin-dev/quoin/gateway/usage"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/serving/pending"
)

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
