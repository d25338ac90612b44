package contract_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

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
		"source git":         {map[string]any{}, 400, []string{"source", "git", "manifest"}},
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
	admin.call(t, "POST", dbtSyncsOf(acme.id), body(map[string]any{"output": "branch"})).rejected(409, "spec.model") // its model is in Git
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
