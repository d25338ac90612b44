// Package attributes_test tests user attributes and their values over REST and SCIM, and in the tokens that people create. The
// REST and SCIM server and the controllers of attributes and users run in the test process, with a real kube-apiserver.
package attributes_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/controllers/userattribute"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/inprocess"
)

var (
	k8s client.Client
	// anyone is an HTTP client that trusts the server.
	anyone *http.Client
)

func TestMain(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
	k8s = c.Client
	if err := inprocess.Control(ctx, c, userattribute.New, userattribute.SetupWithManager); err != nil {
		return 0, err
	}
	server, err := inprocess.Serve(ctx, c, apiserver.Config{})
	if err != nil {
		return 0, err
	}
	for _, a := range []*account{acme, globex} {
		if err := a.create(ctx, c); err != nil {
			return 0, fmt.Errorf("account %s: %w", a.name, err)
		}
	}
	roots, err := c.Roots(ctx)
	if err != nil {
		return 0, err
	}
	anyone = &http.Client{Transport: apiclient.Transport(roots, server.Address.String), Timeout: apiclient.Timeout}
	return server.Run(m)
}

// account is an account with a deployment, whose number is 1, and its production environment, whose number is 2.
type account struct {
	name string
	// admin, scim and reader are tokens of keys without an owner; ada's key has the user ada as its owner.
	admin, scim, reader, ada string
}

var acme, globex = &account{name: "acme"}, &account{name: "globex"}

func (a *account) host() string { return a.name + ".example.com" }

func (a *account) create(ctx context.Context, c *clustertest.Cluster) error {
	keys, tokens, err := clustertest.Keys(a.name, map[string]v1alpha1.ApiKeySpec{
		"admin":  {},
		"scim":   {Permissions: []v1alpha1.Permission{v1alpha1.PermissionScimManage}},
		"reader": {Permissions: []v1alpha1.Permission{v1alpha1.PermissionDeploymentRead}},
		"ada":    {Owner: &v1alpha1.ApiKeyOwner{ScimUser: "ada"}},
	})
	if err != nil {
		return err
	}
	a.admin, a.scim, a.reader, a.ada = tokens["admin"], tokens["scim"], tokens["reader"], tokens["ada"]
	ada := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "ada"}, Spec: v1alpha1.ScimUserSpec{UserName: "ada@example.com", Admin: new(true)}}
	if err := c.Account(ctx, a.name, v1alpha1.AccountSpec{
		Host: v1alpha1.Host(a.host()), Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}, append(keys, ada)...); err != nil {
		return err
	}
	return c.Deploy(ctx, a.name, "analytics", 1)
}

// call sends a request with a token of an account.
func (a *account) call(t *testing.T, token, method, path string, body any) *apiclient.Answer {
	t.Helper()
	return apiclient.Call(t, anyone, token, method, "https://"+a.host()+path, body)
}

// attribute creates a user attribute over REST, and deletes it after the test. It returns the number.
func (a *account) attribute(t *testing.T, properties map[string]any) string {
	t.Helper()
	id := a.call(t, a.admin, "POST", attributesPath, properties).Is(200).ID()
	t.Cleanup(func() {
		object := &v1alpha1.UserAttribute{}
		object.Namespace, object.Name = a.name, strings.ReplaceAll(strings.ToLower(properties["name"].(string)), "_", "-")
		if err := client.IgnoreNotFound(k8s.Delete(context.Background(), object)); err != nil {
			t.Error(err)
		}
	})
	return id
}

// claims returns the claims of a token, which must be signed with the key of the pods.
func claims(t *testing.T, token any) jwt.MapClaims {
	t.Helper()
	return apiclient.Claims(t, token, clustertest.APISecret)
}
