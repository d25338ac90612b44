//go:build !memory

package scimtest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

// InMemory reports whether the protocol is tested without Kubernetes (go test -tags memory).
const InMemory = false

// Kubernetes is an administrator's client of the kube-apiserver.
var Kubernetes client.Client

// Cluster is the cluster of the tests.
var Cluster *clustertest.Cluster

// APIServers are the replicas of `quoin apiserver`; Controller is `quoin controller`.
var (
	APIServers [2]*clustertest.Process
	Controller *clustertest.Process
)

// Processes returns all processes.
func Processes() []*clustertest.Process {
	return []*clustertest.Process{Controller, APIServers[0], APIServers[1]}
}

// Main is the TestMain of a package: it starts the processes and runs the tests.
func Main(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
	Cluster, Kubernetes = c, c.Client
	if err := c.Build(); err != nil {
		return 0, err
	}
	for _, a := range Accounts {
		if err := a.setUp(ctx); err != nil {
			return 0, fmt.Errorf("account %s: %w", a.Name, err)
		}
	}
	logs := os.Getenv("QUOIN_TEST_LOGS") // a folder for the logs
	if logs == "" {
		logs = c.Folder
	}
	logs = filepath.Join(logs, strings.TrimSuffix(filepath.Base(os.Args[0]), ".test")) // packages run in parallel
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return 0, err
	}
	Controller = c.Quoin(filepath.Join(logs, "controller.log"), "controller", "--leader-elect=false", "--quoin-image=quoin:test")
	for i := range APIServers {
		var err error
		if Replicas[i], err = freeport.Address(); err != nil {
			return 0, err
		}
		APIServers[i] = c.APIServer(filepath.Join(logs, fmt.Sprintf("apiserver-%d.log", i)), Replicas[i])
	}
	for _, p := range Processes() {
		defer p.Kill()
		if err := p.Start(); err != nil {
			return 0, err
		}
	}
	if err := trust(ctx); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// trust reads the certificate authority of the API servers and waits until they serve all accounts.
func trust(ctx context.Context) error {
	return apiclient.Eventually(func() error {
		pool, err := Cluster.Roots(ctx)
		if err != nil {
			return err
		}
		setRoots(pool)
		for _, a := range Accounts {
			for replica := range Replicas {
				if err := a.Reachable(replica); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Reachable returns an error unless a replica serves the account.
func (a *Account) Reachable(replica int) error {
	response, err := Clients[replica].Get(a.BaseURL() + "/ServiceProviderConfig")
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", a.Host, response.StatusCode)
	}
	return nil
}

// setUp creates the account and its keys, with known hashes, so that it does not depend on the controller.
func (a *Account) setUp(ctx context.Context) error {
	var keys []client.Object
	for _, key := range []struct {
		Name  string
		token *string
		spec  v1alpha1.ApiKeySpec
	}{
		{"rfc", &a.RFC, v1alpha1.ApiKeySpec{ScimProfile: "RFC", Permissions: []v1alpha1.Permission{v1alpha1.PermissionScimManage}}},
		{"okta", &a.Okta, v1alpha1.ApiKeySpec{ScimProfile: "Okta", Permissions: []v1alpha1.Permission{v1alpha1.PermissionScimManage}}},
		{"entra", &a.Entra, v1alpha1.ApiKeySpec{ScimProfile: "EntraID", Permissions: []v1alpha1.Permission{v1alpha1.PermissionScimManage}}},
		{"auto", &a.Auto, v1alpha1.ApiKeySpec{}},
		{"reader", &a.Reader, v1alpha1.ApiKeySpec{Permissions: []v1alpha1.Permission{"DeploymentRead"}}},
		{"scoped", &a.Scoped, v1alpha1.ApiKeySpec{Deployments: []string{"analytics"}}},
	} {
		object, token, err := clustertest.Key(a.Name, key.Name, key.spec)
		if err != nil {
			return err
		}
		*key.token, keys = token, append(keys, object)
	}
	return Cluster.Account(ctx, a.Name, v1alpha1.AccountSpec{Host: v1alpha1.Host(a.Host), Scim: a.scim()}, keys...)
}

// scim returns the declared schemas: one in Acme.
func (a *Account) scim() *v1alpha1.Scim {
	if a != Acme {
		return nil
	}
	yes := true
	return &v1alpha1.Scim{Schemas: []v1alpha1.ScimSchema{{
		ID: AttributesURN, ResourceType: "User", Name: "UserAttribute", Attributes: []v1alpha1.ScimAttribute{
			{Name: "team", Type: "string"}, {Name: "level", Type: "integer"}, {Name: "tags", Type: "string", MultiValued: &yes},
			{Name: "badge", Type: "string", CaseExact: &yes, Immutable: &yes}, {Name: "since", Type: "dateTime"}, {Name: "score", Type: "decimal"}, {Name: "remote", Type: "boolean"},
		},
	}}}
}
