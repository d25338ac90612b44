// Package workspace_test tests workspace content over REST: workbooks. The REST server runs in the test process, with a real
// kube-apiserver and a database in SQLite.
package workspace_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
)

var (
	address net.Addr
	roots   http.RoundTripper
)

func TestMain(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
	folder, err := os.MkdirTemp("", "workspace-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	failed := make(chan error, 1)
	if err := startServer(ctx, c.As(clustertest.APIServer), "sqlite://"+filepath.Join(folder, "quoin.db"), failed); err != nil {
		return 0, err
	}
	for _, a := range []*account{acme, globex} {
		if err := a.create(ctx, c); err != nil {
			return 0, fmt.Errorf("account %s: %w", a.name, err)
		}
	}
	pool, err := c.Roots(ctx)
	if err != nil {
		return 0, err
	}
	roots = apiclient.Transport(pool, address.String)
	code := m.Run()
	select {
	case err := <-failed:
		return 0, fmt.Errorf("quoin apiserver stopped: %w", err)
	default:
		return code, nil
	}
}

func startServer(ctx context.Context, config *clientrest.Config, database string, failed chan error) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	listening := make(chan serving.Addresses, 1)
	go func() {
		failed <- apiserver.Run(ctx, config, apiserver.Config{
			Namespace: clustertest.Namespace, Version: "test", DatabaseURL: database, RequestsPerSecond: 1e6, Burst: 1e6, Log: slog.New(slog.DiscardHandler),
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

// account is an account with two deployments, whose numbers are 1 and 2.
type account struct {
	name string
	// admin, reader, editor and other are tokens of keys without an owner: the latter may read and edit content; ada's key has
	// the user ada as its owner, who is an Explorer.
	admin, reader, editor, other, ada string
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
	for name, key := range map[string]struct {
		token *string
		spec  v1alpha1.ApiKeySpec
	}{
		"admin":  {&a.admin, v1alpha1.ApiKeySpec{}},
		"reader": {&a.reader, v1alpha1.ApiKeySpec{Permissions: reading}},
		"editor": {&a.editor, v1alpha1.ApiKeySpec{Permissions: editing}},
		"other":  {&a.other, v1alpha1.ApiKeySpec{Permissions: []v1alpha1.Permission{v1alpha1.PermissionDeploymentRead}}},
		"ada":    {&a.ada, v1alpha1.ApiKeySpec{Owner: &v1alpha1.ApiKeyOwner{ScimUser: "ada"}}},
	} {
		object, token, err := clustertest.Key(a.name, name, key.spec)
		if err != nil {
			return err
		}
		*key.token, objects = token, append(objects, object)
	}
	return c.Account(ctx, a.name, v1alpha1.AccountSpec{
		Host: v1alpha1.Host(a.host()), Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}, objects...)
}

var (
	reading = []v1alpha1.Permission{v1alpha1.PermissionFolderRead, v1alpha1.PermissionWorkbookRead, v1alpha1.PermissionReportRead}
	editing = []v1alpha1.Permission{v1alpha1.PermissionFolderEdit, v1alpha1.PermissionWorkbookEdit, v1alpha1.PermissionReportEdit}
)

// answer is the response to a request.
type answer struct {
	t      *testing.T
	what   string
	status int
	raw    []byte
}

// call sends a request with a token of an account.
func (a *account) call(t *testing.T, token, method, path string, body any) *answer {
	t.Helper()
	var got *apiclient.Response
	apiclient.Soon(t, func() (err error) { // the certificate is renewed for new accounts
		got, err = apiclient.Request{
			Method: method, URL: "https://" + a.host() + path, Authorization: "Bearer " + token, Body: body, MediaType: "application/json",
		}.Send(context.WithoutCancel(t.Context()), &http.Client{Transport: roots, Timeout: apiclient.Timeout})
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
