// Package roles_test tests roles over REST, and what every kind of caller may do on every route. The REST and SCIM server and the
// controller of roles run in the test process, with a real kube-apiserver.
package roles_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/controllers/accountrole"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/inprocess"
	"github.com/quoin-dev/quoin/test/internal/oidcprovider"
)

var (
	k8s client.Client
	// anyone is an HTTP client that trusts the server.
	anyone *http.Client
	issuer = oidcprovider.New()
)

func TestMain(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
	k8s = c.Client
	if err := errors.Join(rbacv1.AddToScheme(k8s.Scheme()), authenticationv1.AddToScheme(k8s.Scheme())); err != nil {
		return 0, err
	}
	if err := inprocess.Control(ctx, c, accountrole.New, accountrole.SetupWithManager); err != nil {
		return 0, err
	}
	server, err := inprocess.Serve(ctx, c, apiserver.Config{OIDCClient: issuer.Client()})
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

// account is an account with the deployments analytics, whose number is 1, and sales, whose number is 3. Their production
// environments have the numbers 2 and 4.
type account struct {
	name string
	// admin and reader are tokens of keys without an owner.
	admin, reader string
}

var acme, globex = &account{name: "acme"}, &account{name: "globex"}

func (a *account) host() string { return a.name + ".example.com" }

func (a *account) create(ctx context.Context, c *clustertest.Cluster) error {
	keys, tokens, err := clustertest.Keys(a.name, map[string]v1alpha1.ApiKeySpec{
		"admin": {}, "reader": {Permissions: []v1alpha1.Permission{v1alpha1.PermissionDeploymentRead}},
	})
	if err != nil {
		return err
	}
	a.admin, a.reader = tokens["admin"], tokens["reader"]
	spec := v1alpha1.AccountSpec{
		Host: v1alpha1.Host(a.host()), Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
		GitHub: &v1alpha1.AccountGitHub{InstallationIDs: []int64{1}},
	}
	if a == acme {
		spec.OIDCIssuers = []v1alpha1.OIDCIssuer{{
			URL: issuer.URL, Audiences: []string{"quoin"}, AdminGroups: []string{"admins"},
			GroupRoles: []v1alpha1.OIDCGroupRoles{{Group: "developers", Roles: []v1alpha1.AccountRoleReference{"Developer"}}},
		}}
	}
	if err := c.Account(ctx, a.name, spec, keys...); err != nil {
		return err
	}
	return errors.Join(c.Deploy(ctx, a.name, "analytics", 1), c.Deploy(ctx, a.name, "sales", 3))
}

// user creates a user with roles, and returns the token of a key with all permissions that it owns. Both are deleted after the test.
func (a *account) user(t *testing.T, name string, roles ...v1alpha1.AccountRoleReference) string {
	t.Helper()
	u := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: name}, Spec: v1alpha1.ScimUserSpec{UserName: name, AccountRoles: roles}}
	a.add(t, u)
	return a.key(t, "of-"+name, v1alpha1.ApiKeySpec{Owner: &v1alpha1.ApiKeyOwner{ScimUser: name}})
}

// key creates a key and returns its token, when the server accepts it.
func (a *account) key(t *testing.T, name string, spec v1alpha1.ApiKeySpec) string {
	t.Helper()
	object, token, err := clustertest.Key(a.name, name, spec)
	if err != nil {
		t.Fatal(err)
	}
	a.add(t, object)
	apiclient.Soon(t, func() error {
		if got := a.call(t, token, "GET", "/api/v1/users/me", nil); got.Status != 200 {
			return fmt.Errorf("the key is answered %d %s", got.Status, got.Body)
		}
		return nil
	})
	return token
}

// add creates an object, which is deleted after the test.
func (a *account) add(t *testing.T, o client.Object) {
	t.Helper()
	if err := k8s.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(k8s.Delete(context.Background(), o)); err != nil {
			t.Error(err)
		}
	})
}

// call sends a request with a token of an account.
func (a *account) call(t *testing.T, token, method, path string, body any) *apiclient.Answer {
	t.Helper()
	return apiclient.Call(t, anyone, token, method, "https://"+a.host()+path, body)
}

// role creates a role over REST, and deletes it after the test. It returns the number.
func (a *account) role(t *testing.T, properties map[string]any) string {
	t.Helper()
	id := a.call(t, a.admin, "POST", rolesPath, properties).Is(200).ID()
	t.Cleanup(func() { a.call(t, a.admin, "DELETE", rolesPath+"/"+id, nil) })
	return id
}

// meta returns the metadata of an object of acme.
func meta(name string) metav1.ObjectMeta { return metaIn(acme, name) }

func metaIn(a *account, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: a.name, Name: name}
}

func soon(t *testing.T, try func() error) {
	t.Helper()
	apiclient.Soon(t, try)
}

// setDefault sets the default role of globex until the end of the test.
func setDefault(t *testing.T, role string) {
	t.Helper()
	set := func(ctx context.Context, value string) error {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"defaultRole":`+value+`}}`))
		return k8s.Patch(ctx, &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: globex.name}}, patch)
	}
	if err := set(t.Context(), strconv.Quote(role)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set(context.Background(), "null"); err != nil {
			t.Error(err)
		}
	})
}
