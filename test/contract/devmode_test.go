package contract_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/cubejs"
)

// project is a deployment that was created over REST, whose repository Quoin keeps.
type project struct {
	id string
	caller
}

func newProject(t *testing.T, a *account, name string) project {
	t.Helper()
	return project{create(t, a, name), a.as(a.admin)}
}

// build sends a request below the deployment.
func (k project) build(t *testing.T, method, path string, body any) *response {
	t.Helper()
	return k.call(t, method, "/build/api/v1/deployments/"+k.id+path, body)
}

// status returns the build status of a branch.
func (k project) status(t *testing.T, branch string) *response {
	t.Helper()
	return k.call(t, "GET", "/api/v1/deployments/"+k.id+"/build-status?branchName="+branch, nil).is(200)
}

// branch returns the Branch object of a branch; nil if there is none.
func (k project) branch(t *testing.T, a *account, name string) *v1alpha1.Branch {
	t.Helper()
	list := &v1alpha1.BranchList{}
	if err := k8s.List(t.Context(), list, client.InNamespace(a.name)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if b := &list.Items[i]; b.Spec.Name == name && b.Spec.DeploymentRef.Name == object(t, a, k.id).Name {
			return b
		}
	}
	return nil
}

// push commits a file to a branch and pushes it.
func (k project) push(t *testing.T, a *account, branch, path, text string) {
	t.Helper()
	repository := &kept{account: a, deployment: object(t, a, k.id), ca: certificateFile(t)}
	dir := filepath.Join(t.TempDir(), "model")
	repository.mustGit(t, t.TempDir(), "clone", "-q", "-b", branch, repository.url(a.host, a.admin), dir)
	if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	repository.mustGit(t, dir, "add", "-A")
	repository.mustGit(t, dir, "commit", "-q", "-m", "Change "+path)
	repository.mustGit(t, dir, "push", "-q", "origin", branch)
}

// A deployment that is created over REST has a starter project, whose first build starts at once.
func TestCreatedDeploymentHasAStarterProject(t *testing.T) {
	k := newProject(t, acme, "Starter project")
	apiclient.Soon(t, func() error {
		if a := k.status(t, ""); a.at("status") != "built" {
			return fmt.Errorf("the first build is not complete: %s", a.raw)
		}
		return nil
	})
	a := k.status(t, "main").want("mode", "production").want("branchName", "main")
	for _, field := range []string{"lastHash", "filesHash"} {
		if hash, _ := a.at(field).(string); len(hash) != 40 {
			t.Errorf("%s is %q: %s", field, hash, a.raw)
		}
	}
	if job, _ := a.at("buildJobId").(float64); job < 1 {
		t.Errorf("buildJobId: %s", a.raw)
	}
	k.build(t, "GET", "/branches", nil).is(200).want("items.0.name", "main").want("items.0.parentBranch", nil)
	k.call(t, "GET", "/api/v1/deployments/"+k.id+"/settings", nil).is(200).
		want("repoType", "deployRepo").want("deployMode", "cli").want("deployBranchName", "main").want("deployBranchReadOnly", false)
}

// Spec: dev mode, commit, merge. A change goes from a personal branch to its parent and to production.
func TestDevModeToProduction(t *testing.T) {
	k := newProject(t, acme, "Dev mode")
	k.build(t, "POST", "/branches", map[string]any{"name": "feature/orders"}).is(200).want("parentBranch", "main").want("active", false)
	entered := k.build(t, "POST", "/dev-mode", map[string]any{"branchName": "feature/orders"}).is(200).want("active", true).want("parentBranch", "feature/orders")
	dev, _ := entered.at("branchName").(string)
	if !strings.HasPrefix(dev, "dev-") {
		t.Fatalf("the personal branch is %q", dev)
	}
	if b := k.branch(t, acme, dev); b == nil || b.Spec.Role != v1alpha1.BranchPersonal || b.Spec.ParentBranch != "feature/orders" {
		t.Errorf("the Branch of the personal branch is %+v", b)
	}
	k.push(t, acme, dev, "model/cubes/orders.yml", "cubes:\n- name: orders\n  sql_table: orders\n")
	k.build(t, "POST", "/commit", map[string]any{"message": "Add orders"}).is(200).want("success", true)
	head, _ := k.status(t, dev).at("lastHash").(string)
	apiclient.Soon(t, func() error {
		for _, name := range []string{dev, "feature/orders"} {
			if b := k.branch(t, acme, name); b == nil || b.Status.LastHash != head || b.Spec.ParentBranch == "" {
				return fmt.Errorf("branch %s is %+v, want it at %s", name, b, head)
			}
		}
		return nil
	})
	before := k.status(t, "").at("lastHash")
	k.build(t, "POST", "/merge-to-default", map[string]any{"branchName": "feature/orders", "message": "Orders", "removeBranchAfterMerge": true}).is(200).
		want("merged", true).want("branchDeleted", true)
	apiclient.Soon(t, func() error {
		if a := k.status(t, ""); a.at("status") != "built" || a.at("lastHash") == before {
			return fmt.Errorf("production does not serve the merge: %s", a.raw)
		}
		return nil
	})
	if b := k.branch(t, acme, "feature/orders"); b != nil {
		t.Errorf("the merged branch still has the object %s", b.Name)
	}
	k.build(t, "GET", "/branches", nil).is(200).want("items.1.name", dev).want("items.1.parentBranch", "main")
	if dataPlane != nil { // the environment of the personal branch is asleep
		k.build(t, "GET", "/data-model/validate?devMode=true", nil).is(200).want("valid", true).want("branchName", dev).want("mode", "dev_mode")
	}
	k.build(t, "DELETE", "/dev-mode", nil).is(200).want("success", true)
	k.build(t, "POST", "/commit", nil).rejected(400, "dev mode")
	for event, n := range map[string]int{
		"Entered dev mode": 1, "Committed and merged changes to data model": 1, "Merged changes to data model": 1,
		"Created Git branch": 2, "Deleted Git branch": 1, "Exited dev mode": 1,
	} {
		if rows := eventsOf(t, acme, event, k.id); len(rows) != n {
			t.Errorf("%d events %q, want %d", len(rows), event, n)
		}
	}
}

// A deployment of another account, and one that the key does not reach, is not changed.
func TestDevModeOfOthersIsNotReached(t *testing.T) {
	k := newProject(t, acme, "Dev mode of others")
	stranger := project{k.id, globex.as(globex.admin)}
	for _, path := range []string{"/dev-mode", "/commit", "/merge", "/merge-to-default", "/branches"} {
		if got := stranger.build(t, "POST", path, map[string]any{"branchName": "main", "name": "x"}).status; got/100 == 2 {
			t.Errorf("POST %s: %d", path, got)
		}
	}
	if b := k.branch(t, acme, "x"); b != nil {
		t.Error("another account has created a branch")
	}
}

// heads returns the commits of branches.
func (k project) heads(t *testing.T, branches ...string) string {
	t.Helper()
	text := ""
	for _, name := range branches {
		apiclient.Soon(t, func() error { // the controller has not observed a new branch yet
			head, ok := k.status(t, name).at("lastHash").(string)
			if !ok {
				return fmt.Errorf("branch %q has no commit", name)
			}
			text += name + "=" + head + " "
			return nil
		})
	}
	return text
}

// Contradicting changes are a conflict that names the file, and no branch moves.
func TestMergeConflictsNameTheFile(t *testing.T) {
	k := newProject(t, acme, "Conflicts")
	const file = "model/cubes/cubes.yml"
	k.build(t, "POST", "/branches", map[string]any{"name": "feature"}).is(200)
	dev, _ := k.build(t, "POST", "/dev-mode", map[string]any{"branchName": "main"}).is(200).at("branchName").(string)
	k.push(t, acme, "feature", file, "cubes: [] # feature\n")
	k.push(t, acme, dev, file, "cubes: [] # mine\n")
	k.push(t, acme, "main", file, "cubes: [] # main\n")
	before := k.heads(t, "main", "feature", dev)
	for _, c := range []struct{ path, branch string }{
		{"/merge", "feature"}, {"/merge-to-default", "feature"}, {"/merge", dev}, {"/commit", dev}, {"/pull", dev},
	} {
		k.build(t, "POST", c.path, map[string]any{"branchName": c.branch}).rejected(409, file, "same lines", "nothing was changed")
		if after := k.heads(t, "main", "feature", dev); after != before {
			t.Fatalf("POST %s of %s: the branches are at %s, were at %s", c.path, c.branch, after, before)
		}
	}
}

// An unknown branch is an error that names the field or the branch, and nothing changes.
func TestUnknownBranchesAreRejected(t *testing.T) {
	k := newProject(t, acme, "Unknown branches")
	before := k.heads(t, "main")
	for path, method := range map[string]string{
		"/commit": "POST", "/merge": "POST", "/merge-to-default": "POST", "/dev-mode": "POST", "/pull": "POST", "/data-model/upload/start": "POST",
		"/data-model/files": "PUT", "/data-model/files?branchName=gone": "GET", "/data-model/file-hashes?branchName=gone": "GET", "/branches?branchName=gone": "DELETE",
	} {
		var body any
		if !strings.Contains(path, "?") {
			all := map[string]any{"branchName": "gone"}
			if method == "PUT" {
				all["files"] = []map[string]string{{"path": "a", "content": "a"}}
			}
			body = all
		}
		k.build(t, method, path, body).rejected(404, "gone")
	}
	k.build(t, "POST", "/branches", map[string]any{"name": "x", "from": "gone"}).rejected(400, "from", "gone")
	if branches := k.build(t, "GET", "/branches", nil).is(200).list("items"); len(branches) != 1 || k.heads(t, "main") != before {
		t.Errorf("the branches are %v", branches)
	}
}

// A data model that is rejected is valid: false with the compiler's errors.
func TestValidateReportsARejectedModel(t *testing.T) {
	k := newProject(t, acme, "Rejected model")
	k.build(t, "GET", "/data-model/validate?branchName=main&devMode=true", nil).rejected(400, "branchName", "devMode")
	k.build(t, "GET", "/data-model/validate?branchName=gone", nil).rejected(404, "gone")
	if dataPlane != nil {
		k.build(t, "GET", "/data-model/validate", nil).is(200).want("valid", true).want("cubesCount", 2.0)
	}
	head, _ := k.status(t, "main").at("lastHash").(string)
	// The controller forgets the failure when it reconciles the deployment.
	apiclient.Soon(t, func() error {
		d := object(t, acme, k.id)
		before := d.DeepCopy()
		d.Status.FailedModel = &v1alpha1.FailedModel{
			Commit: head, Image: d.Status.CurrentImage, Generation: d.Generation, Reason: v1alpha1.ReasonModelBroken,
			Message: "Compile errors: | orders.yml Errors: | sql is missing",
		}
		if err := k8s.Status().Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
			return err
		}
		a := k.build(t, "GET", "/data-model/validate", nil).is(200)
		if a.at("valid") != false {
			return fmt.Errorf("valid: %v", a.at("valid"))
		}
		a.want("branchName", "main").want("mode", "production").want("errors.0.fileName", "orders.yml").want("errors.0.message", "sql is missing")
		return nil
	})
}

// preview is a development server with the routes that its page calls.
type preview struct {
	*testing.T
	*cubejs.DevServer
}

func (p preview) ask(method, path, body string) map[string]any {
	p.Helper()
	request, err := http.NewRequestWithContext(p.Context(), method, p.URL+"/playground/live-preview/"+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		p.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	raw, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != http.StatusOK {
		p.Fatalf("%s %s: %d %v: %s", method, path, got.StatusCode, err, raw)
	}
	all := map[string]any{}
	if got.Header.Get("Content-Type") != "text/html" {
		if err := json.Unmarshal(raw, &all); err != nil {
			p.Fatalf("%s %s: %v: %s", method, path, err, raw)
		}
	}
	return all
}

// serves waits until an upload other than the last one is served, and returns the status.
func (p preview) serves(last any) (status map[string]any) {
	p.Helper()
	apiclient.Soon(p, func() error {
		status = p.ask("GET", "status", "")
		if status["status"] != "running" || status["lastHashTarget"] == last || status["lastHashTarget"] == nil || status["uploading"] == true {
			return fmt.Errorf("the status is %v", status)
		}
		return nil
	})
	return status
}

// The development server of npm @cubejs-backend/server-core, unmodified, uploads a project after each change to the
// personal branch of the creator of its token, and its page gets the address and a token for it.
func TestDevelopmentServerHasALivePreview(t *testing.T) {
	if dataPlane == nil {
		t.Skip("environments get ready with a data plane only")
	}
	k := newProject(t, acme, "Live preview")
	authority := &corev1.Secret{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: clustertest.Namespace, Name: certificates.SecretName}, authority); err != nil {
		t.Fatal(err)
	}
	p := preview{t, cubejs.StartDevServer(t, acme.host, serverAddress.String(), authority.Data["ca.crt"])}
	for path, text := range firstProject {
		p.Write(t, path, text)
	}
	main := k.heads(t, "main")
	p.ask("GET", "start/"+acme.createDeployToken(t, k.id), "")
	first := p.serves(nil)
	dev, _ := first["branchName"].(string)
	if got := k.files(t, k.id, dev); !maps.Equal(got, firstProject) {
		t.Errorf("%s has %q, want %q", dev, got, firstProject)
	}
	d := object(t, acme, k.id)
	if want := "https://" + d.Name + ".data." + acme.host + "/dev-mode/" + dev; first["deploymentUrl"] != want || first["active"] != true {
		t.Errorf("the page has the status %v, want the address %s", first, want)
	}
	p.Write(t, "model/cubes/users.yml", "cubes: []\n")
	second := p.serves(first["lastHashTarget"])
	if head := k.heads(t, dev); head != fmt.Sprintf("%s=%v ", dev, second["lastHashTarget"]) {
		t.Errorf("the branch is %s, the upload %v", head, second["lastHashTarget"])
	}
	if got := k.files(t, k.id, dev)["model/cubes/users.yml"]; got != "cubes: []\n" {
		t.Errorf("the file that has changed is %q", got)
	}
	if after := k.heads(t, "main"); after != main {
		t.Errorf("production is at %s, was at %s", after, main)
	}
	k.build(t, "GET", "/data-model/validate?devMode=true", nil).is(200).want("branchName", dev) // the branch of the token's creator
	k.checkPreviewToken(t, dev, p.ask("POST", "token", `{"tenant":"shop"}`))
	for event, n := range map[string]int{"Created Git branch": 1, "Entered dev mode": 1, "Finished uploading files": 2, "Created data token": 1} {
		if rows := eventsOf(t, acme, event, k.id); len(rows) != n {
			t.Errorf("%d events %q, want %d", len(rows), event, n)
		}
	}
	p.ask("GET", "stop", "")
	(caller{globex.host, acme.createDeployToken(t, k.id)}).call(t, "GET", "/devmode/"+k.id+"/status", nil).rejected(401)
	globex.as(globex.admin).call(t, "POST", "/devmode/9"+k.id+"/token", map[string]any{}).rejected(404, "deployment")
}

// checkPreviewToken checks that a response of the development server has a token for the environment of a branch.
func (k project) checkPreviewToken(t *testing.T, branch string, got map[string]any) {
	t.Helper()
	response, _ := got["token"].(map[string]any)
	text, _ := response["token"].(string)
	secret := &corev1.Secret{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: engine.CredentialsName(k.branch(t, acme, branch).Status.Environment)}, secret); err != nil {
		t.Fatal(err)
	}
	claims := jwt.MapClaims{}
	if _, err := jwt.ParseWithClaims(text, claims, func(*jwt.Token) (any, error) { return secret.Data[engine.KeyAPISecret], nil }); err != nil {
		t.Fatalf("the token is not one of the environment: %v", err)
	}
	if expires, err := claims.GetExpirationTime(); err != nil || time.Until(expires.Time) > time.Hour || claims["tenant"] != "shop" {
		t.Errorf("the claims are %v, %v", claims, err)
	}
}
