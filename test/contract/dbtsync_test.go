package contract_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// dbtSyncsOf returns the path of the syncs of a deployment.
func dbtSyncsOf(deployment string) string { return "/api/v1/deployments/" + deployment + "/dbt-sync" }

// dbtManifest returns a manifest that real dbt has written.
func dbtManifest(t *testing.T) map[string]any {
	t.Helper()
	data, err := os.ReadFile("../../internal/dbt/testdata/manifest-1.10.json")
	if err != nil {
		t.Fatal(err)
	}
	manifest := map[string]any{}
	if err := json.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	return manifest
}

// startDbtSync starts a sync to files, and returns its path when it has ended.
func startDbtSync(t *testing.T, c caller, deployment string, manifest map[string]any, status string) string {
	t.Helper()
	a := c.call(t, "POST", dbtSyncsOf(deployment), map[string]any{"source": "manifest", "output": "files", "manifest": manifest}).is(200)
	a.want("branchName", "").want("workflowId", a.at("syncJobId"))
	path := fmt.Sprintf("%s/%v", dbtSyncsOf(deployment), a.at("syncJobId"))
	apiclient.Soon(t, func() error {
		switch got := c.call(t, "GET", path, nil).is(200); got.at("status") {
		case status:
			return nil
		case "COMPLETED", "FAILED":
			t.Fatalf("the sync is not %s: %s", status, got.raw)
		}
		return errors.New("the sync has not ended")
	})
	return path
}

// TestDbtGenerate: what `dbt generate` of the upstream client does.
func TestDbtGenerate(t *testing.T) {
	admin, deployment := acme.as(acme.admin), create(t, acme, "dbt generate")
	path := startDbtSync(t, admin, deployment, dbtManifest(t), "COMPLETED")
	admin.call(t, "GET", path, nil).is(200).want("progress.stage", "COMPLETED").want("progress.percentComplete", 100.0).want("error", nil)

	files := admin.call(t, "GET", path+"/generated-files", nil).is(200)
	items := files.list("items")
	if len(items) < 5 || items[0]["path"] != "model/cubes/dbt/customers.yml" || !strings.Contains(fmt.Sprint(items[0]["content"]), "name: dbt_customers") {
		t.Errorf("%s", files.raw)
	}
	first := admin.call(t, "GET", path+"/generated-files?first=1", nil).is(200).want("items.0.path", items[0]["path"]).want("pageInfo.hasNextPage", true)
	admin.call(t, "GET", fmt.Sprintf("%s/generated-files?first=1&after=%v", path, first.at("pageInfo.endCursor")), nil).is(200).want("items.0.path", items[1]["path"])

	result := admin.call(t, "GET", path+"/result", nil).is(200).want("cubeCount", float64(len(items))).want("generatedFiles.0.path", items[0]["path"])
	if models, _ := result.at("manifestStats.models").(float64); models < 5 {
		t.Errorf("%s", result.raw)
	}
	logs := admin.call(t, "GET", path+"/logs", nil).is(200).want("pageInfo.hasNextPage", false).want("items.0.level", "info").want("items.0.stream", "system")
	if len(logs.list("items")) < 4 {
		t.Errorf("%s", logs.raw)
	}
	list := admin.call(t, "GET", dbtSyncsOf(deployment)+"?first=100&status=COMPLETED&trigger=api", nil).is(200)
	list.want("items.0.source", "manifest").want("items.0.status", "COMPLETED").want("items.0.stats.dbtVersion", "1.10.13").want("items.0.phases.0.outcome", "ok").want("items.0.branchName", "")
	if len(admin.call(t, "GET", dbtSyncsOf(deployment)+"?status=FAILED", nil).is(200).list("items")) != 0 {
		t.Error("a completed sync is listed as failed")
	}
	admin.call(t, "DELETE", path, nil).rejected(409, "has ended", "COMPLETED")
	if branches := admin.call(t, "GET", "/build/api/v1/deployments/"+deployment+"/branches", nil).is(200); strings.Contains(string(branches.raw), "dbt-sync") {
		t.Errorf("a branch was made: %s", branches.raw)
	}
}

// TestDbtSyncToABranch: what `dbt sync` of the upstream client does.
func TestDbtSyncToABranch(t *testing.T) {
	admin, deployment := acme.as(acme.admin), create(t, acme, "dbt branch")
	list := &v1alpha1.DeploymentList{}
	if err := k8s.List(t.Context(), list, client.InNamespace(acme.name), client.MatchingLabels{v1alpha1.LabelID: deployment}); err != nil || len(list.Items) != 1 {
		t.Fatalf("%v, %d deployments", err, len(list.Items))
	}
	d := &list.Items[0]
	before := d.DeepCopy()
	d.Spec.Model = v1alpha1.ModelSource{Repository: &v1alpha1.RepositorySource{}}
	if err := k8s.Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	body := map[string]any{"source": "manifest", "ref": "feature/orders", "manifest": dbtManifest(t)}
	name := ""
	for range 2 {
		a := admin.call(t, "POST", dbtSyncsOf(deployment), body).is(200)
		name, _ = a.at("branchName").(string)
		if !strings.HasPrefix(name, "dbt-sync/feature-orders-") {
			t.Errorf("branch %q", name)
		}
		path := fmt.Sprintf("%s/%v", dbtSyncsOf(deployment), a.at("syncJobId"))
		apiclient.Soon(t, func() error {
			if got := admin.call(t, "GET", path, nil).is(200); got.at("status") != "COMPLETED" {
				return fmt.Errorf("%s", got.raw)
			}
			return nil
		})
		admin.call(t, "GET", path+"/result", nil).is(200).want("generatedFiles.0.path", "model/cubes/dbt/customers.yml")
		admin.call(t, "GET", path+"/generated-files", nil).rejected(404, name)
		body["branchName"] = name // the second sync is to the branch of the first one
	}
	admin.call(t, "GET", dbtSyncsOf(deployment)+"?first=100", nil).is(200).want("items.0.branchName", name).want("items.1.branchName", name).want("items.0.gitRef", "feature/orders")
	body["branchName"] = v1alpha1.DefaultBranch
	admin.call(t, "POST", dbtSyncsOf(deployment), body).rejected(400, "branchName", "production")
}

// TestDbtSyncToARemote: the model of the deployment is on a Git host, which gets the branch, also of a DbtSync.
func TestDbtSyncToARemote(t *testing.T) {
	admin := acme.as(acme.admin)
	check := func(branch string) {
		t.Helper()
		if files, err := git(acme.repository.dir, "", "ls-tree", "-r", "--name-only", "refs/heads/"+branch); err != nil || !strings.Contains(files, "model/cubes/dbt/customers.yml") {
			t.Errorf("branch %s has %q, %v", branch, files, err)
		}
		if _, err := git(acme.repository.dir, "", "update-ref", "-d", "refs/heads/"+branch); err != nil {
			t.Error(err)
		}
	}
	a := admin.call(t, "POST", dbtSyncsOf(acme.id), map[string]any{"source": "manifest", "manifest": dbtManifest(t)}).is(200)
	waitForDbtStatus(t, fmt.Sprintf("%s/%v", dbtSyncsOf(acme.id), a.at("syncJobId")), "COMPLETED")
	check(fmt.Sprint(a.at("branchName")))

	data, err := json.Marshal(dbtManifest(t))
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("to-a-remote-%d", time.Now().UnixNano())
	manifest := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: acme.name, Name: name}, Data: map[string]string{"manifest.json": string(data)}}
	sync := &v1alpha1.DbtSync{ObjectMeta: metav1.ObjectMeta{Namespace: acme.name, Name: name}, Spec: v1alpha1.DbtSyncSpec{
		DeploymentRef: v1alpha1.LocalReference{Name: "analytics"},
		Source:        v1alpha1.DbtSource{Manifest: &v1alpha1.DbtManifestSource{ConfigMapRef: v1alpha1.LocalReference{Name: name}}},
	}}
	for _, o := range []client.Object{manifest, sync} {
		if err := k8s.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = k8s.Delete(context.WithoutCancel(t.Context()), o) })
	}
	check(waitForDbtSync(t, name, "True", "cubes on branch dbt-sync/manifest-").Status.Branch)
}

// TestDbtSyncFailures: syncs that fail, and say why.
func TestDbtSyncFailures(t *testing.T) {
	admin, deployment := acme.as(acme.admin), create(t, acme, "dbt failures")
	manifest := dbtManifest(t)
	manifest["nodes"] = map[string]any{}
	path := startDbtSync(t, admin, deployment, manifest, "FAILED")
	admin.call(t, "GET", path, nil).is(200).want("error", "no dbt models matched: of the 0 models of the manifest none can be converted")
	admin.call(t, "GET", path+"/result", nil).rejected(404, "has no result", "FAILED")
	admin.call(t, "GET", path+"/generated-files", nil).rejected(404, "has no files", "FAILED")
	admin.call(t, "GET", dbtSyncsOf(deployment)+"?status=FAILED", nil).is(200).want("items.0.failedPhase", "cube-generate").want("items.0.lastStage", "PROCESSING_MANIFEST")
	other := create(t, acme, "dbt failures, another")
	admin.call(t, "GET", strings.Replace(path, "/"+deployment+"/", "/"+other+"/", 1), nil).rejected(404, "does not exist")
	admin.call(t, "DELETE", dbtSyncsOf(deployment)+"/nothing", nil).rejected(404, "nothing")
}

// TestFailedDbtSyncsLeaveTheBranch: a manifest that is broken, too large or of nothing does not change the branch, and
// the error says why.
func TestFailedDbtSyncsLeaveTheBranch(t *testing.T) {
	k := newProject(t, acme, "dbt to a branch")
	k.build(t, "POST", "/branches", map[string]any{"name": "review"}).is(200)
	before := k.heads(t, "main", "review")
	empty, broken := dbtManifest(t), dbtManifest(t)
	empty["nodes"] = map[string]any{}
	broken["nodes"] = []any{}
	for name, c := range map[string]struct {
		manifest any
		status   int
		words    []string
	}{
		"no models":       {empty, 200, nil},
		"nodes as a list": {broken, 400, []string{"manifest", "object", "byte"}},
		"a list":          {[]any{}, 400, []string{"manifest"}},
		"of 51 MiB":       {map[string]any{"docs": strings.Repeat("x", 51<<20)}, 413, nil},
	} {
		a := k.call(t, "POST", dbtSyncsOf(k.id), map[string]any{"source": "manifest", "branchName": "review", "manifest": c.manifest})
		if c.status != 200 {
			a.rejected(c.status, c.words...)
			continue
		}
		path := fmt.Sprintf("%s/%v", dbtSyncsOf(k.id), a.is(200).at("syncJobId"))
		apiclient.Soon(t, func() error {
			got := k.call(t, "GET", path, nil).is(200)
			if reason, _ := got.at("error").(string); got.at("status") != "FAILED" || !strings.Contains(reason, "no dbt models matched") {
				return fmt.Errorf("%s: %s", name, got.raw)
			}
			return nil
		})
	}
	if after := k.heads(t, "main", "review"); after != before {
		t.Errorf("the branches are at %s, were at %s", after, before)
	}
}

// TestInvalidDbtSyncsAreRejected: nothing is started.
func TestInvalidDbtSyncsAreRejected(t *testing.T) {
	admin, deployment := acme.as(acme.admin), create(t, acme, "dbt invalid")
	body := func(more map[string]any) map[string]any {
		all := map[string]any{"source": "manifest", "output": "files", "manifest": dbtManifest(t)}
		for name, value := range more {
			all[name] = value
		}
		return all
	}
	for name, c := range map[string]struct {
		body   any
		status int
		words  []string
	}{
		"no body":            {nil, 400, []string{"JSON"}},
		"a list":             {[]any{}, 400, []string{"object"}},
		"source git":         {map[string]any{}, 400, []string{"source", "git", "spec.dbt", "manifest"}},
		"an unknown option":  {body(map[string]any{"options": map[string]any{"color": "red"}}), 400, []string{"options", "color"}},
		"a catalog":          {body(map[string]any{"options": map[string]any{"typesFromCatalog": true}}), 400, []string{"options.typesFromCatalog", "manifest", "allowed: false"}},
		"an unknown source":  {body(map[string]any{"source": "ftp"}), 400, []string{"source", "ftp"}},
		"an unknown output":  {body(map[string]any{"output": "mail"}), 400, []string{"output", "mail", "branch, files"}},
		"an unknown field":   {body(map[string]any{"color": "red"}), 400, []string{"color"}},
		"a number as ref":    {body(map[string]any{"ref": 1}), 400, []string{"number"}},
		"a bad ref":          {body(map[string]any{"ref": "a..b"}), 400, []string{"ref", "a..b"}},
		"files to a branch":  {body(map[string]any{"branchName": "x"}), 400, []string{"branchName", "files"}},
		"no manifest":        {body(map[string]any{"manifest": nil}), 400, []string{"manifest", "required"}},
		"another document":   {body(map[string]any{"manifest": map[string]any{"a": 1}}), 400, []string{"not a manifest"}},
		"a text as manifest": {body(map[string]any{"manifest": "x"}), 400, []string{"manifest"}},
	} {
		t.Run(name, func(t *testing.T) {
			admin.call(t, "POST", dbtSyncsOf(deployment), c.body).rejected(c.status, c.words...)
		})
	}
	if got := admin.call(t, "GET", dbtSyncsOf(deployment), nil).is(200).list("items"); len(got) != 0 {
		t.Errorf("%d syncs were started", len(got))
	}
}

// TestLargeDbtManifests: one of 20 MiB is read, and one of more than 50 MiB is rejected.
func TestLargeDbtManifests(t *testing.T) {
	admin, deployment := acme.as(acme.admin), create(t, acme, "dbt large")
	manifest := dbtManifest(t)
	manifest["docs"] = map[string]any{"doc.shop.long": strings.Repeat("x", 20<<20)}
	startDbtSync(t, admin, deployment, manifest, "COMPLETED")
	admin.call(t, "POST", dbtSyncsOf(deployment), strings.Repeat(" ", 51<<20)).rejected(413)
}

// checkDbtSyncs checks the responses to valid requests of the family, which need a manifest. It adds the operations to
// succeeded.
func (s *specification) checkDbtSyncs(t *testing.T, succeeded map[string]bool) {
	t.Helper()
	admin, deployment := globex.as(globex.admin), create(t, globex, "Document dbt")
	check := func(path, method string, a *response) {
		op := s.paths[path][method]
		if err := s.check(path, method, op, a.is(200)); err != nil {
			t.Error(err)
		}
		succeeded[op.OperationID] = true
	}
	setDbtProject(t, globex, deployment, v1alpha1.DbtSettings{Git: v1alpha1.DbtGitSource{URL: "https://git.example.com/dbt.git"}})
	const hook = "/build/api/v1/deployments/{deploymentId}/dbt-hook"
	push := map[string]any{"ref": "refs/heads/main", "repository": map[string]any{"default_branch": "main"}}
	for _, status := range []int{202, 200} {
		if err := s.check(hook, "post", s.paths[hook]["post"], admin.call(t, "POST", strings.Replace(hook, "{deploymentId}", deployment, 1), push).is(status)); err != nil {
			t.Error(err)
		}
	}
	succeeded[s.paths[hook]["post"].OperationID] = true
	const list = "/api/v1/deployments/{deploymentId}/dbt-sync"
	job := startDbtSync(t, admin, deployment, dbtManifest(t), "COMPLETED")
	check(list, "get", admin.call(t, "GET", dbtSyncsOf(deployment), nil))
	for _, of := range []string{"", "/logs", "/result", "/generated-files"} {
		check(list+"/{syncJobId}"+of, "get", admin.call(t, "GET", job+of, nil))
	}
	body := map[string]any{"source": "manifest", "output": "files", "manifest": dbtManifest(t)}
	for range 20 {
		// Syncs run one after the other, so the last of several is running.
		var last *response
		for range 5 {
			last = admin.call(t, "POST", dbtSyncsOf(deployment), body)
		}
		check(list, "post", last)
		if a := admin.call(t, "DELETE", fmt.Sprintf("%s/%v", dbtSyncsOf(deployment), last.at("syncJobId")), nil); a.status == 200 {
			check(list+"/{syncJobId}", "delete", a)
			return
		}
	}
	t.Error("no sync could be cancelled")
}

// dbtProject is a deployment of acme whose data model Quoin keeps, with a dbt project.
func dbtProject(t *testing.T, name string) (deployment string) {
	t.Helper()
	deployment = create(t, acme, name)
	setDbtProject(t, acme, deployment, v1alpha1.DbtSettings{Git: v1alpha1.DbtGitSource{URL: "https://git.example.com/dbt.git", Schema: "analytics"}})
	return deployment
}

// setDbtProject sets the dbt project of a deployment, whose data model Quoin keeps.
func setDbtProject(t *testing.T, a *account, id string, settings v1alpha1.DbtSettings) {
	t.Helper()
	d := object(t, a, id)
	before := d.DeepCopy()
	d.Spec.Model = v1alpha1.ModelSource{Repository: &v1alpha1.RepositorySource{}}
	d.Spec.Dbt = &settings
	if err := k8s.Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// waitForDbtSync waits for the Ready condition of a DbtSync.
func waitForDbtSync(t *testing.T, name string, status metav1.ConditionStatus, message string) *v1alpha1.DbtSync {
	t.Helper()
	s := &v1alpha1.DbtSync{}
	apiclient.Soon(t, func() error {
		if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: name}, s); err != nil {
			return err
		}
		c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Status != status || !strings.Contains(c.Message, message) {
			return fmt.Errorf("want %s %q: %+v", status, message, s.Status)
		}
		return nil
	})
	return s
}

// waitForDbtStatus waits for the status of a sync over REST.
func waitForDbtStatus(t *testing.T, path, status string) *response {
	t.Helper()
	var got *response
	apiclient.Soon(t, func() error {
		if got = acme.as(acme.admin).call(t, "GET", path, nil).is(200); got.at("status") != status {
			return fmt.Errorf("not %s: %s", status, got.raw)
		}
		return nil
	})
	return got
}

// TestDbtSyncOfAGitRepository: a sync that is started over REST runs a Job, whose pod delivers the manifest.
func TestDbtSyncOfAGitRepository(t *testing.T) {
	admin, deployment := acme.as(acme.admin), dbtProject(t, "dbt git")
	start := func(more map[string]any) (path, object, branch string) {
		a := admin.call(t, "POST", dbtSyncsOf(deployment), more).is(200)
		return fmt.Sprintf("%s/%v", dbtSyncsOf(deployment), a.at("syncJobId")), fmt.Sprintf("dbt-sync-%v", a.at("syncJobId")), fmt.Sprint(a.at("branchName"))
	}
	path, object, branch := start(map[string]any{"ref": "v1.2", "options": map[string]any{"namePrefix": "shop_"}})
	if !strings.HasPrefix(branch, "dbt-sync/v1.2-") {
		t.Error(branch)
	}
	admin.call(t, "POST", dbtSyncsOf(deployment), map[string]any{"options": map[string]any{"typesFromCatalog": true}}).
		rejected(400, "options.typesFromCatalog", "spec.dbt.options.typesFromCatalog of deployment "+deployment+" is not true")
	pod := waitForDbtPod(t, object)
	if args := strings.Join(pod.job.Spec.Template.Spec.InitContainers[0].Args, " "); !strings.Contains(args, "--ref=v1.2 ") {
		t.Error(args)
	}
	if text := pod.deliver(map[string]any{"a": 1}); !strings.Contains(text, "400") || !strings.Contains(text, "not a manifest") {
		t.Error(text)
	}
	if text := pod.deliver(dbtManifest(t)); text != "" {
		t.Error(text)
	}
	pod.end(batchv1.JobSuccessCriteriaMet, batchv1.JobComplete)
	waitForDbtStatus(t, path, "COMPLETED")
	admin.call(t, "GET", path+"/result", nil).is(200).want("generatedFiles.0.path", "model/cubes/dbt/customers.yml")
	admin.call(t, "GET", dbtSyncsOf(deployment), nil).is(200).want("items.0.source", "git").want("items.0.gitRef", "v1.2").want("items.0.trigger", "api")
	if s := waitForDbtSync(t, object, "True", "cubes on branch "+branch); s.Status.GeneratedFiles < 5 || s.Status.Stage != "COMPLETED" || s.Status.CompletionTime == nil {
		t.Errorf("%+v", s.Status)
	}
	apiclient.Soon(t, func() error { // the list has it when the controller has fetched the repository
		if branches := admin.call(t, "GET", "/build/api/v1/deployments/"+deployment+"/branches", nil).is(200); !strings.Contains(string(branches.raw), branch) {
			return fmt.Errorf("no branch %s: %s", branch, branches.raw)
		}
		return nil
	})
	if text := pod.deliver(dbtManifest(t)); !strings.Contains(text, "401") {
		t.Errorf("a manifest is accepted after the end: %s", text)
	}

	path, object, _ = start(map[string]any{})
	waitForDbtPod(t, object).end(batchv1.JobFailureTarget, batchv1.JobFailed)
	waitForDbtStatus(t, path, "FAILED").want("error", "the Job has failed: some message")
	waitForDbtSync(t, object, "False", "some message")

	path, object, _ = start(map[string]any{"branchName": "review"})
	admin.call(t, "POST", dbtSyncsOf(deployment), map[string]any{"branchName": "review"}).rejected(409, "review", "is running")
	pod = waitForDbtPod(t, object)
	admin.call(t, "DELETE", path, nil).is(200)
	waitForDbtSync(t, object, "False", "cancelled")
	apiclient.Soon(t, func() error {
		if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(pod.job), pod.job); err == nil && pod.job.DeletionTimestamp.IsZero() {
			return errors.New("the Job of a cancelled sync still exists")
		}
		return nil
	})

	path, object, _ = start(map[string]any{})
	waitForDbtPod(t, object)
	if err := k8s.Delete(t.Context(), &v1alpha1.DbtSync{ObjectMeta: metav1.ObjectMeta{Namespace: acme.name, Name: object}}); err != nil {
		t.Fatal(err)
	}
	waitForDbtStatus(t, path, "FAILED").want("error", "the DbtSync of the sync was deleted")
}

// TestDbtSyncsOfKubectl: objects that users create, with a ConfigMap and with a Git repository.
func TestDbtSyncsOfKubectl(t *testing.T) {
	admin, deployment := acme.as(acme.admin), dbtProject(t, "dbt kubectl")
	data, err := json.Marshal(dbtManifest(t))
	if err != nil {
		t.Fatal(err)
	}
	apply := func(o client.Object) {
		t.Helper()
		o.SetNamespace(acme.name)
		if err := k8s.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = k8s.Delete(context.WithoutCancel(t.Context()), o) })
	}
	list := &v1alpha1.DeploymentList{}
	if err := k8s.List(t.Context(), list, client.InNamespace(acme.name), client.MatchingLabels{v1alpha1.LabelID: deployment}); err != nil || len(list.Items) != 1 {
		t.Fatal(err)
	}
	sync := func(name, branch string, source v1alpha1.DbtSource) *v1alpha1.DbtSync {
		return &v1alpha1.DbtSync{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.DbtSyncSpec{
			DeploymentRef: v1alpha1.LocalReference{Name: list.Items[0].Name}, Branch: branch, Source: source,
		}}
	}
	// What a DbtSync owns stays: there is no garbage collector. So each run has names of its own.
	own := func(name string) string { return name + "-" + deployment }
	apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: own("manifest")}, Data: map[string]string{"manifest.json": string(data)}})
	manifest := v1alpha1.DbtSource{Manifest: &v1alpha1.DbtManifestSource{ConfigMapRef: v1alpha1.LocalReference{Name: own("manifest")}}}
	apply(sync(own("from-manifest"), "review", manifest))
	s := waitForDbtSync(t, own("from-manifest"), "True", "cubes on branch review")
	admin.call(t, "GET", dbtSyncsOf(deployment)+"/"+s.Status.SyncJobID, nil).is(200).want("status", "COMPLETED")
	apply(sync(own("to-production"), v1alpha1.DefaultBranch, manifest))
	waitForDbtSync(t, own("to-production"), "False", "production branch")

	apply(sync(own("from-git"), "", v1alpha1.DbtSource{Git: &v1alpha1.DbtGitSource{URL: "https://git.example.com/dbt.git"}}))
	pod := waitForDbtPod(t, own("from-git"))
	if text := pod.deliver(dbtManifest(t)); text != "" {
		t.Error(text)
	}
	pod.end(batchv1.JobSuccessCriteriaMet, batchv1.JobComplete)
	s = waitForDbtSync(t, own("from-git"), "True", "cubes on branch dbt-sync/git-")
	if s.Status.SyncJobID != string(s.UID) || len(s.Status.Phases) != 3 {
		t.Errorf("%+v", s.Status)
	}
}

// dbtHooks sends the webhooks of the Git host of a dbt project.
type dbtHooks struct {
	*testing.T
	deployment, secret string
}

// newDbtHooks creates a deployment whose dbt project, on branch main, has a webhook secret.
func newDbtHooks(t *testing.T) *dbtHooks {
	t.Helper()
	h := &dbtHooks{t, create(t, acme, "dbt webhook"), "the secret of the dbt project"}
	name := "dbt-hooks-" + h.deployment
	if err := k8s.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: acme.name, Name: name}, StringData: map[string]string{"secret": h.secret}}); err != nil {
		t.Fatal(err)
	}
	setDbtProject(t, acme, h.deployment, v1alpha1.DbtSettings{
		Git: v1alpha1.DbtGitSource{URL: "https://git.example.com/dbt.git", Ref: "main"}, WebhookSecretRef: &v1alpha1.SecretKeyReference{Name: name, Key: "secret"},
	})
	apiclient.Soon(t, func() error { // the server has an index of the deployments
		if a := h.send("{}", "X-GitHub-Event", "ping"); a.status != 200 {
			return fmt.Errorf("status %d of a ping: %s", a.status, a.raw)
		}
		return nil
	})
	return h
}

func (h *dbtHooks) path() string { return "/build/api/v1/deployments/" + h.deployment + "/dbt-hook" }

// send sends a webhook that is signed as GitHub does.
func (h *dbtHooks) send(body string, headers ...string) *response {
	h.Helper()
	headers = append([]string{"X-Hub-Signature-256", "sha256=" + digits(sha256.New, h.secret, body)}, headers...)
	return caller{host: acme.host}.call(h.T, "POST", h.path(), body, headers...)
}

// push sends the push of a commit to a branch.
func (h *dbtHooks) push(branch, delivery string) *response {
	h.Helper()
	body := `{"ref":"refs/heads/` + branch + `","after":"0123456789abcdef0123456789abcdef01234567","repository":{"default_branch":"next"}}`
	return h.send(body, "X-GitHub-Event", "push", "X-GitHub-Delivery", delivery)
}

// syncs returns the syncs that pushes have started, newest first.
func (h *dbtHooks) syncs() []map[string]any {
	h.Helper()
	return acme.as(acme.admin).call(h.T, "GET", dbtSyncsOf(h.deployment)+"?trigger=webhook", nil).is(200).list("items")
}

// TestDbtSyncsOfPushes: a push to the branch of the dbt project starts a sync, once; further pushes wait for its
// end in one more.
func TestDbtSyncsOfPushes(t *testing.T) {
	h, admin := newDbtHooks(t), acme.as(acme.admin)
	for name, a := range map[string]*response{
		"another branch":     h.push("next", "a"),
		"the deletion of it": h.send(`{"ref":"refs/heads/main","after":"0000000000000000000000000000000000000000","deleted":true}`),
		"another event":      h.send(`{"ref":"refs/heads/main"}`, "X-GitHub-Event", "workflow_dispatch"),
	} {
		if a.is(200).at("syncJobId") != nil {
			t.Errorf("%s: %s", name, a.raw)
		}
	}
	h.send("[]").rejected(400, "push event")
	if got := h.syncs(); len(got) != 0 {
		t.Fatalf("%d syncs were started", len(got))
	}
	a := h.push("main", "1").is(202)
	first, branch := fmt.Sprint(a.at("syncJobId")), fmt.Sprint(a.at("branchName"))
	if !strings.HasPrefix(branch, "dbt-sync/main-") {
		t.Error(branch)
	}
	for range 2 {
		h.push("main", "1").is(200).want("syncJobId", first).want("branchName", branch)
	}
	if got := h.syncs(); len(got) != 1 || got[0]["trigger"] != "webhook" || got[0]["source"] != "git" || fmt.Sprint(got[0]["triggerContext"]) != "map[headSha:0123456789abcdef0123456789abcdef01234567 pushedBranch:main targetBranch:"+branch+"]" {
		t.Errorf("%v", got)
	}
	pod := waitForDbtPod(t, "dbt-sync-"+first)
	second := fmt.Sprint(h.push("main", "2").is(202).at("syncJobId"))
	for _, delivery := range []string{"2", "3", "3"} {
		h.push("main", delivery).is(200).want("syncJobId", second)
	}
	if second == first {
		t.Error("a push while the sync runs is not followed by another sync")
	}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: "dbt-sync-" + second}, &v1alpha1.DbtSync{}); !apierrors.IsNotFound(err) {
		t.Errorf("the second sync does not wait for the first: %v", err)
	}
	if text := pod.deliver(dbtManifest(t)); text != "" {
		t.Error(text)
	}
	pod.end(batchv1.JobSuccessCriteriaMet, batchv1.JobComplete)
	waitForDbtStatus(t, dbtSyncsOf(h.deployment)+"/"+first, "COMPLETED")
	waitForDbtPod(t, "dbt-sync-"+second)
	admin.call(t, "DELETE", dbtSyncsOf(h.deployment)+"/"+second, nil).is(200)
	h.push("main", "1").is(200).want("syncJobId", first)
	h.push("main", "3").is(200).want("syncJobId", second)
	admin.call(t, "GET", dbtSyncsOf(h.deployment)+"?trigger=api", nil).is(200)

	rows := eventsOf(t, acme, "Started dbt sync", h.deployment)
	if len(rows) != 2 {
		t.Errorf("%d events", len(rows))
	}
	for _, row := range rows {
		if !strings.HasPrefix(row["actor"], "system:dbt-hook/") || !strings.Contains(fmt.Sprint(row), "webhook") || strings.Contains(fmt.Sprint(row), h.secret) {
			t.Errorf("%v", row)
		}
	}
}

// TestInvalidDbtHooks: they are all rejected alike, and nothing is started.
func TestInvalidDbtHooks(t *testing.T) {
	const body = `{"ref":"refs/heads/main"}`
	h := newDbtHooks(t)
	signed := []string{"X-Hub-Signature-256", "sha256=" + digits(sha256.New, h.secret, body)}
	send := func(path, body string, headers ...string) *response {
		return caller{host: acme.host}.call(t, "POST", path, body, headers...)
	}
	other := strings.Replace(h.path(), h.deployment, acme.id, 1)
	rejected := map[string]*response{
		"no signature":               send(h.path(), body),
		"another secret":             send(h.path(), body, "X-Hub-Signature-256", "sha256="+digits(sha256.New, "another secret", body)),
		"another body":               send(h.path(), body+" ", signed...),
		"another token":              send(h.path(), body, "X-Gitlab-Token", h.secret+"x"),
		"a deployment without hooks": send(other, body, signed...),
		"no such deployment":         send(strings.Replace(h.path(), h.deployment, "999999", 1), body, signed...),
		"on the route of the model":  send(strings.Replace(h.path(), "dbt-hook", "git-hook", 1), body, signed...),
		"on another route":           send(dbtSyncsOf(h.deployment), body, signed...),
	}
	for name, a := range rejected {
		if a.rejected(401); a.header.Get("WWW-Authenticate") == "" || strings.Contains(string(a.raw), h.secret) {
			t.Errorf("%s: %s", name, a.raw)
		}
	}
	large := strings.Repeat(" ", 1<<20)
	send(h.path(), body+large, "X-Hub-Signature-256", "sha256="+digits(sha256.New, h.secret, body+large)).rejected(413, "1048576")
	if got := h.syncs(); len(got) != 0 {
		t.Errorf("%d syncs were started", len(got))
	}
	admin := acme.as(acme.admin)
	admin.call(t, "POST", strings.Replace(h.path(), h.deployment, create(t, acme, "dbt webhook, none"), 1), body).rejected(409, "spec.dbt")
	send(h.path(), body, "X-Gitlab-Token", h.secret, "X-Gitlab-Event", "Push Hook", "Idempotency-Key", "k").is(202)
}
