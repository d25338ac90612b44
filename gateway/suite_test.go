package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// world is an account with deployments, and a gateway in front of it.
type world struct {
	testing.TB
	kube      client.WithWatch
	namespace string
	domain    string // the data domain
	addresses gateway.Addresses
	roots     *x509.CertPool
	http      *http.Client
	log       *lockedBuffer
	stop      func() // ends the gateway and waits for it
	slices    atomic.Int64
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// podIP is an address that pods of the test can have: an EndpointSlice takes no loopback.
func podIP(t testing.TB) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range all {
		if ip, ok := address.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	t.Skip("SKIPPED: this machine has no address but loopback, which Kubernetes takes for no pod's")
	return ""
}

// newWorld makes an account of the test's own, and starts a gateway. change may change its
// configuration.
func newWorld(t testing.TB, change func(*gateway.Config)) *world {
	t.Helper()
	w := &world{TB: t, log: &lockedBuffer{}}
	w.kube, w.namespace = apitest.Direct(t)
	w.domain = "data." + w.namespace + ".example.com"
	w.create(&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Spec: v1alpha1.AccountSpec{
		Host: v1alpha1.Host(w.namespace + ".example.com"), Namespace: w.namespace,
	}})
	w.start(change)
	return w
}

func (w *world) start(change func(*gateway.Config)) {
	w.Helper()
	bound := make(chan gateway.Addresses, 1)
	c := gateway.Config{
		Namespace: w.namespace, Service: "quoin-gateway",
		HTTPS: serving.Endpoint{Address: "127.0.0.1:0"}, SQL: serving.Endpoint{Address: "127.0.0.1:0"}, Probes: serving.Endpoint{Address: "127.0.0.1:0"},
		OnListen:          func(a gateway.Addresses) { bound <- a },
		RequestsPerSecond: 100_000, Burst: 100_000, MaxInFlight: 10_000, MaxRequests: 10_000,
		WaitTimeout: 10 * time.Second, MaxWaiting: 1000, MaxSQLConnections: 100, DrainTimeout: 5 * time.Second,
		Log:        slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Registerer: prometheus.NewRegistry(),
	}
	if change != nil {
		change(&c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	config := w.restricted(apitest.Server(w))
	go func() { ended <- gateway.Run(ctx, config, c) }()
	select {
	case w.addresses = <-bound:
	case err := <-ended:
		w.Fatalf("the gateway has ended: %v", err)
	case <-time.After(30 * time.Second):
		w.Fatal("the gateway does not listen")
	}
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("the gateway ended with %v", err)
		}
	})
	w.Cleanup(w.stop)
	secret := &corev1.Secret{}
	w.get("quoin-gateway-tls", secret)
	w.roots = x509.NewCertPool()
	w.roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	w.http = w.client(false)
}

// client sends everything to the gateway, whatever the host.
func (w *world) client(http2 bool) *http.Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, w.addresses.HTTPS.String())
		},
		TLSClientConfig: &tls.Config{RootCAs: w.roots}, ForceAttemptHTTP2: http2, MaxIdleConnsPerHost: 64, DisableCompression: true,
	}
	if !http2 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	w.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (w *world) create(o client.Object) {
	w.Helper()
	if err := w.kube.Create(w.Context(), o); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = w.kube.Delete(context.Background(), o) })
}

func (w *world) get(name string, o client.Object) {
	w.Helper()
	if err := w.kube.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, o); err != nil {
		w.Fatal(err)
	}
}

// deployment makes one with an environment of each branch, production when there is none.
func (w *world) deployment(name string, api *v1alpha1.DataAPI, branches ...string) {
	w.Helper()
	w.create(&v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: v1alpha1.DeploymentSpec{
		ReleaseChannel: "latest", Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}}, DataAPI: api,
		Env: []v1alpha1.EnvVar{{Name: "CUBEJS_DB_TYPE", Value: ptr.To("postgres")}},
	}})
	w.environment(name, v1alpha1.ProductionName(name), "")
	for i, branch := range branches {
		object := name + "-branch-" + strconv.Itoa(i)
		w.create(&v1alpha1.Branch{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: object}, Spec: v1alpha1.BranchSpec{
			DeploymentRef: v1alpha1.LocalReference{Name: name}, Name: branch, Role: v1alpha1.BranchShared,
		}})
		w.environment(name, name+"-stg-"+strconv.Itoa(i), object)
	}
}

func (w *world) environment(deployment, name, branch string) {
	w.Helper()
	e := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: v1alpha1.EnvironmentSpec{
		DeploymentRef: v1alpha1.LocalReference{Name: deployment}, Type: v1alpha1.EnvironmentProduction, Version: "1.0.0", Image: "cube:v1.0.0",
	}}
	if branch != "" {
		e.Spec.Type, e.Spec.BranchRef = v1alpha1.EnvironmentStaging, &v1alpha1.LocalReference{Name: branch}
	}
	w.create(e)
	for secret, keys := range map[string][]string{engine.CredentialsName(name): {engine.KeyAPISecret}, engine.GatewayCredentialsName(name): {engine.KeyMetadata}} {
		data := map[string][]byte{}
		for _, key := range keys {
			data[key] = []byte(w.key(name, key))
		}
		w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: secret}, Data: data})
	}
}

// key is what a key of an environment is in the tests.
func (w *world) key(environment, key string) string {
	return w.namespace + "/" + environment + "/" + key
}

// token signs one for an environment.
func (w *world) token(environment, key string, claims jwt.MapClaims) string {
	w.Helper()
	all := jwt.MapClaims{"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range claims {
		all[name] = value
	}
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, all).SignedString([]byte(w.key(environment, key)))
	if err != nil {
		w.Fatal(err)
	}
	return signed
}

func (w *world) data(environment string) string {
	return w.token(environment, engine.KeyAPISecret, nil)
}
func (w *world) meta(environment string) string { return w.token(environment, engine.KeyMetadata, nil) }

// endpoint puts an address behind an environment; drop takes it away.
func (w *world) endpoint(environment, address string) (drop func()) {
	w.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		w.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		w.Fatal(err)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: fmt.Sprintf("%s-%d", environment, w.slices.Add(1)),
			Labels: map[string]string{discoveryv1.LabelServiceName: engine.APIName(environment), engine.LabelManagedBy: engine.ManagedBy},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{host}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To(int32(number))}, {Name: ptr.To("sql"), Port: ptr.To(int32(number))}},
	}
	if err := w.kube.Create(context.Background(), slice); err != nil {
		w.Fatal(err)
	}
	return func() { _ = w.kube.Delete(context.Background(), slice) }
}

// pod is a fake of the data-plane server: it checks tokens as the real one does.
type pod struct {
	*httptest.Server
	served atomic.Int64
	last   atomic.Pointer[http.Request]
}

// newPod starts a pod of an environment, and other on top of what it answers.
func (w *world) newPod(environment string, other http.HandlerFunc) *pod {
	w.Helper()
	p := &pod{}
	listener, err := net.Listen("tcp", net.JoinHostPort(podIP(w), "0"))
	if err != nil {
		w.Fatal(err)
	}
	p.Server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		p.served.Add(1)
		p.last.Store(r)
		token := r.Header.Get("X-Cube-Authorization")
		if token == "" {
			token = r.Header.Get("Authorization")
		}
		token = strings.TrimPrefix(token, "Bearer ")
		if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") && r.Method != http.MethodOptions {
			if _, err := jwt.Parse(token, func(*jwt.Token) (any, error) { return []byte(w.key(environment, engine.KeyAPISecret)), nil }, jwt.WithValidMethods([]string{"HS256"})); err != nil {
				rw.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(rw, `{"error":"Invalid token"}`)
				return
			}
		}
		if other != nil {
			other(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		body, _ := io.ReadAll(r.Body)
		_ = json.NewEncoder(rw).Encode(map[string]any{"environment": environment, "method": r.Method, "uri": r.RequestURI, "body": string(body)})
	})}}
	p.Start()
	w.Cleanup(p.Close)
	return p
}

func (p *pod) address() string { return p.Listener.Addr().String() }

// serve starts a pod and puts it behind its environment.
func (w *world) serve(environment string, other http.HandlerFunc) *pod {
	w.Helper()
	p := w.newPod(environment, other)
	w.Cleanup(w.endpoint(environment, p.address()))
	return p
}

type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request; header are pairs of name and value.
func (w *world) ask(c *http.Client, method, url, token string, body io.Reader, header ...string) answer {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), method, url, body)
	if err != nil {
		w.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", token)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	response, err := c.Do(r)
	if err != nil {
		w.Errorf("%s %s: %v", method, url, err)
		return answer{}
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		w.Errorf("%s %s: %v", method, url, err)
	}
	return answer{response.StatusCode, response.Header, string(all)}
}

func (w *world) url(deployment, path string) string {
	return "https://" + deployment + "." + w.domain + path
}

// eventually waits until the gateway has seen what was made.
func (w *world) eventually(what string, is func() bool) {
	w.Helper()
	for range 400 {
		if is() {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	w.Fatal("not in time: " + what)
}

// routed waits until a deployment's host is known.
func (w *world) routed(deployment, path string) {
	w.Helper()
	w.known(w.url(deployment, path))
}

// known waits until an address leads somewhere.
func (w *world) known(url string) {
	w.Helper()
	w.eventually(url, func() bool {
		r, err := w.http.Get(url)
		if err == nil {
			_ = r.Body.Close()
		}
		return err == nil && r.StatusCode == http.StatusUnauthorized
	})
}
