// Package oauth_test tests OAuth integrations and the tokens of people for them, as the command line, a browser and a provider
// see them. `quoin apiserver` and `quoin controller` run in the test process with the permissions of their roles, with a real
// kube-apiserver.
package oauth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/controllers"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/oidcprovider"
)

var (
	k8s     client.Client
	idp     *oidcprovider.Provider
	address net.Addr
	// transport leads the hosts of accounts to the server, and all others where they are.
	transport *http.Transport
)

func TestMain(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
	k8s, idp = c.Client, oidcprovider.New()
	defer idp.Close()
	for _, a := range []*account{acme, globex} {
		if err := a.create(ctx, c); err != nil {
			return 0, fmt.Errorf("account %s: %w", a.name, err)
		}
	}
	if err := createChannel(ctx); err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 2)
	go func() {
		failed <- controllers.Run(ctx, c.As(clustertest.Controller), manager.Options{
			Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		}, controllers.Config{Namespace: clustertest.Namespace, Image: "quoin:test", Concurrency: 4, MaxRollouts: 10})
	}()
	if err := startServer(ctx, c, failed); err != nil {
		return 0, err
	}
	pool, err := c.Roots(ctx)
	if err != nil {
		return 0, err
	}
	pool.AddCert(idp.Certificate())
	transport = apiclient.Transport(pool, address.String)
	toServer := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, target string) (net.Conn, error) {
		if strings.HasPrefix(target, "127.0.0.1:") {
			return (&net.Dialer{}).DialContext(ctx, network, target)
		}
		return toServer(ctx, network, target)
	}
	code := m.Run()
	select {
	case err := <-failed:
		return 0, fmt.Errorf("a process stopped: %w", err)
	default:
		return code, nil
	}
}

// channel is the name of the channel of all deployments.
const channel = "stable"

// createChannel creates a channel with a version. Its registry cannot be reached, so it keeps that one.
func createChannel(ctx context.Context) error {
	c := &v1alpha1.ReleaseChannel{
		ObjectMeta: metav1.ObjectMeta{Name: channel},
		Spec:       v1alpha1.ReleaseChannelSpec{ImageRepository: "127.0.0.1:1/cube", StoreImageRepository: "127.0.0.1:1/store"},
	}
	if err := k8s.Create(ctx, c); err != nil {
		return err
	}
	c.Status.Versions = []v1alpha1.ChannelVersion{{Version: "1.2.3", Image: "127.0.0.1:1/cube:v1.2.3", FirstSeen: metav1.Now(), Digest: "sha256:" + strings.Repeat("0", 64)}}
	return k8s.Status().Update(ctx, c)
}

func startServer(ctx context.Context, c *clustertest.Cluster, failed chan error) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	listening := make(chan serving.Addresses, 1)
	go func() {
		failed <- apiserver.Run(ctx, c.As(clustertest.APIServer), apiserver.Config{
			Namespace: clustertest.Namespace, Version: "test", RequestsPerSecond: 1e6, Burst: 1e6, Log: slog.New(slog.DiscardHandler),
			DatabaseURL: "sqlite://" + filepath.Join(c.Folder, "quoin.db"), OIDCClient: idp.Client(),
			HTTPS: serving.Endpoint{Listener: listener}, OnListen: func(a serving.Addresses) { listening <- a },
		})
	}()
	select {
	case addresses := <-listening:
		address = addresses.HTTPS
		return nil
	case err := <-failed:
		return err
	case <-time.After(3 * apiclient.Timeout):
		return fmt.Errorf("quoin apiserver does not listen after %s", 3*apiclient.Timeout)
	}
}

// account is an account with an audit log, an OIDC issuer and the user ada.
type account struct {
	name string
	// admin and reader are tokens of keys; ada is that of a key whose owner is the user.
	admin, reader, ada string
}

var acme, globex = &account{name: "acme"}, &account{name: "globex"}

func (a *account) url() string { return "https://" + a.name + ".example.com" }

func (a *account) create(ctx context.Context, c *clustertest.Cluster) error {
	admin, token, err := clustertest.Key(a.name, "admin", v1alpha1.ApiKeySpec{})
	if err != nil {
		return err
	}
	a.admin = token
	reader, token, err := clustertest.Key(a.name, "reader", v1alpha1.ApiKeySpec{Permissions: []v1alpha1.Permission{v1alpha1.PermissionDeploymentRead}})
	if err != nil {
		return err
	}
	a.reader = token
	owned, token, err := clustertest.Key(a.name, "owned", v1alpha1.ApiKeySpec{Owner: &v1alpha1.ApiKeyOwner{ScimUser: "ada"}})
	if err != nil {
		return err
	}
	a.ada = token
	return c.Account(ctx, a.name, v1alpha1.AccountSpec{
		Host: v1alpha1.Host(a.name + ".example.com"), Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
		OIDCIssuers: []v1alpha1.OIDCIssuer{{
			URL: idp.URL, Audiences: []string{"api"}, ClientID: idp.ClientID, ClientSecretRef: &v1alpha1.SecretKeyReference{Name: "login", Key: "secret"},
		}},
	},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "login"}, Data: map[string][]byte{"secret": []byte(idp.ClientSecret)}},
		&v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "ada"}, Spec: v1alpha1.ScimUserSpec{UserName: "ada@example.com", Admin: ptr.To(true)}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "model"}, Data: map[string]string{"orders.yml": "cubes: []"}},
		admin, reader, owned,
	)
}

// answer is the response to a request.
type answer struct {
	t      *testing.T
	what   string
	status int
	raw    []byte
}

// call sends a request with a token, or without one if it is empty.
func (a *account) call(t *testing.T, token, method, path string, body any) *answer {
	t.Helper()
	r := apiclient.Request{Method: method, URL: a.url() + path, Body: body, MediaType: "application/json"}
	if token != "" {
		r.Authorization = "Bearer " + token
	}
	var got *apiclient.Response
	apiclient.Soon(t, func() (err error) { // the certificate is renewed for new accounts
		got, err = r.Send(context.WithoutCancel(t.Context()), &http.Client{Timeout: apiclient.Timeout, Transport: transport})
		if err == nil && got.Status == http.StatusServiceUnavailable {
			return fmt.Errorf("%d %s", got.Status, got.Body)
		}
		return err
	})
	return &answer{t, method + " " + path, got.Status, got.Body}
}

func (a *answer) is(status int) *answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: got %d, want %d: %s", a.what, a.status, status, a.raw)
	}
	return a
}

// rejected checks the status and that the error contains all words.
func (a *answer) rejected(status int, words ...string) {
	a.t.Helper()
	a.is(status)
	for _, word := range words {
		if !strings.Contains(string(a.raw), word) {
			a.t.Errorf("%s: the error does not contain %q: %s", a.what, word, a.raw)
		}
	}
}

// at returns the value at a path of the body.
func (a *answer) at(path string) any {
	a.t.Helper()
	var value any
	if err := json.Unmarshal(a.raw, &value); err != nil {
		a.t.Fatalf("%s: not JSON: %s", a.what, a.raw)
	}
	value, _ = apiclient.Lookup(value, path)
	return value
}

// want checks values of the body as JSON, by path.
func (a *answer) want(values map[string]string) *answer {
	a.t.Helper()
	for path, want := range values {
		if got, _ := json.Marshal(a.at(path)); string(got) != want {
			a.t.Errorf("%s: %s is %s, want %s: %s", a.what, path, got, want, a.raw)
		}
	}
	return a
}
