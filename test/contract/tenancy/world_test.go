// Package tenancy_test tests that accounts and deployments are kept apart over REST, operation by operation, and that two replicas
// of `quoin apiserver` on one PostgreSQL database decide races alike.
package tenancy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/internal/store/postgrestest"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/inprocess"
)

type object = map[string]any

var (
	// replicas are clients of the two servers.
	replicas [2]*http.Client
	// databaseURL is that of their database.
	databaseURL string
	k8s         client.Client
)

func TestMain(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (code int, err error) {
	database, err := postgrestest.NewInMemory()
	if errors.Is(err, postgrestest.ErrNotInstalled) && os.Getenv("CI") == "" {
		fmt.Println("skipped:", err)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer database.Stop()
	k8s = c.Client
	if databaseURL, err = database.NewDatabase(); err != nil {
		return 0, err
	}
	for _, a := range []*account{acme, globex} {
		if err := a.create(ctx, c); err != nil {
			return 0, fmt.Errorf("account %s: %w", a.name, err)
		}
	}
	var servers [2]*inprocess.Server
	for i := range servers {
		metrics.Registry = prometheus.NewRegistry() // each process has one
		if servers[i], err = inprocess.Serve(ctx, c, apiserver.Config{DatabaseURL: databaseURL}); err != nil {
			return 0, err
		}
	}
	roots, err := c.Roots(ctx)
	if err != nil {
		return 0, err
	}
	for i, server := range servers {
		replicas[i] = &http.Client{Transport: apiclient.Transport(roots, server.Address.String), Timeout: apiclient.Timeout}
	}
	return servers[0].Run(m)
}

// account is an account with the deployments 1 and 2, and the token of a key that may do everything.
type account struct{ name, admin string }

var acme, globex = &account{name: "acme"}, &account{name: "globex"}

func (a *account) create(ctx context.Context, c *clustertest.Cluster) error {
	key, token, err := clustertest.Key(a.name, "admin", v1alpha1.ApiKeySpec{})
	if err != nil {
		return err
	}
	a.admin = token
	objects := []client.Object{key}
	for i, name := range []string{"analytics", "marketing"} {
		objects = append(objects, &v1alpha1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: name, Labels: map[string]string{v1alpha1.LabelID: fmt.Sprint(i + 1)}},
			Spec:       v1alpha1.DeploymentSpec{ReleaseChannel: "latest", Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}}},
		})
	}
	return c.Account(ctx, a.name, v1alpha1.AccountSpec{Host: v1alpha1.Host(a.name + ".example.com")}, objects...)
}

// call sends a request to a replica as the administrator of an account.
func (a *account) call(t *testing.T, replica int, method, path string, body any) *apiclient.Answer {
	t.Helper()
	return apiclient.Call(t, replicas[replica], a.admin, method, "https://"+a.name+".example.com"+path, body)
}
