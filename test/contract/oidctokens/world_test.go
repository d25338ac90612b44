// Package oidctokens_test tests OpenID Connect tokens of deployments: the REST API of their configurations, and tokens that a
// system verifies with nothing but the URL of the issuer. `quoin apiserver`, `quoin controller` and kube-apiserver are real
// processes.
package oidctokens_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

var (
	kubernetes *clustertest.Cluster
	// address is that of quoin apiserver, and anyone an HTTP client that knows its certificate authority and nothing else.
	address string
	anyone  *http.Client
)

func TestMain(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
	kubernetes = c
	if err := c.Build(); err != nil {
		return 0, err
	}
	var err error
	if address, err = freeport.Address(); err != nil {
		return 0, err
	}
	server := c.APIServer(filepath.Join(c.Folder, "apiserver.log"), address)
	server.Env = []string{"DATABASE_URL=sqlite://" + filepath.Join(c.Folder, "quoin.db")}
	controller := c.Quoin(filepath.Join(c.Folder, "controller.log"), "controller", "--leader-elect=false", "--quoin-image=quoin:test", "--region=eu",
		"--metrics-bind-address=0", "--health-probe-bind-address=0")
	for _, p := range []*clustertest.Process{server, controller} {
		if err := p.Start(); err != nil {
			return 0, err
		}
		defer p.Kill()
	}
	for _, a := range []*account{acme, globex} {
		if err := a.create(ctx); err != nil {
			return 0, fmt.Errorf("account %s: %w", a.name, err)
		}
	}
	err = apiclient.Eventually(func() error {
		roots, err := c.Roots(ctx)
		if err != nil {
			return err
		}
		anyone = &http.Client{Timeout: apiclient.Timeout, Transport: apiclient.Transport(roots, func() string { return address })}
		// The audit log needs the database, without which nothing can be changed.
		for _, path := range []string{configsPath, "/api/v1/audit-logs/export"} {
			got, err := apiclient.Request{Method: "GET", URL: "https://" + globex.host() + path, Authorization: "Bearer " + globex.admin}.Send(ctx, anyone)
			if err == nil && got.Status != http.StatusOK {
				err = fmt.Errorf("%s: %d %s", path, got.Status, got.Body)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("quoin apiserver: %w; log:\n%s", err, server.Log())
	}
	return m.Run(), nil
}

const configsPath = "/api/v1/oidc-token-configs/" // as the command-line client sends it

// account is an account with an audit log and the deployment sales.
type account struct {
	name string
	// admin and reader are tokens of keys.
	admin, reader string
}

var acme, globex = &account{name: "acme"}, &account{name: "globex"}

func (a *account) host() string { return a.name + ".example.com" }

func (a *account) create(ctx context.Context) error {
	sales := &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "sales"},
		Spec:       v1alpha1.DeploymentSpec{ReleaseChannel: "latest", Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}}},
	}
	keys, tokens, err := clustertest.Keys(a.name, map[string]v1alpha1.ApiKeySpec{
		"admin": {}, "reader": {Permissions: []v1alpha1.Permission{v1alpha1.PermissionDeploymentRead}},
	})
	if err != nil {
		return err
	}
	a.admin, a.reader = tokens["admin"], tokens["reader"]
	return kubernetes.Account(ctx, a.name, v1alpha1.AccountSpec{
		Host: v1alpha1.Host(a.host()), Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}, append(keys, sales)...)
}

// call sends a request with a token, or without one if it is empty.
func (a *account) call(t *testing.T, token, method, path string, body any) *apiclient.Answer {
	t.Helper()
	return apiclient.Call(t, anyone, token, method, "https://"+a.host()+path, body)
}

// config creates a configuration over REST, and deletes it after the test. It returns the path.
func (a *account) config(t *testing.T, properties map[string]any) string {
	t.Helper()
	path := configsPath + a.call(t, a.admin, "POST", configsPath, properties).Is(200).ID()
	t.Cleanup(func() {
		if got := a.call(t, a.admin, "DELETE", path, nil); got.Status != 200 && got.Status != 404 {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	})
	return path
}

// token returns the token of a configuration for the API pods of the deployment, as soon as it exists.
func (a *account) token(t *testing.T, config string) (token string) {
	t.Helper()
	apiclient.Soon(t, func() error {
		secret := &corev1.Secret{}
		if err := kubernetes.Client.Get(context.WithoutCancel(t.Context()), client.ObjectKey{Namespace: a.name, Name: "sales-oidc-tokens"}, secret); err != nil {
			return err
		}
		if token = string(secret.Data[config+".api"]); token == "" {
			return errors.New("no token of " + config)
		}
		return nil
	})
	return token
}

// authority returns the certificate authority of quoin apiserver in PEM.
func authority(t *testing.T) string {
	t.Helper()
	secret := &corev1.Secret{}
	if err := kubernetes.Client.Get(t.Context(), client.ObjectKey{Namespace: clustertest.Namespace, Name: certificates.SecretName}, secret); err != nil {
		t.Fatal(err)
	}
	return string(secret.Data["ca.crt"])
}
