package gateway_test

import (
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
	"github.com/quoin-dev/quoin/internal/serving/logtest"
	"github.com/quoin-dev/quoin/internal/tenant"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// fixture is an account with deployments, and a gateway in front of it.
type fixture struct {
	testing.TB
	kube      client.WithWatch
	namespace string
	domain    string // the data domain
	addresses gateway.Addresses
	roots     *x509.CertPool
	http      *http.Client
	log       *logtest.Buffer
	stop      func() // ends the gateway and waits for it
	slices    atomic.Int64
}

// newFixture creates an account for the test, and starts a gateway. change may modify its
// configuration.
func newFixture(t testing.TB, change func(*gateway.Config)) *fixture {
	t.Helper()
	f := &fixture{TB: t, log: &logtest.Buffer{}}
	f.kube, f.namespace = apitest.Direct(t)
	f.domain = "data." + f.namespace + ".example.com"
	f.create(&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}, Spec: v1alpha1.AccountSpec{
		Host: v1alpha1.Host(f.namespace + ".example.com"), Namespace: f.namespace,
	}})
	f.start(change)
	return f
}

func (f *fixture) start(change func(*gateway.Config)) {
	f.Helper()
	bound := make(chan gateway.Addresses, 1)
	c := gateway.Config{
		Namespace: f.namespace, Service: "quoin-gateway",
		HTTPS: serving.Endpoint{Address: "127.0.0.1:0"}, SQL: serving.Endpoint{Address: "127.0.0.1:0"}, Probes: serving.Endpoint{Address: "127.0.0.1:0"},
		OnListen:          func(a gateway.Addresses) { bound <- a },
		RequestsPerSecond: 100_000, Burst: 100_000, MaxInFlight: 10_000, MaxRequests: 10_000,
		WaitTimeout: 10 * time.Second, MaxWaiting: 1000, MaxSQLConnections: 100, DrainTimeout: 5 * time.Second,
		Log:        slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Registerer: prometheus.NewRegistry(),
	}
	if change != nil {
		change(&c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	config := f.restrictedConfig()
	go func() { ended <- gateway.Run(ctx, config, c) }()
	select {
	case f.addresses = <-bound:
	case err := <-ended:
		f.Fatalf("the gateway stopped: %v", err)
	case <-time.After(30 * time.Second):
		f.Fatal("the gateway does not listen")
	}
	f.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			f.Errorf("the gateway stopped with %v", err)
		}
	})
	f.Cleanup(f.stop)
	secret := &corev1.Secret{}
	f.get("quoin-gateway-tls", secret)
	f.roots = x509.NewCertPool()
	f.roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	f.http = f.client(false)
}

// client returns a client that connects to the gateway for every host.
func (f *fixture) client(http2 bool) *http.Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, f.addresses.HTTPS.String())
		},
		TLSClientConfig: &tls.Config{RootCAs: f.roots}, ForceAttemptHTTP2: http2, MaxIdleConnsPerHost: 64, DisableCompression: true,
	}
	if !http2 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	f.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (f *fixture) create(o client.Object) {
	f.Helper()
	if err := f.kube.Create(f.Context(), o); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = f.kube.Delete(context.Background(), o) })
}

func (f *fixture) get(name string, o client.Object) {
	f.Helper()
	if err := f.kube.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: name}, o); err != nil {
		f.Fatal(err)
	}
}

// createDeployment creates a deployment with production and an environment for each branch.
func (f *fixture) createDeployment(name string, api *v1alpha1.DataAPI, branches ...string) {
	f.Helper()
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}, Spec: v1alpha1.DeploymentSpec{
		ReleaseChannel: "latest", Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}}, DataAPI: api,
		Env: []v1alpha1.EnvVar{{Name: "CUBEJS_DB_TYPE", Value: ptr.To("postgres")}},
	}}
	f.create(d)
	if domain := tenant.RequestedDomain(d); domain != "" { // the controller claims it
		before := d.DeepCopy()
		d.Status.CustomDomain = domain
		if err := f.kube.Status().Patch(f.Context(), d, client.MergeFrom(before)); err != nil {
			f.Fatal(err)
		}
	}
	f.createEnvironment(name, v1alpha1.ProductionName(name), "")
	for i, branch := range branches {
		object := name + "-branch-" + strconv.Itoa(i)
		f.create(&v1alpha1.Branch{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: object}, Spec: v1alpha1.BranchSpec{
			DeploymentRef: v1alpha1.LocalReference{Name: name}, Name: branch, Role: v1alpha1.BranchShared,
		}})
		f.createEnvironment(name, name+"-stg-"+strconv.Itoa(i), object)
	}
}

func (f *fixture) createEnvironment(deployment, name, branch string) {
	f.Helper()
	e := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}, Spec: v1alpha1.EnvironmentSpec{
		DeploymentRef: v1alpha1.LocalReference{Name: deployment}, Type: v1alpha1.EnvironmentProduction, Version: "1.0.0", Image: "cube:v1.0.0",
	}}
	if branch != "" {
		e.Spec.Type, e.Spec.BranchRef = v1alpha1.EnvironmentStaging, &v1alpha1.LocalReference{Name: branch}
	}
	f.create(e)
	for secret, keys := range map[string][]string{engine.CredentialsName(name): {engine.KeyAPISecret}, engine.GatewayCredentialsName(name): {engine.KeyMetadata}} {
		data := map[string][]byte{}
		for _, key := range keys {
			data[key] = []byte(f.signingKey(name, key))
		}
		f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: secret}, Data: data})
	}
}

// signingKey returns the value of a key of an environment.
func (f *fixture) signingKey(environment, key string) string {
	return f.namespace + "/" + environment + "/" + key
}

// sign returns a token for an environment.
func (f *fixture) sign(environment, key string, claims jwt.MapClaims) string {
	f.Helper()
	all := jwt.MapClaims{"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range claims {
		all[name] = value
	}
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, all).SignedString([]byte(f.signingKey(environment, key)))
	if err != nil {
		f.Fatal(err)
	}
	return signed
}

func (f *fixture) dataToken(environment string) string {
	return f.sign(environment, engine.KeyAPISecret, nil)
}
func (f *fixture) metadataToken(environment string) string {
	return f.sign(environment, engine.KeyMetadata, nil)
}

// addEndpoint adds an address to an environment; drop removes it.
func (f *fixture) addEndpoint(environment, address string) (drop func()) {
	f.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		f.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		f.Fatal(err)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.namespace, Name: fmt.Sprintf("%s-%d", environment, f.slices.Add(1)),
			Labels: map[string]string{discoveryv1.LabelServiceName: engine.APIName(environment), engine.LabelManagedBy: engine.ManagedBy},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{host}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To(int32(number))}, {Name: ptr.To("sql"), Port: ptr.To(int32(number))}},
	}
	if err := f.kube.Create(context.Background(), slice); err != nil {
		f.Fatal(err)
	}
	return func() { _ = f.kube.Delete(context.Background(), slice) }
}

// pod is a fake data-plane server: it checks tokens like the real one.
type pod struct {
	*httptest.Server
	served atomic.Int64
	last   atomic.Pointer[http.Request]
}

// newPod starts a pod of an environment. handler, unless nil, responds to authorized requests.
func (f *fixture) newPod(environment string, handler http.HandlerFunc) *pod {
	f.Helper()
	p := &pod{}
	listener, err := net.Listen("tcp", net.JoinHostPort(apitest.PodIP(f), "0"))
	if err != nil {
		f.Fatal(err)
	}
	p.Server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.served.Add(1)
		p.last.Store(r)
		token := r.Header.Get("X-Cube-Authorization")
		if token == "" {
			token = r.Header.Get("Authorization")
		}
		token = strings.TrimPrefix(token, "Bearer ")
		if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") && r.Method != http.MethodOptions {
			if _, err := jwt.Parse(token, func(*jwt.Token) (any, error) { return []byte(f.signingKey(environment, engine.KeyAPISecret)), nil }, jwt.WithValidMethods([]string{"HS256"})); err != nil {
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, `{"error":"Invalid token"}`)
				return
			}
		}
		if handler != nil {
			handler(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		body, _ := io.ReadAll(r.Body)
		_ = json.NewEncoder(w).Encode(map[string]any{"environment": environment, "method": r.Method, "uri": r.RequestURI, "body": string(body)})
	})}}
	p.Start()
	f.Cleanup(p.Close)
	return p
}

func (p *pod) address() string { return p.Listener.Addr().String() }

// startPod starts a pod and adds it to its environment.
func (f *fixture) startPod(environment string, handler http.HandlerFunc) *pod {
	f.Helper()
	p := f.newPod(environment, handler)
	f.Cleanup(f.addEndpoint(environment, p.address()))
	return p
}

type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request; header are pairs of name and value.
func (f *fixture) do(c *http.Client, method, url, token string, body io.Reader, header ...string) answer {
	f.Helper()
	r, err := http.NewRequestWithContext(f.Context(), method, url, body)
	if err != nil {
		f.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", token)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	response, err := c.Do(r)
	if err != nil {
		f.Errorf("%s %s: %v", method, url, err)
		return answer{}
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		f.Errorf("%s %s: %v", method, url, err)
	}
	return answer{response.StatusCode, response.Header, string(all)}
}

func (f *fixture) url(deployment, path string) string {
	return "https://" + deployment + "." + f.domain + path
}

// eventually waits until is returns true.
func (f *fixture) eventually(what string, is func() bool) {
	f.Helper()
	for range 400 {
		if is() {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	f.Fatal("timeout: " + what)
}

// waitForRoute waits until a deployment is routed.
func (f *fixture) waitForRoute(deployment, path string) {
	f.Helper()
	f.waitForURL(f.url(deployment, path))
}

// waitForURL waits until a URL is routed.
func (f *fixture) waitForURL(url string) {
	f.Helper()
	f.eventually(url, func() bool {
		r, err := f.http.Get(url)
		if err == nil {
			_ = r.Body.Close()
		}
		return err == nil && r.StatusCode == http.StatusUnauthorized
	})
}
