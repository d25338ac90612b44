// Package runs_test tests that reports are run over REST for people. `quoin apiserver` and `quoin gateway` run in the test process, with
// a real kube-apiserver; the pods of the deployments are servers of the test.
package runs_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/apiserver/queries"
	"github.com/quoin-dev/quoin/controllers/userattribute"
	"github.com/quoin-dev/quoin/gateway"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/freeport"
	"github.com/quoin-dev/quoin/test/internal/inprocess"
)

var (
	k8s client.Client
	// anyone is an HTTP client that trusts the server.
	anyone *http.Client
	// proxy is the gateway.
	proxy *gateways
)

func TestMain(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
	k8s = c.Client
	if err := discoveryv1.AddToScheme(k8s.Scheme()); err != nil {
		return 0, err
	}
	if err := inprocess.Control(ctx, c, userattribute.New, userattribute.SetupWithManager); err != nil {
		return 0, err
	}
	address, err := freeport.Address()
	if err != nil {
		return 0, err
	}
	proxy = &gateways{cluster: c, address: address}
	if err := proxy.start(); err != nil {
		return 0, err
	}
	defer proxy.stop()
	caFile := filepath.Join(c.Folder, "gateway-ca.crt")
	if err := writeCA(ctx, caFile); err != nil {
		return 0, err
	}
	for _, a := range []*account{acme, globex} {
		if err := a.create(ctx, c); err != nil {
			return 0, fmt.Errorf("account %s: %w", a.name, err)
		}
	}
	server, err := inprocess.Serve(ctx, c, apiserver.Config{Gateway: queries.Gateway{Address: address, CAFile: caFile}})
	if err != nil {
		return 0, err
	}
	roots, err := c.Roots(ctx)
	if err != nil {
		return 0, err
	}
	anyone = &http.Client{Transport: apiclient.Transport(roots, server.Address.String), Timeout: apiclient.Timeout}
	return server.Run(m)
}

// writeCA writes the certificate authority of the gateway to a file.
func writeCA(ctx context.Context, file string) error {
	secret := &corev1.Secret{}
	if err := k8s.Get(ctx, client.ObjectKey{Namespace: clustertest.Namespace, Name: certificates.GatewaySecretName}, secret); err != nil {
		return err
	}
	return os.WriteFile(file, secret.Data["ca.crt"], 0o600)
}

// gateways is `quoin gateway`, which can be stopped and started again at the same address.
type gateways struct {
	cluster *clustertest.Cluster
	address string
	stop    func()
}

func (g *gateways) start() error {
	listening, ended := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	config := gateway.Config{
		Namespace: clustertest.Namespace, Service: "quoin-gateway", HTTPS: serving.Endpoint{Address: g.address},
		OnListen: func(gateway.Addresses) { close(listening) }, RequestsPerSecond: 1e6, Burst: 1e6, MaxInFlight: 1000, MaxRequests: 2000,
		WaitTimeout: 100 * time.Millisecond, MaxWaiting: 100, DrainTimeout: time.Millisecond, Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	}
	go func() { ended <- gateway.Run(ctx, g.cluster.As(clustertest.Gateway), config) }()
	g.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	select {
	case <-listening:
		return nil
	case err := <-ended:
		ended <- err
		return fmt.Errorf("the gateway stopped: %w", err)
	}
}

// account is an account with a deployment, whose number is 1. Its host for data is sales.data.<host>.
type account struct {
	name string
	// admin is a program; ada and ben are Viewers, eve is an Explorer whose key does not permit SQL; reader is a program that only
	// reads; lost is a key of ada that a test deletes.
	admin, ada, ben, eve, reader, lost string
}

var acme, globex = &account{name: "acme"}, &account{name: "globex"}

const deployment = "sales"

func (a *account) host() string { return a.name + ".example.com" }

func (a *account) create(ctx context.Context, c *clustertest.Cluster) error {
	reading := []v1alpha1.Permission{v1alpha1.PermissionReportRead, v1alpha1.PermissionWorkbookRead, v1alpha1.PermissionDeploymentRead}
	owner := func(name string) *v1alpha1.ApiKeyOwner { return &v1alpha1.ApiKeyOwner{ScimUser: name} }
	keys, tokens, err := clustertest.Keys(a.name, map[string]v1alpha1.ApiKeySpec{
		"admin": {}, "ada": {Owner: owner("ada")}, "ben": {Owner: owner("ben")}, "reader": {Permissions: reading}, "lost": {Owner: owner("ada")},
		"eve": {Owner: owner("eve"), Permissions: append(reading, v1alpha1.PermissionReportEdit)},
	})
	if err != nil {
		return err
	}
	a.admin, a.ada, a.ben, a.eve, a.reader, a.lost = tokens["admin"], tokens["ada"], tokens["ben"], tokens["eve"], tokens["reader"], tokens["lost"]
	person := func(name, country string, role v1alpha1.AccountRoleReference) *v1alpha1.ScimUser {
		return &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: name}, Spec: v1alpha1.ScimUserSpec{
			UserName: name + "@example.com", AccountRoles: []v1alpha1.AccountRoleReference{role}, Attributes: []v1alpha1.UserAttributeValue{{
				Name: "country", UserAttributeContent: v1alpha1.UserAttributeContent{String: &country},
			}},
		}}
	}
	country := &v1alpha1.UserAttribute{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "country"}, Spec: v1alpha1.UserAttributeSpec{Name: "country", Type: v1alpha1.UserAttributeString}}
	objects := append(keys, country, person("ada", "CH", "Viewer"), person("ben", "DE", "Viewer"), person("eve", "FR", "Explorer"))
	if err := c.Account(ctx, a.name, v1alpha1.AccountSpec{Host: v1alpha1.Host(a.host())}, objects...); err != nil {
		return err
	}
	if err := c.Deploy(ctx, a.name, deployment, 1); err != nil {
		return err
	}
	production := &v1alpha1.Environment{}
	if err := k8s.Get(ctx, client.ObjectKey{Namespace: a.name, Name: v1alpha1.ProductionName(deployment)}, production); err != nil {
		return err
	}
	before := production.DeepCopy()
	production.Status.APICredentials = &v1alpha1.APICredentials{
		REST: v1alpha1.RESTCredentials{URL: "https://" + deployment + ".data." + a.host() + "/cubejs-api"}, SQL: v1alpha1.SQLCredentials{Host: deployment + ".sql.data." + a.host(), Port: 5432},
	}
	return k8s.Status().Patch(ctx, production, client.MergeFrom(before))
}

const deploymentPath = "/api/v1/deployments/1"

// call sends a request with a token of an account.
func (a *account) call(t *testing.T, token, method, path string, body any) *apiclient.Answer {
	t.Helper()
	return apiclient.Call(t, anyone, token, method, "https://"+a.host()+path, body)
}
