package aggregation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	golog "log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

const serviceHost = "quoin-apiserver.quoin-system.svc"

// call is a request that has reached a documented path.
type call struct {
	Method, Path, Query, Body, Host, Account string
	Header                                   http.Header
	Principal                                auth.Principal
}

// cluster is a real Kubernetes API server with a Server aggregated into it.
type cluster struct {
	environment *envtest.Environment
	admin       client.Client
	frontProxy  *authority // signs the client certificates of the front proxy
	serving     *authority // signs the Server's certificate
	address     string     // of the Server, for direct requests
	// tokenReviews counts the TokenReviews that the Server creates.
	tokenReviews atomic.Int64

	lock    sync.Mutex
	calls   []call
	reviews []*admissionv1.AdmissionRequest
	// reviewed is called with each review; may be nil.
	reviewed func(context.Context, *admissionv1.AdmissionRequest)
}

// testAccounts are all accounts.
var testAccounts = map[string]*v1alpha1.Account{
	"demo":  {ObjectMeta: metav1.ObjectMeta{Name: "demo"}, Spec: v1alpha1.AccountSpec{Host: "demo.example.com"}},
	"other": {ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: v1alpha1.AccountSpec{Host: "other.example.com"}},
}

// testOptions returns options with the accounts of the tests.
func testOptions(api kubernetes.Interface) Options {
	return Options{
		Client: api,
		Account: func(name string) (*v1alpha1.Account, error) {
			if name == "broken" {
				return nil, errors.New("cache: secret detail")
			}
			return testAccounts[name], nil
		},
		Accounts: func(context.Context) ([]v1alpha1.Account, error) {
			return []v1alpha1.Account{*testAccounts["other"], *testAccounts["demo"]}, nil
		},
		Next: func(http.ResponseWriter, *http.Request, *v1alpha1.Account, *auth.Principal) {},
		Review: func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{Allowed: true}
		},
	}
}

// startCluster starts a cluster and waits until the APIService is available.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("KUBEBUILDER_ASSETS is not set")
		}
		t.Skip("SKIPPED LOUDLY: KUBEBUILDER_ASSETS is not set; run make test-unit, which builds an API server")
	}
	c := &cluster{frontProxy: newAuthority(t, "front-proxy-ca"), serving: newAuthority(t, "serving-ca")}
	c.startKubernetes(t)
	configuration := c.read(t, "aggregation")
	for _, file := range []string{"proxy_viewer_role.yaml", "proxy_admin_role.yaml"} {
		role := &unstructured.Unstructured{}
		decode(t, filepath.Join("rbac", file), &role.Object)
		c.create(t, role)
	}
	for _, object := range configuration {
		if object.GetKind() != "APIService" {
			c.create(t, object)
		}
	}
	c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "quoin-system"}})
	port := c.serve(t)
	c.create(t, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "quoin-apiserver", Namespace: "quoin-system"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	})
	for _, object := range configuration {
		if object.GetKind() == "APIService" {
			c.register(t, object, port)
		}
	}
	return c
}

// startKubernetes starts a Kubernetes API server with the flags that aggregation needs.
func (c *cluster) startKubernetes(t *testing.T) {
	t.Helper()
	c.environment = &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("..", "..", "config", "crd", "bases")}}
	folder, proxyClient := t.TempDir(), c.frontProxy.issue(t, "front-proxy-client")
	for flag, content := range map[string][]byte{
		"requestheader-client-ca-file": c.frontProxy.pem,
		"proxy-client-cert-file":       proxyClient.certificate,
		"proxy-client-key-file":        proxyClient.key,
	} {
		path := filepath.Join(folder, flag)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		c.environment.ControlPlane.GetAPIServer().Configure().Set(flag, path)
	}
	c.environment.ControlPlane.GetAPIServer().Configure().
		Set("requestheader-allowed-names", "front-proxy-client").
		Set("requestheader-username-headers", "X-Remote-User").
		Set("requestheader-group-headers", "X-Remote-Group").
		Set("requestheader-extra-headers-prefix", "X-Remote-Extra-")
	config, err := c.environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.environment.Stop(); err != nil {
			t.Log(err)
		}
	})
	if c.admin, err = client.New(config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(c.admin.Scheme()); err != nil {
		t.Fatal(err)
	}
}

// read returns the objects in a folder of config.
func (c *cluster) read(t *testing.T, name string) (objects []*unstructured.Unstructured) {
	t.Helper()
	kustomization := struct{ Resources []string }{}
	decode(t, filepath.Join(name, "kustomization.yaml"), &kustomization)
	for _, file := range kustomization.Resources {
		object := &unstructured.Unstructured{}
		decode(t, filepath.Join(name, file), &object.Object)
		objects = append(objects, object)
	}
	return objects
}

// decode decodes a file of config.
func decode(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", file))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := c.admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// serve starts a Server with the permissions of its ServiceAccount, and returns its port.
func (c *cluster) serve(t *testing.T) int64 {
	t.Helper()
	config := c.as(t, "system:serviceaccount:quoin-system:quoin-apiserver")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
				c.tokenReviews.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	options := testOptions(api)
	options.Next, options.Review = c.record, c.review
	server, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Start(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	c.address = listen(t, server, c.serving.issue(t, "quoin-apiserver", serviceHost))
	_, port, err := net.SplitHostPort(c.address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		t.Fatal(err)
	}
	return int64(number)
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// listen serves on a free port until the test ends.
func listen(t *testing.T, server *Server, certificate leaf) (address string) {
	t.Helper()
	config := &tls.Config{Certificates: []tls.Certificate{certificate.pair(t)}, NextProtos: []string{"h2", "http/1.1"}}
	server.TLS(config)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	httpServer := &http.Server{Handler: server, ReadHeaderTimeout: time.Minute, TLSConfig: config, ErrorLog: golog.New(io.Discard, "", 0)}
	go func() { _ = httpServer.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = httpServer.Close() })
	return listener.Addr().String()
}

// review records an admission request and allows it.
func (c *cluster) review(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.reviews = append(c.reviews, request)
	if c.reviewed != nil {
		c.reviewed(ctx, request)
	}
	return &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
}

// record records a request to a documented path.
func (c *cluster) record(w http.ResponseWriter, r *http.Request, account *v1alpha1.Account, p *auth.Principal) {
	body, _ := io.ReadAll(r.Body)
	c.lock.Lock()
	defer c.lock.Unlock()
	if auth.From(r.Context()) != p || r.URL.RawPath != "" || r.RequestURI != r.URL.RequestURI() {
		http.Error(w, "inconsistent request", http.StatusTeapot)
		return
	}
	c.calls = append(c.calls, call{
		Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Body: string(body), Host: r.Host,
		Account: account.Name, Header: r.Header.Clone(), Principal: *p,
	})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Etag", `"17"`)
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write([]byte(`{"answered":true}`))
}

// takeCalls returns the calls since the last takeCalls.
func (c *cluster) takeCalls() []call {
	c.lock.Lock()
	defer c.lock.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}

// register creates the APIService and waits until it is available.
func (c *cluster) register(t *testing.T, apiService *unstructured.Unstructured, port int64) {
	t.Helper()
	spec, _ := apiService.Object["spec"].(map[string]any)
	reference, _ := spec["service"].(map[string]any)
	reference["port"] = port
	spec["caBundle"] = string(encode(c.serving.pem))
	c.create(t, apiService)
	eventually(t, func() bool {
		if err := c.admin.Get(t.Context(), client.ObjectKeyFromObject(apiService), apiService); err != nil {
			t.Fatal(err)
		}
		conditions, _, _ := unstructured.NestedSlice(apiService.Object, "status", "conditions")
		for _, condition := range conditions {
			if values, _ := condition.(map[string]any); values["type"] == "Available" {
				return values["status"] == "True"
			}
		}
		return false
	}, func() any { return apiService.Object["status"] })
}

// as returns the client configuration of a Kubernetes user.
func (c *cluster) as(t *testing.T, user string, groups ...string) *rest.Config {
	t.Helper()
	return c.user(t, user, groups...).Config()
}

func (c *cluster) user(t *testing.T, name string, groups ...string) *envtest.AuthenticatedUser {
	t.Helper()
	user, err := c.environment.AddUser(envtest.User{Name: name, Groups: groups}, &rest.Config{QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return user
}

// bind grants a user a ClusterRole in a namespace, or in the cluster if namespace is empty.
func (c *cluster) bind(t *testing.T, user, role, namespace string) {
	t.Helper()
	reference := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}
	meta := metav1.ObjectMeta{Name: user + "-" + role, Namespace: namespace}
	if namespace == "" {
		c.create(t, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: reference, Subjects: subjects})
		return
	}
	c.create(t, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: reference, Subjects: subjects})
}

// direct returns a client for direct requests to the Server, with an optional client certificate.
func (c *cluster) direct(t *testing.T, certificates ...tls.Certificate) *http.Client {
	t.Helper()
	return clientOf(t, c.serving, certificates...)
}

func clientOf(t *testing.T, serving *authority, certificates ...tls.Certificate) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(serving.certificate)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
		RootCAs: roots, ServerName: serviceHost,
		// Sent regardless of the server's list of acceptable authorities.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(certificates) == 0 {
				return &tls.Certificate{}, nil
			}
			return &certificates[0], nil
		},
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func eventually(t *testing.T, done func() bool, state func() any) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timeout: %v", state())
		}
	}
}
