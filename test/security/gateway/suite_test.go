// Package gateway_test attacks a real gateway the way a hostile tenant or an unauthenticated client would. The tests
// measure what an attack takes from others: heap, places, connections.
package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/gateway"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/serving"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// victim is the deployment that an attack must not affect, unless the test creates others.
const victim = "victim"

// world is an account with the deployment of the victim, and a gateway.
type world struct {
	testing.TB
	kube      client.Client
	account   string
	metrics   *prometheus.Registry
	addresses gateway.Addresses
	roots     *x509.CertPool
}

// newWorld starts a gateway. change may modify its configuration.
func newWorld(t *testing.T, change func(*gateway.Config)) *world {
	t.Helper()
	w := &world{TB: t, metrics: prometheus.NewRegistry()}
	w.kube, w.account = apitest.Direct(t)
	w.create(&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: w.account}, Spec: v1alpha1.AccountSpec{
		Host: v1alpha1.Host(w.account + ".example.com"), Namespace: w.account,
	}})
	bound := make(chan gateway.Addresses, 1)
	c := gateway.Config{
		Namespace: w.account, Service: "quoin-gateway",
		HTTPS: serving.Endpoint{Address: "127.0.0.1:0"}, SQL: serving.Endpoint{Address: "127.0.0.1:0"},
		OnListen:          func(a gateway.Addresses) { bound <- a },
		RequestsPerSecond: 100_000, Burst: 100_000, MaxInFlight: 1000, MaxRequests: 10_000,
		WaitTimeout: 10 * time.Second, MaxWaiting: 100, MaxSQLConnections: 100, DrainTimeout: time.Second,
		Log: slog.New(slog.DiscardHandler), Registerer: w.metrics,
	}
	if change != nil {
		change(&c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- gateway.Run(ctx, apitest.Server(t), c) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	select {
	case w.addresses = <-bound:
	case err := <-ended:
		t.Fatalf("the gateway stopped: %v", err)
	}
	secret := &corev1.Secret{}
	if err := w.kube.Get(t.Context(), client.ObjectKey{Namespace: w.account, Name: "quoin-gateway-tls"}, secret); err != nil {
		t.Fatal(err)
	}
	w.roots = x509.NewCertPool()
	w.roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	return w
}

func (w *world) create(o client.Object) {
	w.Helper()
	if err := w.kube.Create(w.Context(), o); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = w.kube.Delete(context.Background(), o) })
}

// deploy creates a deployment with production, whose pod listens on the addresses, and waits until the gateway serves it.
func (w *world) deploy(name string, api, sql net.Addr) {
	w.Helper()
	production := v1alpha1.ProductionName(name)
	w.create(&v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.account, Name: name}, Spec: v1alpha1.DeploymentSpec{
		ReleaseChannel: "latest", Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}},
	}})
	w.create(&v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: w.account, Name: production}, Spec: v1alpha1.EnvironmentSpec{
		DeploymentRef: v1alpha1.LocalReference{Name: name}, Type: v1alpha1.EnvironmentProduction, Version: "1.0.0", Image: "cube:v1.0.0",
	}})
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.account, Name: engine.CredentialsName(production)},
		Data: map[string][]byte{engine.KeyAPISecret: []byte(production)}})
	w.create(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.account, Name: production,
			Labels: map[string]string{discoveryv1.LabelServiceName: engine.APIName(production), engine.LabelManagedBy: engine.ManagedBy}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{tcp(api).IP.String()}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To(int32(tcp(api).Port))}, {Name: ptr.To("sql"), Port: ptr.To(int32(tcp(sql).Port))}},
	})
	c := w.client("127.0.0.1")
	w.eventually("the route and the pod of "+name, func() bool {
		status, _ := w.get(c, name, "/v1/ready")
		return status == http.StatusOK
	})
}

func tcp(address net.Addr) *net.TCPAddr { return address.(*net.TCPAddr) }

// pod starts a pod, whose handler does not answer /v1/ready.
func (w *world) pod(handler http.HandlerFunc) net.Addr {
	w.Helper()
	pod := &httptest.Server{Listener: w.listenAsPod(), Config: &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/v1/ready") {
			handler(rw, r)
		}
	})}}
	pod.Start()
	w.Cleanup(func() {
		pod.CloseClientConnections()
		pod.Close()
	})
	return pod.Listener.Addr()
}

// listenAsPod listens on an address that EndpointSlices accept: not on loopback.
func (w *world) listenAsPod() net.Listener {
	w.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(apitest.PodIP(w), "0"))
	if err != nil {
		w.Fatal(err)
	}
	return l
}

// client returns an HTTP client with an address of its own, in 127.0.0.0/8.
func (w *world) client(address string) *http.Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return w.dialFrom(ctx, address, w.addresses.HTTPS)
		},
		TLSClientConfig: &tls.Config{RootCAs: w.roots}, MaxIdleConnsPerHost: 64,
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	w.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (w *world) dialFrom(ctx context.Context, address string, to net.Addr) (net.Conn, error) {
	return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).DialContext(ctx, "tcp", to.String())
}

func (w *world) host(deployment string) string {
	return deployment + ".data." + w.account + ".example.com"
}

// token returns a data token.
func (w *world) token(deployment string) string {
	w.Helper()
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"exp": time.Now().Add(time.Hour).Unix()}).
		SignedString([]byte(v1alpha1.ProductionName(deployment)))
	if err != nil {
		w.Fatal(err)
	}
	return signed
}

// get sends a request with a valid token. The status is 0 if there is no response.
func (w *world) get(c *http.Client, deployment, path string) (status int, body string) {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, "https://"+w.host(deployment)+"/cubejs-api"+path, nil)
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Authorization", w.token(deployment))
	response, err := c.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(all)
}

// gauge returns the value of a metric of the gateway, with a kind or none.
func (w *world) gauge(name, kind string) float64 {
	w.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (kind == "" || m.GetLabel()[0].GetValue() == kind) {
				return m.GetGauge().GetValue()
			}
		}
	}
	w.Fatalf("no metric %s", name)
	return 0
}

// raw opens a TLS connection to the data API from an address, for requests that no HTTP client sends.
func (w *world) raw(address, deployment string) *tls.Conn {
	w.Helper()
	conn, err := w.dialFrom(w.Context(), address, w.addresses.HTTPS)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute)) // for a test that fails
	return tls.Client(conn, &tls.Config{RootCAs: w.roots, ServerName: w.host(deployment)})
}

// eventually waits until is returns true.
func (w *world) eventually(what string, is func() bool) {
	w.Helper()
	for range 2400 {
		if is() {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	w.Fatal("timeout: " + what)
}
