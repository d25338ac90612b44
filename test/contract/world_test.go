// Package contract_test reads like the documented API, row by row, and asks a real front end
// over HTTPS, which asks a real kube-apiserver. The real controllers run beside it, and a real
// Git server; only the kubelet is missing: workloads are ready as soon as they are written.
package contract_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ociname "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	appsv1 "k8s.io/api/apps/v1"
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
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/controllers"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/test/contract/internal/apiclient"
	"github.com/quoin-dev/quoin/test/contract/internal/clustertest"
)

// k8s is the API server as an administrator sees it.
var k8s client.Client

// kubeAdmin is how an administrator reaches it.
var kubeAdmin *clientrest.Config

// front is where `quoin apiserver` listens, httpClient trusts its certificate.
var (
	front      net.Addr
	httpClient *http.Client
)

// The tenants. They have objects of the same names, so that a mix-up would be seen.
var (
	acme   = &account{name: "acme", host: "acme.example.com"}
	globex = &account{name: "globex", host: "globex.example.com", domain: "analytics.globex.example"}
)

// account is a tenant of the tests.
type account struct {
	name, host, domain string
	// admin is the token of a key with all permissions.
	admin string
	// id is the number of the deployment "analytics".
	id string
	// repository is the deployment's.
	repository *repository
}

func TestMain(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (code int, err error) {
	k8s, kubeAdmin = c.Client, c.Config
	if idp, err = newIdentityProvider(); err != nil {
		return 0, err
	}
	defer idp.Close()
	if err := startControllers(ctx, c.Config); err != nil {
		return 0, err
	}
	go workloadsGetReady(ctx)
	failed := make(chan error, 1)
	confined, err := restricted(ctx, c.Config)
	if err != nil {
		return 0, err
	}
	if err := startFront(ctx, confined, c.Folder, failed); err != nil {
		return 0, err
	}
	if gitHost, err = newGitServer(ctx, c.Folder); err != nil {
		return 0, err
	}
	if err := channels(ctx); err != nil {
		return 0, err
	}
	for _, a := range []*account{acme, globex} {
		if err := a.furnish(ctx, c); err != nil {
			return 0, fmt.Errorf("account %s: %w", a.name, err)
		}
	}
	if err := trust(ctx, c); err != nil {
		return 0, err
	}
	code = m.Run()
	select {
	case err := <-failed:
		return 0, fmt.Errorf("the front end ended: %w", err)
	default:
		return code, nil
	}
}

func startControllers(ctx context.Context, config *clientrest.Config) error {
	mgr, err := ctrl.NewManager(config, manager.Options{
		Scheme: k8s.Scheme(), Cache: controllers.CacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = controllers.Setup(ctx, mgr, controllers.Config{Namespace: clustertest.Namespace, Image: "quoin:test", Concurrency: 4, AllowInsecureGit: true})
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

func startFront(ctx context.Context, config *clientrest.Config, folder string, failed chan error) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	listening := make(chan serving.Addresses, 1)
	logs, err := os.Create(filepath.Join(os.TempDir(), "quoin-contract.log"))
	if err != nil {
		return err
	}
	go func() {
		failed <- apiserver.Run(ctx, config, apiserver.Config{
			Namespace: clustertest.Namespace, Region: rest.Region{Name: "here", Title: "Here"}, Version: "test",
			HTTPS: serving.Endpoint{Listener: listener}, OnListen: func(a serving.Addresses) { listening <- a },
			DatabaseURL: "sqlite://" + filepath.Join(folder, "audit.db"), OIDCClient: idp.Client(), RequestsPerSecond: 1e6, Burst: 1e6, Log: slog.New(slog.NewTextHandler(logs, nil)),
		})
	}()
	select {
	case addresses := <-listening:
		front = addresses.HTTPS
		return nil
	case err := <-failed:
		return err
	case <-time.After(apiclient.Patience):
		return fmt.Errorf("the front end does not listen after %s", apiclient.Patience)
	}
}

// trust reads the certificate authority that the front end has made.
func trust(ctx context.Context, c *clustertest.Cluster) error {
	roots, err := c.Roots(ctx)
	if err != nil {
		return err
	}
	for _, host := range []string{acme.host, globex.host, globex.domain} {
		err := apiclient.Eventually(func() error { // the certificate follows the accounts
			dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12}}
			conn, err := dialer.DialContext(ctx, "tcp", front.String())
			if err != nil {
				return err
			}
			return conn.Close()
		})
		if err != nil {
			return err
		}
	}
	transport := apiclient.Transport(roots, front.String)
	transport.ForceAttemptHTTP2 = true
	httpClient = &http.Client{Transport: transport, Timeout: apiclient.Patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return nil
}

// workloadsGetReady is what a cluster does with workloads, at once.
func workloadsGetReady(ctx context.Context) {
	for ctx.Err() == nil {
		list := &appsv1.DeploymentList{}
		if err := k8s.List(ctx, list); err == nil {
			for i := range list.Items {
				d, n := &list.Items[i], ptr.Deref(list.Items[i].Spec.Replicas, 1)
				if d.Status.ObservedGeneration == d.Generation {
					continue
				}
				before := d.DeepCopy()
				d.Status = appsv1.DeploymentStatus{
					ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
				}
				_ = k8s.Status().Patch(ctx, d, client.MergeFrom(before)) // tried again if it fails
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// imageRepository is that of all channels, in a real registry on loopback.
var imageRepository string

// channels pushes three versions and makes two channels of them: latest has 1.2.2 and 1.2.3,
// release has 1.1.0.
func channels(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: registry.New(registry.Logger(stdlog.New(io.Discard, "", 0)))}
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	imageRepository = listener.Addr().String() + "/team/cube"
	for name, versions := range map[string][]string{"latest": {"1.2.2", "1.2.3"}, "release": {"1.1.0"}} {
		c := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ReleaseChannelSpec{ImageRepository: imageRepository}}
		for _, v := range versions {
			image, err := random.Image(64, 1)
			if err != nil {
				return err
			}
			tag, err := ociname.NewTag(imageRepository + ":v" + v)
			if err != nil {
				return err
			}
			if err := remote.Write(tag, image, remote.WithContext(ctx)); err != nil {
				return err
			}
			c.Spec.Versions = append(c.Spec.Versions, v1alpha1.ListedVersion{Version: v})
		}
		if err := k8s.Create(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// furnish makes the tenant: its namespace, an admin key by YAML, and the deployment
// "analytics" with its model in Git, on the branches main, next and dev-ada.
func (a *account) furnish(ctx context.Context, c *clustertest.Cluster) error {
	var err error
	if a.repository, err = gitHost.repository(a.name); err != nil {
		return err
	}
	spec := v1alpha1.AccountSpec{
		Host: v1alpha1.Host(a.host),
		// All that the tests change goes through the audit log.
		Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}
	if a == acme {
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
	if err := a.letRead(ctx); err != nil {
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

// answer is what came back.
type answer struct {
	t      testing.TB
	what   string
	status int
	header http.Header
	raw    []byte
}

// as is a caller: a token, the host it calls, and the way it names the credential.
type as struct{ host, authorization string }

func (a *account) as(token string) as { return as{a.host, "Bearer " + token} }

// call sends a request; body is a value for JSON, a string as it is, or nil.
func (c as) call(t testing.TB, method, path string, body any, headers ...string) *answer {
	t.Helper()
	got, err := apiclient.Request{
		Method: method, URL: "https://" + acme.host + path, Host: c.host, // the certificate is checked where the world begins
		Authorization: c.authorization, Body: body, MediaType: "application/json", Header: headers,
	}.Send(context.WithoutCancel(t.Context()), httpClient)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return &answer{t: t, what: method + " " + path, status: got.Status, header: got.Header, raw: got.Body}
}

// is checks the status.
func (a *answer) is(status int) *answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: got %d, want %d: %s", a.what, a.status, status, a.raw)
	}
	return a
}

// refused checks the status and that the error is one text that has all the words.
func (a *answer) refused(status int, words ...string) {
	a.t.Helper()
	a.is(status)
	var body map[string]any
	if err := json.Unmarshal(a.raw, &body); err != nil || len(body) != 1 {
		a.t.Fatalf("%s: the body of an error is {\"error\": …} and nothing else, got %s", a.what, a.raw)
	}
	message, _ := body["error"].(string)
	for _, word := range words {
		if !strings.Contains(message, word) {
			a.t.Errorf("%s: the error does not name %q: %s", a.what, word, message)
		}
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		a.t.Errorf("%s: Content-Type is %q", a.what, got)
	}
}

// at reads a dotted path of the body: objects by name, arrays by number.
func (a *answer) at(path string) any {
	a.t.Helper()
	var value any
	if err := json.Unmarshal(a.raw, &value); err != nil {
		a.t.Fatalf("%s: not JSON: %s", a.what, a.raw)
	}
	value, _ = apiclient.Lookup(value, path)
	return value
}

// list reads an array of the body.
func (a *answer) list(path string) []map[string]any {
	a.t.Helper()
	items, ok := a.at(path).([]any)
	if !ok {
		a.t.Fatalf("%s: %s is no array: %s", a.what, path, a.raw)
	}
	all := make([]map[string]any, len(items))
	for i := range items {
		all[i], _ = items[i].(map[string]any)
	}
	return all
}

// want checks a value of the body.
func (a *answer) want(path string, value any) *answer {
	a.t.Helper()
	if got := a.at(path); got != value {
		a.t.Errorf("%s: %s is %v (%T), want %v: %s", a.what, path, got, got, value, a.raw)
	}
	return a
}
