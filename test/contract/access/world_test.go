// Package access_test tests over REST who may do what with folders, workbooks and reports: an administrator, two Explorers, one of
// whom is in a group, and a Viewer. The REST server runs in the test process, with a real kube-apiserver and a database in SQLite.
package access_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/inprocess"
)

const (
	account        = "acme"
	host           = "acme.example.com"
	deploymentPath = "/api/v1/deployments/1"
	foldersPath    = deploymentPath + "/folders"
	workbooksPath  = deploymentPath + "/workbooks"
	reportsPath    = deploymentPath + "/reports"
	policiesPath   = "/api/v1/resource-policies"
	workspacePath  = deploymentPath + "/workspace"
)

var (
	// anyone is an HTTP client that trusts the server.
	anyone *http.Client
	// Tokens: of a key without an owner, and of keys of the Explorers ada and bob and of the Viewer vic. Bob and vic are in the group
	// sales. The key elsewhere is limited to another deployment.
	admin, ada, bob, vic, elsewhere string
	// k8s is the client of a cluster administrator.
	k8s client.Client
)

type object = map[string]any

func TestMain(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
	k8s = c.Client
	server, err := inprocess.Serve(ctx, c, apiserver.Config{})
	if err != nil {
		return 0, err
	}
	if err := create(ctx, c); err != nil {
		return 0, fmt.Errorf("account: %w", err)
	}
	roots, err := c.Roots(ctx)
	if err != nil {
		return 0, err
	}
	anyone = &http.Client{Transport: apiclient.Transport(roots, server.Address.String), Timeout: apiclient.Timeout}
	return server.Run(m)
}

func create(ctx context.Context, c *clustertest.Cluster) error {
	of := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: account, Name: name} }
	objects := []client.Object{
		&v1alpha1.ScimGroup{ObjectMeta: of("sales"), Spec: v1alpha1.ScimGroupSpec{DisplayName: "Sales", Members: []v1alpha1.ScimMember{{Value: "bob"}, {Value: "vic"}}}},
		&v1alpha1.ScimGroup{ObjectMeta: of("others"), Spec: v1alpha1.ScimGroupSpec{DisplayName: "Others"}},
	}
	for name, role := range map[string]v1alpha1.AccountRoleReference{"ada": "Explorer", "bob": "Explorer", "vic": "Viewer"} {
		objects = append(objects, &v1alpha1.ScimUser{
			ObjectMeta: of(name), Spec: v1alpha1.ScimUserSpec{UserName: name + "@example.com", AccountRoles: []v1alpha1.AccountRoleReference{role}},
		})
	}
	for i, name := range []string{"analytics", "marketing"} {
		objects = append(objects, &v1alpha1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: name, Labels: map[string]string{v1alpha1.LabelID: strconv.Itoa(i + 1)}},
			Spec:       v1alpha1.DeploymentSpec{ReleaseChannel: "latest", Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}}},
		})
	}
	owned := func(user string) v1alpha1.ApiKeySpec {
		return v1alpha1.ApiKeySpec{Owner: &v1alpha1.ApiKeyOwner{ScimUser: user}}
	}
	keys, tokens, err := clustertest.Keys(account, map[string]v1alpha1.ApiKeySpec{
		"admin": {}, "ada": owned("ada"), "bob": owned("bob"), "vic": owned("vic"), "elsewhere": {Deployments: []string{"marketing"}},
	})
	if err != nil {
		return err
	}
	admin, ada, bob, vic, elsewhere = tokens["admin"], tokens["ada"], tokens["bob"], tokens["vic"], tokens["elsewhere"]
	return c.Account(ctx, account, v1alpha1.AccountSpec{
		Host: host, Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}, append(keys, objects...)...)
}

// call sends a request.
func call(t *testing.T, token, method, path string, body any) *apiclient.Answer {
	t.Helper()
	return apiclient.Call(t, anyone, token, method, "https://"+host+path, body)
}

// ready waits until the server knows the users and the groups.
func ready(t *testing.T) {
	t.Helper()
	apiclient.Soon(t, func() error {
		for name, token := range map[string]string{"admin": admin, "ada": ada, "bob": bob, "vic": vic} {
			if a := call(t, token, "GET", workbooksPath, nil); a.Status != http.StatusOK {
				return fmt.Errorf("%s: %d %s", name, a.Status, a.Body)
			}
		}
		return nil
	})
}

// id64 returns an id as a number.
func id64(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// grant sets what bob, the group sales or everyone may do; no action removes it.
func grant(t *testing.T, to, kind, id, level string) *apiclient.Answer {
	t.Helper()
	path, body := policiesPath+"/user", object{"resourceType": kind, "resourceId": id64(t, id)}
	switch to {
	case "everyone":
	case "sales":
		path, body["groupId"] = policiesPath+"/group", number.Of("Group", to)
	default:
		body["userId"] = number.Of("User", to)
	}
	if level != "" {
		body["action"] = kind + level
	}
	return call(t, admin, "PUT", path, body).Is(http.StatusOK)
}

// things are objects of ada: a folder with a workbook, which is published and has a draft and a report, and a report beside it.
type things struct{ folder, workbook, inner, report string }

var made int

func makeThings(t *testing.T) things {
	t.Helper()
	made++
	x := things{folder: call(t, ada, "POST", foldersPath, object{"name": fmt.Sprint("Folder ", made)}).Is(200).ID()}
	in := id64(t, x.folder)
	x.workbook = call(t, ada, "PUT", fmt.Sprintf("%s/by-slug/book-%d", workbooksPath, made), object{"folderId": in}).Is(200).ID()
	book := id64(t, x.workbook)
	x.inner = call(t, ada, "POST", reportsPath, object{"workbookId": book, "sqlQuery": "SELECT 1"}).Is(200).ID()
	x.report = call(t, ada, "POST", reportsPath, object{"folderId": in, "sqlQuery": "SELECT 2"}).Is(200).ID()
	chart := object{"title": "T", "widgets": []any{object{
		"id": "c", "type": "CHART", "position": object{"x": 0, "y": 0, "w": 6, "h": 4}, "config": object{"reportId": id64(t, x.inner)},
	}, object{"id": "s", "type": "AI", "position": object{"x": 6, "y": 0, "w": 6, "h": 4}}}}
	call(t, ada, "PUT", workbooksPath+"/"+x.workbook+"/dashboard", object{"dashboardDraft": chart}).Is(200)
	call(t, ada, "POST", workbooksPath+"/"+x.workbook+"/publish", object{"workbookId": book}).Is(200)
	return x
}
