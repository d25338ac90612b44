// Package workspace_test tests workspace content over REST: workbooks. The REST server runs in the test process, with a real
// kube-apiserver and a database in SQLite.
package workspace_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/inprocess"
)

// kubernetes is the cluster of the accounts.
var kubernetes *clustertest.Cluster

// anyone is an HTTP client that trusts the server.
var anyone *http.Client

func TestMain(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
	kubernetes = c
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

// account is an account with two deployments, whose numbers are 1 and 2.
type account struct {
	name string
	// admin, reader, editor and other are tokens of keys without an owner: the latter may read and edit content; ada's key has
	// the user ada as its owner, who is an Explorer.
	// The key workbooks may only read workbooks.
	admin, reader, editor, other, ada, workbooks string
}

var acme, globex = &account{name: "acme"}, &account{name: "globex"}

func (a *account) host() string { return a.name + ".example.com" }

func (a *account) create(ctx context.Context, c *clustertest.Cluster) error {
	objects := []client.Object{&v1alpha1.ScimUser{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "ada"},
		Spec: v1alpha1.ScimUserSpec{
			UserName: "ada@example.com", Name: &v1alpha1.ScimName{GivenName: "Ada"}, AccountRoles: []v1alpha1.AccountRoleReference{"Explorer"},
		},
	}}
	for i, name := range []string{"analytics", "marketing"} {
		objects = append(objects, &v1alpha1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: name, Labels: map[string]string{v1alpha1.LabelID: fmt.Sprint(i + 1)}},
			Spec:       v1alpha1.DeploymentSpec{ReleaseChannel: "latest", Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}}},
		})
	}
	keys, tokens, err := clustertest.Keys(a.name, map[string]v1alpha1.ApiKeySpec{
		"admin": {}, "reader": {Permissions: reading}, "editor": {Permissions: editing},
		"other": {Permissions: []v1alpha1.Permission{v1alpha1.PermissionDeploymentRead}},
		"ada":   {Owner: &v1alpha1.ApiKeyOwner{ScimUser: "ada"}}, "workbooks": {Permissions: []v1alpha1.Permission{v1alpha1.PermissionWorkbookRead}},
	})
	if err != nil {
		return err
	}
	a.admin, a.reader, a.editor, a.other, a.ada, a.workbooks = tokens["admin"], tokens["reader"], tokens["editor"], tokens["other"], tokens["ada"], tokens["workbooks"]
	return c.Account(ctx, a.name, v1alpha1.AccountSpec{
		Host: v1alpha1.Host(a.host()), Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}, append(keys, objects...)...)
}

var (
	reading = []v1alpha1.Permission{v1alpha1.PermissionFolderRead, v1alpha1.PermissionWorkbookRead, v1alpha1.PermissionReportRead}
	editing = []v1alpha1.Permission{v1alpha1.PermissionFolderEdit, v1alpha1.PermissionWorkbookEdit, v1alpha1.PermissionReportEdit}
)

// call sends a request with a token of an account.
func (a *account) call(t *testing.T, token, method, path string, body any) *apiclient.Answer {
	t.Helper()
	return apiclient.Call(t, anyone, token, method, "https://"+a.host()+path, body)
}
