package contract_test

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/github/githubserver"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// githubHost is the GitHub Enterprise Server of `quoin apiserver`. acme may use the installation 1, globex the installation 2.
var githubHost *githubserver.Server

// startGitHub starts the host with an installation for each account.
func startGitHub(folder string) error {
	var err error
	if githubHost, err = githubserver.New(folder); err != nil {
		return err
	}
	for id, a := range map[int64]*account{1: acme, 2: globex} {
		githubHost.Installations[id] = &githubserver.Installation{Login: a.name + "-org", Repositories: map[string]*githubserver.Repository{
			"model": {ID: 10 * id, Branches: []string{"main", "next", "dev-ada"}}, "other": {ID: 10*id + 1, Branches: []string{"trunk"}},
		}}
	}
	return nil
}

// serveGitOfGitHub serves the repository of a test as model of acme-org.
func serveGitOfGitHub(t *testing.T, r *repository) {
	t.Helper()
	target, err := url.Parse(gitHost.url)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(r.url, gitHost.url)
	proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(target)
		p.Out.URL.Path = name + strings.TrimPrefix(p.In.URL.Path, "/model.git")
		p.Out.Header.Del("Authorization")
	}}
	githubHost.Lock()
	defer githubHost.Unlock()
	githubHost.Git = proxy
}

// Contract: "GET /api/v1/github/*".
func TestGitHubIsListed(t *testing.T) {
	admin := acme.as(acme.admin)
	admin.call(t, "GET", "/api/v1/github/status", nil).is(200).want("connected", true).want("linkUrl", githubHost.URL+"/apps/quoin-test/installations/new").
		want("settingsUrl", githubHost.URL+"/settings/installations/1")
	list := admin.call(t, "GET", "/api/v1/github/installations", nil).is(200)
	list.want("items.0.installationId", "1").want("items.0.login", "acme-org").want("data.0.id", "1001").want("items.1", nil).want("pageInfo.hasNextPage", false)
	repositories := "/api/v1/github/installations/1/repositories"
	first := admin.call(t, "GET", repositories+"?first=1", nil).is(200).want("items.0.name", "model").want("items.0.id", 10.0).
		want("items.0.htmlUrl", githubHost.URL+"/acme-org/model").want("pageInfo.hasNextPage", true)
	cursor, _ := first.at("pageInfo.endCursor").(string)
	admin.call(t, "GET", repositories+"?first=1&after="+url.QueryEscape(cursor), nil).is(200).want("items.0.name", "other").want("pageInfo.hasNextPage", false).want("pageInfo.hasPreviousPage", true)
	branches := admin.call(t, "GET", "/api/v1/github/repositories/acme-org/model/branches?installationId=1", nil).is(200)
	branches.want("items.0.name", "main").want("items.0.isDefault", true).want("items.1.isDefault", false).want("data.2.name", "dev-ada")
	admin.call(t, "GET", "/api/v1/github/repositories/acme-org/model/branches", nil).rejected(400, "installationId")
	admin.call(t, "GET", "/api/v1/github/repositories/acme-org/gone/branches?installationId=1", nil).rejected(404, "acme-org/gone")
	admin.call(t, "GET", "/api/v1/github/repositories/acme-org/%2e%2e/branches?installationId=1", nil).is(404)
	admin.call(t, "GET", repositories+"?after="+url.QueryEscape(cursor[:len(cursor)-4]), nil).rejected(400, "after")
}

// An account sees only what is in the installations that its Account lists.
func TestGitHubInstallationsOfOtherAccountsAreForbidden(t *testing.T) {
	admin := acme.as(acme.admin)
	githubHost.Lock()
	before := len(githubHost.Requests)
	githubHost.Unlock()
	for _, id := range []string{"2", "3"} { // whether or not it exists
		admin.call(t, "GET", "/api/v1/github/installations/"+id+"/repositories", nil).rejected(403, "spec.github.installationIds", `"acme"`)
		admin.call(t, "GET", "/api/v1/github/repositories/globex-org/model/branches?installationId="+id, nil).rejected(403, "spec.github.installationIds")
	}
	connect := "/build/api/v1/deployments/" + acme.id + "/github/connect"
	admin.call(t, "POST", connect, map[string]any{"installationId": 2, "name": "model"}).rejected(403, "spec.github.installationIds")
	githubHost.Lock()
	defer githubHost.Unlock()
	if asked := githubHost.Requests[before:]; len(asked) > 0 {
		t.Errorf("GitHub was asked: %s", asked)
	}
}

// A key that is limited to a deployment, such as one of CI, does not read other repositories of the account by connecting
// them to its deployment.
func TestKeysOfADeploymentDoNotReachGitHub(t *testing.T) {
	created := acme.as(acme.admin).call(t, "POST", "/api/v1/api-keys", map[string]any{"name": "CI on GitHub", "deploymentIds": []string{acme.id}, "permissions": []string{"DeploymentsManage"}}).is(200)
	t.Cleanup(func() {
		acme.as(acme.admin).call(t, "DELETE", fmt.Sprintf("/api/v1/api-keys/%s", created.at("id")), nil).is(200)
	})
	token, _ := created.at("token").(string)
	key := acme.as(token)
	for _, route := range []string{"/status", "/installations", "/installations/1/repositories", "/repositories/acme-org/model/branches?installationId=1"} {
		key.call(t, "GET", "/api/v1/github"+route, nil).rejected(403, "DeploymentCreate")
	}
	key.call(t, "POST", "/build/api/v1/deployments/"+acme.id+"/github/connect", map[string]any{"installationId": 1, "name": "other"}).rejected(403, "DeploymentCreate", "whole account")
	if url := object(t, acme, acme.id).Spec.Model.Git.URL; url != acme.repository.url {
		t.Errorf("the data model is now from %s", url)
	}
}

// Contract: "POST .../github/connect". The repository is private: the controller fetches it with the token.
func TestDeploymentIsConnectedToGitHub(t *testing.T) {
	r, err := gitHost.repository("github-model")
	if err != nil {
		t.Fatal(err)
	}
	serveGitOfGitHub(t, r)
	admin, id := acme.as(acme.admin), create(t, acme, "Connected")
	path := "/build/api/v1/deployments/" + id + "/github/connect"
	got := admin.call(t, "POST", path, map[string]any{"installationId": 1, "name": "model", "deployBranchName": "next", "deployProjectRoot": ""}).is(200)
	got.want("id", id).want("name", "Connected")
	source := object(t, acme, id).Spec.Model.Git
	if source == nil || source.URL != githubHost.URL+"/acme-org/model.git" || source.Branch != "next" || *source.GitHubInstallationID != 1 {
		t.Fatalf("%+v", source)
	}
	apiclient.Soon(t, func() error {
		d := object(t, acme, id)
		branches := &v1alpha1.BranchList{}
		if err := k8s.List(t.Context(), branches, client.InNamespace(acme.name), client.MatchingFields{"spec.deploymentRef.name": d.Name}); err != nil {
			return err
		}
		if len(branches.Items) != 3 || d.Status.ModelCommit == "" {
			return fmt.Errorf("%d branches, commit %q: %v", len(branches.Items), d.Status.ModelCommit, d.Status.Conditions)
		}
		return nil
	})
	secret := &corev1.Secret{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: source.SecretRef.Name}, secret); err != nil {
		t.Fatal(err)
	}
	token := string(secret.Data["password"])
	for name, text := range map[string]string{"the response": string(got.raw), "the spec": fmt.Sprintf("%+v", source), "the audit log": exportOf(t, acme)} {
		if strings.Contains(text, token) || strings.Contains(text, string(secret.Data["webhookSecret"])) {
			t.Errorf("%s contains the token", name)
		}
	}
	if !strings.Contains(exportOf(t, acme), "Connected deployment to GitHub repository") {
		t.Error("the audit log has no event")
	}
	githubHost.Lock()
	hooks := slices.Clone(githubHost.Installations[1].Repositories["model"].Hooks)
	githubHost.Unlock()
	hook := "https://" + acme.host + "/build/api/v1/deployments/" + id + "/git-hook"
	hooks = slices.DeleteFunc(hooks, func(h githubserver.Hook) bool { return h.Config.URL != hook }) // others are of other deployments
	if len(hooks) != 1 || hooks[0].Config.Secret != string(secret.Data["webhookSecret"]) {
		t.Errorf("hooks: %+v", hooks)
	}
	if source.WebhookSecretRef == nil || source.WebhookSecretRef.Name != source.SecretRef.Name {
		t.Errorf("webhookSecretRef is %v", source.WebhookSecretRef)
	}
}

// exportOf returns the audit log of an account.
func exportOf(t *testing.T, a *account) string {
	t.Helper()
	return string(a.as(a.admin).call(t, "GET", "/api/v1/audit-logs/export", nil).is(200).raw)
}

// setAdministration permits the App to create repositories of acme-org, or denies it.
func setAdministration(permitted bool) {
	githubHost.Lock()
	defer githubHost.Unlock()
	githubHost.Installations[1].NoAdministration = !permitted
}

// Contract: isNewRepo and private. The repository is created with a starter project; the push hook of the repository to
// which the deployment was connected before is removed, that of another program is not.
func TestConnectingToANewRepository(t *testing.T) {
	admin, id := acme.as(acme.admin), create(t, acme, "New on GitHub")
	path := "/build/api/v1/deployments/" + id + "/github/connect"
	hooks := func(repository string) (urls []string) {
		githubHost.Lock()
		defer githubHost.Unlock()
		for _, h := range githubHost.Installations[1].Repositories[repository].Hooks {
			urls = append(urls, h.Config.URL)
		}
		return urls
	}
	own, others := "https://"+acme.host+"/build/api/v1/deployments/"+id+"/git-hook", len(hooks("other"))
	admin.call(t, "POST", path, map[string]any{"installationId": 1, "name": "other"}).is(200)
	if got := hooks("other"); len(got) != others+1 || got[others] != own {
		t.Fatalf("hooks of the first repository: %q", got)
	}
	admin.call(t, "POST", path, map[string]any{"installationId": 1, "name": "created", "isNewRepo": true, "deployProjectRoot": "/cube/"}).is(200).want("id", id)
	if got := hooks("other"); len(got) != others || slices.Contains(got, own) {
		t.Errorf("hooks of the first repository afterwards: %q", got)
	}
	if got := hooks("created"); len(got) != 1 || got[0] != own {
		t.Errorf("hooks of the new repository: %q", got)
	}
	githubHost.Lock()
	created := githubHost.Installations[1].Repositories["created"]
	if !created.Private || len(created.Files) != 2 || !strings.Contains(created.Files["cube/README.md"], "New on GitHub") || !strings.Contains(created.Files["cube/model/cubes/cubes.yml"], "cubes: []") {
		t.Errorf("created %+v", created)
	}
	githubHost.Unlock()
	if source := object(t, acme, id).Spec.Model.Git; source.URL != githubHost.URL+"/acme-org/created.git" || source.Path != "cube" {
		t.Errorf("%+v", source)
	}
	admin.call(t, "POST", path, map[string]any{"installationId": 1, "name": "public", "isNewRepo": true, "private": false}).is(200)
	githubHost.Lock()
	defer githubHost.Unlock()
	if githubHost.Installations[1].Repositories["public"].Private {
		t.Error("the repository is private")
	}
}

// A connection that fails after the token was stored leaves a token of the repository to which the deployment is connected.
func TestFailedConnectionsKeepTheToken(t *testing.T) {
	admin, id := acme.as(acme.admin), create(t, acme, "Reconnected")
	path := "/build/api/v1/deployments/" + id + "/github/connect"
	admin.call(t, "POST", path, map[string]any{"installationId": 1, "name": "model"}).is(200)
	failGitHub(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/other/hooks") {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	admin.call(t, "POST", path, map[string]any{"installationId": 1, "name": "other"}).rejected(502, "GitHub does not answer")
	source, stored := object(t, acme, id).Spec.Model.Git, &corev1.Secret{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: source.SecretRef.Name}, stored); err != nil {
		t.Fatal(err)
	}
	if want, got := githubHost.URL+"/acme-org/model.git", stored.Annotations[v1alpha1.Group+"/github-token-reads"]; source.URL != want || got != "1 "+want {
		t.Errorf("the model is from %s, and the token reads %q", source.URL, got)
	}
}

// failGitHub makes GitHub respond with fail, which reports whether it has responded, until the end of the test.
func failGitHub(t *testing.T, fail func(w http.ResponseWriter, r *http.Request) bool) {
	t.Helper()
	set := func(fail func(http.ResponseWriter, *http.Request) bool) {
		githubHost.Lock()
		defer githubHost.Unlock()
		githubHost.Fail = fail
	}
	set(fail)
	t.Cleanup(func() { set(nil) })
}

func TestInvalidConnectionsChangeNothing(t *testing.T) {
	admin, id := acme.as(acme.admin), create(t, acme, "Unconnected")
	path := "/build/api/v1/deployments/" + id + "/github/connect"
	before := object(t, acme, id).Generation
	body := func(pairs ...any) map[string]any {
		b := map[string]any{"installationId": 1, "name": "model"}
		for i := 0; i < len(pairs); i += 2 {
			b[fmt.Sprint(pairs[i])] = pairs[i+1]
		}
		return b
	}
	admin.call(t, "POST", path, body("name", "gone")).rejected(404, "acme-org/gone")
	admin.call(t, "POST", path, body("name", "acme-org/model")).rejected(400, "name")
	admin.call(t, "POST", path, body("name", "..")).rejected(400, "name")
	admin.call(t, "POST", path, body("deployBranchName", "gone")).rejected(400, "deployBranchName", "gone")
	admin.call(t, "POST", path, body("deployBranchName", "a..b")).rejected(400, "deployBranchName")
	admin.call(t, "POST", path, body("deployProjectRoot", "../x")).rejected(400, "path")
	admin.call(t, "POST", path, body("isNewRepo", true)).rejected(409, "acme-org/model exists already", "without isNewRepo")
	admin.call(t, "POST", path, body("name", "fresh", "isNewRepo", true, "deployBranchName", "next")).rejected(400, "deployBranchName")
	admin.call(t, "POST", path, body("name", "fresh", "isNewRepo", true, "deployProjectRoot", "../x")).rejected(400, "deployProjectRoot")
	setAdministration(false)
	admin.call(t, "POST", path, body("name", "fresh", "isNewRepo", true)).rejected(403, "acme-org", "Administration")
	setAdministration(true)
	if githubHost.Installations[1].Repositories["fresh"] != nil {
		t.Error("a repository was created")
	}
	admin.call(t, "POST", path, map[string]any{"name": "model"}).rejected(400, "installationId")
	if after := object(t, acme, id).Generation; after != before {
		t.Error("the spec has changed")
	}
	stored := &corev1.Secret{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: object(t, acme, id).Name + "-github"}, stored); client.IgnoreNotFound(err) != nil || stored.Name != "" {
		t.Errorf("a token is stored: %v", err)
	}
	githubHost.Lock()
	hooks := githubHost.Installations[1].Repositories["model"].Hooks
	githubHost.Unlock()
	if slices.ContainsFunc(hooks, func(h githubserver.Hook) bool { return strings.Contains(h.Config.URL, "/deployments/"+id+"/") }) {
		t.Errorf("GitHub has been changed: %+v", hooks)
	}
	t.Run("GitHub fails", func(t *testing.T) {
		failGitHub(t, func(w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, "upstream secret ghs_x", http.StatusInternalServerError)
			return true
		})
		for _, route := range []string{"/status", "/installations", "/installations/1/repositories", "/repositories/acme-org/model/branches?installationId=1"} {
			admin.call(t, "GET", "/api/v1/github"+route, nil).rejected(502, "GitHub does not answer")
		}
		admin.call(t, "POST", path, body()).rejected(502, "GitHub does not answer")
	})
}
