// Package contract_test tests the documented REST API, row by row, over HTTPS: a real `quoin apiserver` with a real
// kube-apiserver, the real controllers and a real Git server. There is no kubelet: workloads become ready immediately.
package contract_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/apiserver/rest/deployments"
	"github.com/quoin-dev/quoin/controllers"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/inprocess"
)

// k8s is a client of kube-apiserver with administrator permissions.
var k8s client.Client

// cluster is the cluster of the tests.
var cluster *clustertest.Cluster

// kubeAdmin is the administrator's client configuration.
var kubeAdmin *clientrest.Config

// serverAddress is the address of `quoin apiserver`; httpClient trusts its certificate.
var (
	serverAddress net.Addr
	httpClient    *http.Client
)

// repositoryURL is the address of `quoin apiserver` for the controllers and pods.
var repositoryURL string

// The tenants have objects of the same names, to detect requests that reach the wrong one.
var (
	acme   = &account{name: "acme", host: "acme.example.com"}
	globex = &account{name: "globex", host: "globex.example.com", domain: "analytics.globex.example"}
)

// account is a tenant of the tests.
type account struct {
	name, host, domain string
	// admin is the token of a key with all permissions.
	admin string
	// id is the id of the deployment "analytics".
	id string
	// repository is the Git repository of the deployment.
	repository *repository
}

func TestMain(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (code int, err error) {
	cluster, k8s, kubeAdmin = c, c.Client, c.Config
	if idp, err = newIdentityProvider(); err != nil {
		return 0, err
	}
	defer idp.Close()
	if err := startDataPlane(ctx); err != nil {
		return 0, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	repositoryURL = "https://localhost:" + port
	if err := startControllers(ctx, c.As(clustertest.Controller)); err != nil {
		return 0, err
	}
	go clustertest.KeepWorkloadsReady(ctx, k8s, addEndpoint)
	go clustertest.CollectSecrets(ctx, k8s)
	if err := startGitHub(c.Folder); err != nil {
		return 0, err
	}
	defer githubHost.Close()
	server, err := startServer(ctx, c, listener)
	if err != nil {
		return 0, err
	}
	serverAddress = server.Address
	if gitHost, err = newGitServer(ctx, c.Folder); err != nil {
		return 0, err
	}
	if err := createChannels(ctx); err != nil {
		return 0, err
	}
	for _, a := range []*account{acme, globex} {
		if err := a.createObjects(ctx, c); err != nil {
			return 0, fmt.Errorf("account %s: %w", a.name, err)
		}
	}
	if err := trust(ctx, c); err != nil {
		return 0, err
	}
	return server.Run(m)
}

func startControllers(ctx context.Context, config *clientrest.Config) error {
	mgr, err := ctrl.NewManager(config, manager.Options{
		Scheme: k8s.Scheme(), Cache: controllers.CacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = controllers.Setup(ctx, mgr, controllers.Config{
		Namespace: clustertest.Namespace, Image: "quoin:test", Concurrency: 4, AllowInsecureGit: true, SQLPort: sqlPort, RepositoryURL: repositoryURL, DbtImage: "dbt:test",
	})
	if err != nil {
		return err
	}
	go func() {
		if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
			panic(err)
		}
	}()
	return nil
}

func startServer(ctx context.Context, c *clustertest.Cluster, listener net.Listener) (*inprocess.Server, error) {
	logs, err := os.Create(filepath.Join(os.TempDir(), "quoin-contract.log"))
	if err != nil {
		return nil, err
	}
	return inprocess.Serve(ctx, c, apiserver.Config{
		Region: deployments.Region{Name: "here", Title: "Here"}, DbtImage: "dbt:test", HTTPS: serving.Endpoint{Listener: listener},
		GitHub: githubHost.Options, AllowInsecureGit: true, OIDCClient: idp.Client(), Log: slog.New(slog.NewTextHandler(logs, nil)),
	})
}

// trust reads the CA certificate of `quoin apiserver`.
func trust(ctx context.Context, c *clustertest.Cluster) error {
	roots, err := c.Roots(ctx)
	if err != nil {
		return err
	}
	for _, host := range []string{acme.host, globex.host, globex.domain} {
		err := apiclient.Eventually(func() error { // the certificate is renewed for new accounts
			dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12}}
			conn, err := dialer.DialContext(ctx, "tcp", serverAddress.String())
			if err != nil {
				return err
			}
			return conn.Close()
		})
		if err != nil {
			return err
		}
	}
	transport := apiclient.Transport(roots, serverAddress.String)
	transport.ForceAttemptHTTP2 = true
	httpClient = &http.Client{Transport: transport, Timeout: apiclient.Timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return nil
}

// imageRepository is the image repository of all channels, in a real registry on loopback.
var imageRepository string

// createChannels pushes three versions and creates two channels: latest has 1.2.2 and 1.2.3, release has 1.1.0.
func createChannels(ctx context.Context) error {
	address, err := clustertest.StartRegistry(ctx)
	if err != nil {
		return err
	}
	imageRepository = address + "/team/cube"
	for name, versions := range map[string][]string{"latest": {"1.2.2", "1.2.3"}, "release": {"1.1.0"}} {
		c := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ReleaseChannelSpec{ImageRepository: imageRepository}}
		if err := clustertest.PushImages(ctx, imageRepository, versions...); err != nil {
			return err
		}
		for _, v := range versions {
			c.Spec.Versions = append(c.Spec.Versions, v1alpha1.ListedVersion{Version: v})
		}
		if err := k8s.Create(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// createObjects creates the account, its namespace, an API key with all permissions, and the deployment "analytics", whose
// model is in Git on the branches main, next and dev-ada.
func (a *account) createObjects(ctx context.Context, c *clustertest.Cluster) error {
	var err error
	if a.repository, err = gitHost.repository(a.name); err != nil {
		return err
	}
	spec := v1alpha1.AccountSpec{
		Host: v1alpha1.Host(a.host),
		// The audit log records all changes of the tests.
		Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}
	spec.GitHub = &v1alpha1.AccountGitHub{InstallationIDs: []int64{2}}
	if a == acme {
		spec.GitHub.InstallationIDs = []int64{1}
		spec.OIDCIssuers = idp.trusted()
	}
	if a.domain != "" {
		spec.CustomDomains = []v1alpha1.Host{v1alpha1.Host(a.domain)}
	}
	analytics := &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "analytics"},
		Spec: v1alpha1.DeploymentSpec{ReleaseChannel: "latest", Model: v1alpha1.ModelSource{Git: &v1alpha1.GitSource{
			URL: a.repository.url, Interval: &metav1.Duration{Duration: time.Second},
		}}},
	}
	admin := &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "admin"}}
	if err := c.Account(ctx, a.name, spec, admin, analytics); err != nil {
		return err
	}
	token := &corev1.Secret{}
	err = apiclient.Eventually(func() error {
		return k8s.Get(ctx, client.ObjectKey{Namespace: a.name, Name: "admin-token"}, token)
	})
	if err != nil {
		return err
	}
	a.admin = string(token.Data["token"])
	return apiclient.Eventually(func() error {
		if err := k8s.Get(ctx, client.ObjectKeyFromObject(analytics), analytics); err != nil {
			return err
		}
		a.id = analytics.Status.ID
		list := &v1alpha1.BranchList{}
		if err := k8s.List(ctx, list, client.InNamespace(a.name)); err != nil {
			return err
		}
		if analytics.Status.CurrentVersion != "1.2.3" || len(list.Items) != 3 {
			return fmt.Errorf("analytics runs %q and has %d branches: %v", analytics.Status.CurrentVersion, len(list.Items), analytics.Status.Conditions)
		}
		return nil
	})
}

// response is the response to a request.
type response struct {
	t      testing.TB
	what   string
	status int
	header http.Header
	raw    []byte
}

// caller is the host that a client calls and its Authorization header.
type caller struct{ host, authorization string }

func (a *account) as(token string) caller { return caller{a.host, "Bearer " + token} }

// call sends a request. body is a string to send as is, a value to encode as JSON, or nil.
func (c caller) call(t testing.TB, method, path string, body any, headers ...string) *response {
	t.Helper()
	got, err := apiclient.Request{
		Method: method, URL: "https://" + acme.host + path, Host: c.host, // trust has checked the certificates
		Authorization: c.authorization, Body: body, MediaType: "application/json", Header: headers,
	}.Send(context.WithoutCancel(t.Context()), httpClient)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return &response{t: t, what: method + " " + path, status: got.Status, header: got.Header, raw: got.Body}
}

// is checks the status.
func (a *response) is(status int) *response {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: got %d, want %d: %s", a.what, a.status, status, a.raw)
	}
	return a
}

// rejected checks the status, and that the body has only an error that contains all words.
func (a *response) rejected(status int, words ...string) {
	a.t.Helper()
	a.is(status)
	var body map[string]any
	if err := json.Unmarshal(a.raw, &body); err != nil || len(body) != 1 {
		a.t.Fatalf("%s: the body is %s, want {\"error\": …} only", a.what, a.raw)
	}
	message, _ := body["error"].(string)
	for _, word := range words {
		if !strings.Contains(message, word) {
			a.t.Errorf("%s: the error does not contain %q: %s", a.what, word, message)
		}
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		a.t.Errorf("%s: Content-Type is %q", a.what, got)
	}
}

// at returns the value at a dotted path of the body: names and array indexes.
func (a *response) at(path string) any {
	a.t.Helper()
	var value any
	if err := json.Unmarshal(a.raw, &value); err != nil {
		a.t.Fatalf("%s: not JSON: %s", a.what, a.raw)
	}
	value, _ = apiclient.Lookup(value, path)
	return value
}

// list returns an array of objects in the body.
func (a *response) list(path string) []map[string]any {
	a.t.Helper()
	items, ok := a.at(path).([]any)
	if !ok {
		a.t.Fatalf("%s: %s is not an array: %s", a.what, path, a.raw)
	}
	all := make([]map[string]any, len(items))
	for i := range items {
		all[i], _ = items[i].(map[string]any)
	}
	return all
}

// want checks a value of the body.
func (a *response) want(path string, value any) *response {
	a.t.Helper()
	if got := a.at(path); got != value {
		a.t.Errorf("%s: %s is %v (%T), want %v: %s", a.what, path, got, got, value, a.raw)
	}
	return a
}
