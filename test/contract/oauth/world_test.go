// Package oauth_test tests OAuth integrations and the tokens of people for them, as the command line, a browser and a provider
// see them. `quoin apiserver` and `quoin controller` run in the test process with the permissions of their roles, with a real
// kube-apiserver.
package oauth_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/controllers"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/inprocess"
	"github.com/quoin-dev/quoin/test/internal/oidcprovider"
)

var (
	k8s client.Client
	idp *oidcprovider.Provider
	// transport leads names to the server.
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
	failed := make(chan error, 1)
	go func() {
		failed <- controllers.Run(ctx, c.As(clustertest.Controller), manager.Options{
			Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		}, controllers.Config{Namespace: clustertest.Namespace, Image: "quoin:test", Concurrency: 4, MaxRollouts: 10})
	}()
	server, err := inprocess.Serve(ctx, c, apiserver.Config{OIDCClient: idp.Client()})
	if err != nil {
		return 0, err
	}
	roots, err := c.Roots(ctx)
	if err != nil {
		return 0, err
	}
	roots.AddCert(idp.Certificate())
	transport = apiclient.Transport(roots, server.Address.String)
	code, err := server.Run(m)
	select {
	case err := <-failed:
		return 0, fmt.Errorf("quoin controller stopped: %w", err)
	default:
		return code, err
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

// account is an account with an audit log, an OIDC issuer and the user ada.
type account struct {
	name string
	// admin and reader are tokens of keys; ada is that of a key whose owner is the user.
	admin, reader, ada string
}

var acme, globex = &account{name: "acme"}, &account{name: "globex"}

func (a *account) url() string { return "https://" + a.name + ".example.com" }

func (a *account) create(ctx context.Context, c *clustertest.Cluster) error {
	keys, tokens, err := clustertest.Keys(a.name, map[string]v1alpha1.ApiKeySpec{
		"admin": {}, "reader": {Permissions: []v1alpha1.Permission{v1alpha1.PermissionDeploymentRead}},
		"owned": {Owner: &v1alpha1.ApiKeyOwner{ScimUser: "ada"}},
	})
	if err != nil {
		return err
	}
	a.admin, a.reader, a.ada = tokens["admin"], tokens["reader"], tokens["owned"]
	return c.Account(ctx, a.name, v1alpha1.AccountSpec{
		Host: v1alpha1.Host(a.name + ".example.com"), Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
		OIDCIssuers: []v1alpha1.OIDCIssuer{{
			URL: idp.URL, Audiences: []string{"api"}, ClientID: idp.ClientID, ClientSecretRef: &v1alpha1.SecretKeyReference{Name: "login", Key: "secret"},
		}},
	}, append(keys,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "login"}, Data: map[string][]byte{"secret": []byte(idp.ClientSecret)}},
		&v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "ada"}, Spec: v1alpha1.ScimUserSpec{UserName: "ada@example.com", Admin: ptr.To(true)}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "model"}, Data: map[string]string{"orders.yml": "cubes: []"}},
	)...)
}

// call sends a request with a token, or without one if it is empty.
func (a *account) call(t *testing.T, token, method, path string, body any) *apiclient.Answer {
	t.Helper()
	return apiclient.Call(t, &http.Client{Transport: transport, Timeout: apiclient.Timeout}, token, method, a.url()+path, body)
}
