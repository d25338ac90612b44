package contract_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// creation returns the body that the command-line client sends.
func creation(name string) map[string]any {
	return map[string]any{
		"name": name, "region": "here", "cloudProvider": "cubecloud", "targetPlatform": "aws", "isManaged": true, "creationStep": "project",
	}
}

// create creates a deployment over REST and deletes it at the end of the test.
func create(t *testing.T, a *account, name string) string {
	t.Helper()
	id, _ := a.as(a.admin).call(t, "POST", "/build/api/v1/deployments", creation(name)).is(200).at("id").(string)
	t.Cleanup(func() {
		list := &v1alpha1.DeploymentList{}
		if err := k8s.List(context.Background(), list, client.InNamespace(a.name), client.MatchingLabels{v1alpha1.LabelID: id}); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if err := k8s.Delete(context.Background(), &list.Items[i]); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
		}
		awaitUnlisted(t, a, id)
	})
	return id
}

// awaitUnlisted waits until the list of deployments, which is read from a cache, does not have a deleted one.
func awaitUnlisted(t *testing.T, a *account, id string) {
	t.Helper()
	isDeleted := func(d map[string]any) bool { return d["id"] == id }
	for range 100 {
		if !slices.ContainsFunc(a.as(a.admin).call(t, "GET", "/api/v1/deployments?first=100", nil).is(200).list("items"), isDeleted) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("deployment %s is deleted and still listed", id)
}

// object returns the Deployment with an id.
func object(t *testing.T, a *account, id string) *v1alpha1.Deployment {
	t.Helper()
	list := &v1alpha1.DeploymentList{}
	if err := k8s.List(t.Context(), list, client.InNamespace(a.name), client.MatchingLabels{v1alpha1.LabelID: id}); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("%d deployments have the id %s", len(list.Items), id)
	}
	return &list.Items[0]
}

// Spec: "List deployments".
func TestDeploymentsAreListedInBothShapes(t *testing.T) {
	admin := acme.as(acme.admin)
	a := admin.call(t, "GET", "/api/v1/deployments", nil).is(200)
	a.want("data.deployments.0.id", acme.id).want("data.deployments.0.name", "analytics")
	a.want("pagination.offset", 0.0).want("pagination.limit", 20.0).want("pagination.total", 1.0)
	created, _ := a.at("data.deployments.0.created_at").(string)
	if _, err := time.Parse(time.RFC3339, created); err != nil {
		t.Errorf("created_at is %q, want an ISO 8601 timestamp", created)
	}
	t.Run("items and pageInfo", func(t *testing.T) {
		a := admin.call(t, "GET", "/api/v1/deployments?first=1", nil).is(200)
		a.want("items.0.id", acme.id).want("items.0.deploymentUrl", "https://analytics.data.acme.example.com").want("items.0.creationStep", "ready")
		a.want("pageInfo.hasNextPage", false).want("pageInfo.hasPreviousPage", false)
	})
	t.Run("trailing slash", func(t *testing.T) {
		admin.call(t, "GET", "/api/v1/deployments/", nil).is(200).want("items.0.id", acme.id)
	})
	t.Run("filter by creationStep", func(t *testing.T) {
		if n := len(admin.call(t, "GET", "/api/v1/deployments?creationStep=project&creationStep=upload", nil).is(200).list("items")); n != 0 {
			t.Errorf("%d deployments with the step project or upload, want none", n)
		}
		admin.call(t, "GET", "/api/v1/deployments?creationStep=ready&creationStep=demo", nil).is(200).want("items.0.id", acme.id)
	})
}

func TestDeploymentsArePaged(t *testing.T) {
	admin := globex.as(globex.admin)
	want := []string{globex.id}
	for i := range 4 {
		want = append(want, create(t, globex, fmt.Sprintf("Page %d", i)))
	}
	t.Run("by offset and limit", func(t *testing.T) {
		var got []string
		for offset := 0; offset < 6; offset += 2 {
			a := admin.call(t, "GET", fmt.Sprintf("/api/v1/deployments?offset=%d&limit=2", offset), nil).is(200)
			a.want("pagination.total", 5.0).want("pagination.limit", 2.0).want("pagination.offset", float64(offset))
			for _, d := range a.list("data.deployments") {
				got = append(got, d["id"].(string))
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("the pages have %v, want %v", got, want)
		}
	})
	t.Run("by cursor", func(t *testing.T) {
		var got []string
		after := ""
		for range 3 {
			a := admin.call(t, "GET", "/api/v1/deployments?first=2"+after, nil).is(200)
			for _, d := range a.list("items") {
				got = append(got, d["id"].(string))
			}
			after = fmt.Sprintf("&after=%s", a.at("pageInfo.endCursor"))
			a.want("pageInfo.hasNextPage", len(got) < 5)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("the pages have %v, want %v", got, want)
		}
	})
	t.Run("an empty page", func(t *testing.T) {
		if n := len(admin.call(t, "GET", "/api/v1/deployments?limit=0", nil).is(200).list("data.deployments")); n != 0 {
			t.Errorf("limit=0 returns %d deployments", n)
		}
		admin.call(t, "GET", "/api/v1/deployments?offset=99", nil).is(200).want("pagination.total", 5.0)
	})
}

// A name is reserved before a deployment gets it, and is free again at once.
func TestConcurrentRenamesToOneName(t *testing.T) {
	admin, name := globex.as(globex.admin), map[string]any{"name": "Renamed at once"}
	const many = 4
	ids := make([]string, many)
	for i := range ids {
		ids[i] = create(t, globex, fmt.Sprint("To be renamed ", i))
	}
	type outcome struct {
		id string
		a  *response
	}
	done := make(chan outcome, many)
	for _, id := range ids {
		go func() { done <- outcome{id, admin.call(t, "PUT", "/api/v1/deployments/"+id, name)} }()
	}
	var renamed, rejected []string
	for range many {
		o := <-done
		if o.a.status == 200 {
			renamed = append(renamed, o.id)
			continue
		}
		o.a.rejected(409, "name", "Renamed at once")
		rejected = append(rejected, o.id)
	}
	if len(renamed) != 1 {
		t.Fatalf("%v have the name, want one of them", renamed)
	}
	admin.call(t, "PUT", "/api/v1/deployments/"+renamed[0], map[string]any{"name": "Renamed again"}).is(200)
	admin.call(t, "PUT", "/api/v1/deployments/"+rejected[0], name).is(200).want("name", "Renamed at once")
	admin.call(t, "DELETE", "/api/v1/deployments/"+rejected[0], nil).is(200)
	create(t, globex, "Renamed at once")
}

func TestInvalidParametersAreRejected(t *testing.T) {
	admin := acme.as(acme.admin)
	for query, words := range map[string][]string{
		"offset=-1":            {"offset", "-1"},
		"limit=-1":             {"limit", "-1"},
		"limit=abc":            {"limit", "abc"},
		"limit=1001":           {"limit", "1001", "1000"},
		"limit=1e2":            {"limit"},
		"first=0":              {"first"},
		"first=1001":           {"first", "1000"},
		"after=%21":            {"after"},
		"offset=0&first=1":     {"offset", "first"},
		"limit=1&after=MQ":     {"limit", "after"},
		"offset=1&offset=2":    {"offset"},
		"colour=red":           {"colour"},
		"creationStep=nowhere": {"creationStep", "nowhere", "project"},
	} {
		t.Run(query, func(t *testing.T) {
			admin.call(t, "GET", "/api/v1/deployments?"+query, nil).rejected(400, words...)
		})
	}
	t.Run("type of environments", func(t *testing.T) {
		admin.call(t, "GET", "/api/v1/deployments/"+acme.id+"/environments?type=test", nil).rejected(400, "type", "test", "production")
	})
}

func TestDeploymentIsReadByID(t *testing.T) {
	admin := acme.as(acme.admin)
	admin.call(t, "GET", "/api/v1/deployments/"+acme.id, nil).is(200).want("id", acme.id).want("name", "analytics")
	admin.call(t, "GET", "/api/v1/deployments/"+acme.id+"/", nil).is(200)
	admin.call(t, "GET", "/api/v1/deployments/999", nil).rejected(404, "999")
	admin.call(t, "GET", "/api/v1/deployments/analytics", nil).rejected(400, "deploymentId", "analytics")
	admin.call(t, "GET", "/api/v1/deployments/01", nil).rejected(404)
	admin.call(t, "PATCH", "/api/v1/deployments/"+acme.id, nil).rejected(405, "PATCH", "GET", "PUT", "DELETE")
	admin.call(t, "GET", "/api/v1/nothing", nil).rejected(404)
}

// Contract: "Deployment Creation", and `cube deployments create`.
func TestDeploymentIsCreated(t *testing.T) {
	admin := acme.as(acme.admin)
	id := create(t, acme, "Q3 Reports")
	a := admin.call(t, "GET", "/api/v1/deployments/"+id, nil).is(200)
	a.want("name", "Q3 Reports").want("creationStep", "project").want("deploymentUrl", "https://q3-reports.data.acme.example.com")
	d := object(t, acme, id)
	if d.Name != "q3-reports" || d.Spec.DisplayName != "Q3 Reports" || d.Spec.ReleaseChannel != "latest" {
		t.Errorf("the object is %s: %+v", d.Name, d.Spec)
	}
	apiclient.Soon(t, func() error {
		if d := object(t, acme, id); d.Status.CurrentVersion != "1.2.3" {
			return fmt.Errorf("the deployment runs %q: %v", d.Status.CurrentVersion, d.Status.Conditions)
		}
		return nil
	})
	if d.Spec.Model.Repository == nil || d.Spec.Model.ConfigMapRef != nil {
		t.Errorf("the model is in %+v", d.Spec.Model)
	}
	t.Run("the name is unique, ignoring case", func(t *testing.T) {
		admin.call(t, "POST", "/build/api/v1/deployments", creation("q3 reports")).rejected(409, "name", "q3 reports")
	})
	t.Run("names that map to the same object name", func(t *testing.T) {
		other := create(t, acme, "Q3: Reports!")
		if got := object(t, acme, other).Name; got != "q3-reports-2" {
			t.Errorf("the name of the object is %q", got)
		}
	})
	t.Run("names without a letter", func(t *testing.T) {
		if got := object(t, acme, create(t, acme, "2026 – Σ")).Name; got != "d-2026" {
			t.Errorf("the name of the object is %q", got)
		}
	})
	t.Run("creation steps", func(t *testing.T) {
		admin.call(t, "POST", "/api/v1/deployments/"+id+"/creation-step/advance", map[string]any{"creationStep": "databases"}).is(200).want("creationStep", "databases")
		admin.call(t, "POST", "/api/v1/deployments/"+id+"/creation-step/reset", nil).is(200).want("creationStep", "project")
		admin.call(t, "POST", "/api/v1/deployments/"+id+"/creation-step/advance", map[string]any{"creationStep": "moon"}).rejected(400, "creationStep", "moon", "databases")
	})
}

func TestInvalidDeploymentsAreNotCreated(t *testing.T) {
	admin := acme.as(acme.admin)
	for name, c := range map[string]struct {
		change map[string]any
		words  []string
	}{
		"no name":               {map[string]any{"name": nil}, []string{"name"}},
		"empty name":            {map[string]any{"name": ""}, []string{"name"}},
		"name with white space": {map[string]any{"name": " x"}, []string{"name", "white space"}},
		"long name":             {map[string]any{"name": strings.Repeat("x", 129)}, []string{"name", "128"}},
		"name is a number":      {map[string]any{"name": 7}, []string{"name", "string"}},
		"unknown region":        {map[string]any{"region": "mars"}, []string{"region", "mars", "here"}},
		"other provider":        {map[string]any{"cloudProvider": "aws"}, []string{"cloudProvider", "aws", "cubecloud"}},
		"not managed":           {map[string]any{"isManaged": false}, []string{"isManaged"}},
		"unknown deploy mode":   {map[string]any{"deployMode": "ftp"}, []string{"deployMode", "cli"}},
		"an image":              {map[string]any{"image": "evil:v1"}, []string{"image"}},
		"unknown field":         {map[string]any{"colour": "red"}, []string{"colour"}},
	} {
		t.Run(name, func(t *testing.T) {
			body := creation("Rejected")
			for key, value := range c.change {
				if body[key] = value; value == nil {
					delete(body, key)
				}
			}
			admin.call(t, "POST", "/build/api/v1/deployments", body).rejected(400, c.words...)
		})
	}
	list := &v1alpha1.DeploymentList{}
	if err := k8s.List(t.Context(), list, client.InNamespace(acme.name)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if strings.Contains(list.Items[i].DisplayName(), "Rejected") {
			t.Errorf("%s was created", list.Items[i].Name)
		}
	}
}

func TestDeploymentIsDeletedAndItsIDNotReused(t *testing.T) {
	admin := acme.as(acme.admin)
	id := create(t, acme, "Short-lived")
	d := object(t, acme, id)
	admin.call(t, "DELETE", "/api/v1/deployments/"+id, nil).is(200).want("success", true)
	admin.call(t, "GET", "/api/v1/deployments/"+id, nil).rejected(404)
	admin.call(t, "DELETE", "/api/v1/deployments/"+id, nil).rejected(404)
	for _, item := range admin.call(t, "GET", "/api/v1/deployments?first=100", nil).is(200).list("items") {
		if item["id"] == id {
			t.Error("the list still has the deployment")
		}
	}
	if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(d), d); !apierrors.IsNotFound(err) {
		t.Errorf("the object still exists: %v", err)
	}
	if next := create(t, acme, "Short-lived"); next == id {
		t.Errorf("the id %s was reused", id)
	}
}

// Contract: "GET D/settings" and "PUT D": null and absent fields change nothing.
func TestSettingsAreUpdatedPartially(t *testing.T) {
	admin := acme.as(acme.admin)
	admin.call(t, "GET", "/api/v1/deployments/"+acme.id+"/settings", nil).is(200).
		want("id", acme.id).want("name", "analytics").want("releaseChannel", "latest").want("releaseChannelVersionHold", false).
		want("cubeImageVersion", "1.2.3").want("releaseChannelVersion", imageRepository+":v1.2.3").want("deployMode", "git").
		want("deployBranchName", "main").want("template", "single").want("region", "here").want("isCold", false)
	id := create(t, acme, "Settings")
	path := "/api/v1/deployments/" + id
	admin.call(t, "PUT", path, map[string]any{
		"name": "Renamed", "template": "single", "templateVariables": map[string]any{"replicas": 3}, "customDomain": "Cube.Acme.Example",
	}).is(200).want("name", "Renamed").want("templateVariables.replicas", 3.0).want("customDomain", "cube.acme.example")
	generation := object(t, acme, id).Generation
	for _, body := range []any{nil, map[string]any{}, map[string]any{"name": nil, "customDomain": nil, "templateVariables": map[string]any{}}, map[string]any{"name": "Renamed"}} {
		admin.call(t, "PUT", path, body).is(200).want("name", "Renamed").want("customDomain", "cube.acme.example")
	}
	if after := object(t, acme, id).Generation; after != generation {
		t.Errorf("requests without changes were written: generation %d, was %d", after, generation)
	}
	t.Run("read-only fields are accepted with their current value", func(t *testing.T) {
		admin.call(t, "PUT", path, map[string]any{"region": "here", "cloudProvider": "cubecloud", "deployMode": "cli", "creationMethod": "upload"}).is(200).want("creationMethod", "upload")
		admin.call(t, "PUT", path, map[string]any{"region": "mars"}).rejected(400, "region", "mars", "here")
		admin.call(t, "PUT", path, map[string]any{"deployMode": "git"}).rejected(400, "deployMode", "cli")
		admin.call(t, "PUT", path, map[string]any{"cloudProvider": "gcp"}).rejected(400, "cloudProvider", "cubecloud")
	})
	admin.call(t, "PUT", path, map[string]any{"customDomain": ""}).is(200).want("customDomain", nil)
	for name, c := range map[string]struct {
		body  map[string]any
		words []string
	}{
		"image":             {map[string]any{"cubeImageCloud": "x"}, []string{"cubeImageCloud"}},
		"unsupported":       {map[string]any{"cspsConfig": map[string]any{}}, []string{"cspsConfig"}},
		"unknown variable":  {map[string]any{"templateVariables": map[string]any{"colour": 1}}, []string{"templateVariables", "colour"}},
		"template":          {map[string]any{"template": "multiCluster"}, []string{"template", "multiCluster", "simpleCluster"}},
		"too many replicas": {map[string]any{"templateVariables": map[string]any{"replicas": 101}}, []string{"replicas", "101"}},
		"invalid branch":    {map[string]any{"deployBranchName": "a..b"}, []string{"model.repository.branch", "Git branch"}},
		"name of another":   {map[string]any{"name": "analytics"}, nil},
		"invalid domain":    {map[string]any{"customDomain": "a b"}, []string{"customDomain"}},
	} {
		t.Run(name, func(t *testing.T) {
			status := 400
			if c.words == nil {
				status = 409
			}
			admin.call(t, "PUT", path, c.body).rejected(status, c.words...)
		})
	}
	if d := object(t, acme, id); d.Spec.DisplayName != "Renamed" || d.Spec.Size != "" {
		t.Errorf("a rejected request changed the spec: %+v", d.Spec)
	}
}

// A domain that another tenant has is a conflict; which tenant has it is not disclosed.
func TestCustomDomainOfAnotherTenantIsRejected(t *testing.T) {
	const domain = "taken.example.net"
	holder := create(t, globex, "Holder")
	globex.as(globex.admin).call(t, "PUT", "/api/v1/deployments/"+holder, map[string]any{"customDomain": domain}).is(200)
	apiclient.Soon(t, func() error {
		if held := object(t, globex, holder).Status.CustomDomain; held != domain {
			return fmt.Errorf("the deployment holds %q", held)
		}
		return nil
	})
	id := create(t, acme, "Rival")
	for _, host := range []string{domain, domain + ":8443", globex.domain, globex.host, "x.data." + globex.host} {
		problem := acme.as(acme.admin).call(t, "PUT", "/api/v1/deployments/"+id, map[string]any{"customDomain": host})
		problem.rejected(409, "customDomain", "already in use")
		if strings.Contains(string(problem.raw), `"globex"`) || strings.Contains(string(problem.raw), "Holder") {
			t.Errorf("the answer discloses the holder: %s", problem.raw)
		}
	}
	own := "own.data." + acme.host
	acme.as(acme.admin).call(t, "PUT", "/api/v1/deployments/"+id, map[string]any{"customDomain": own}).is(200).want("customDomain", own)
}

func TestBuildStatusOfABranch(t *testing.T) {
	admin := acme.as(acme.admin)
	path := "/api/v1/deployments/" + acme.id + "/build-status"
	a := admin.call(t, "GET", path, nil).is(200).want("status", "built").want("branchName", "main").want("mode", "production").want("deploymentId", acme.id)
	if hash, _ := a.at("lastHash").(string); !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(hash) {
		t.Errorf("lastHash is %q", hash)
	}
	admin.call(t, "GET", path+"?branchName=", nil).is(200).want("branchName", "main")
	admin.call(t, "GET", path+"?branchName=gone", nil).is(200).want("errorText", "Bad branch")
	admin.call(t, "GET", path+"?branchName=next", nil).is(200).want("status", "none").want("errorText", "Branch is not active")
}

// A pull triggers an immediate fetch, and reports whether there are new commits.
func TestPullFetchesImmediately(t *testing.T) {
	admin := acme.as(acme.admin)
	path := "/build/api/v1/deployments/" + acme.id + "/pull"
	admin.call(t, "POST", path, nil).is(200).want("buildTriggered", false)
	admin.call(t, "POST", path, map[string]any{"branchName": "next"}).is(200).want("buildTriggered", false)
	admin.call(t, "POST", path, map[string]any{"branchName": "gone"}).rejected(404, "gone")
	admin.call(t, "POST", path, map[string]any{"branch": "next"}).rejected(400, "branch")
	id := create(t, acme, "Nothing to pull")
	admin.call(t, "POST", "/build/api/v1/deployments/"+id+"/pull", nil).is(200).want("buildTriggered", false)
}

func TestBuildStatusReportsARejectedModel(t *testing.T) {
	admin := acme.as(acme.admin)
	path := "/api/v1/deployments/" + acme.id + "/build-status"
	setModel := func(failed *v1alpha1.FailedModel) {
		t.Helper()
		d := object(t, acme, acme.id)
		before := d.DeepCopy()
		d.Status.FailedModel = failed
		if err := k8s.Status().Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	head, _ := admin.call(t, "GET", path, nil).is(200).at("lastHash").(string)
	setModel(&v1alpha1.FailedModel{
		Commit: head, Image: object(t, acme, acme.id).Status.CurrentImage, Generation: object(t, acme, acme.id).Generation,
		Reason: v1alpha1.ReasonModelBroken, Message: "orders.yml: bad",
	})
	defer setModel(nil)
	admin.call(t, "GET", path, nil).is(200).want("status", "failed").want("errorText", "orders.yml: bad").want("lastHash", head).want("deploymentStatus", "ModelBroken")
}

// A client can use the production environment as soon as the creation is answered.
func TestCreatedDeploymentHasItsProductionEnvironment(t *testing.T) {
	for i := range 3 {
		id := create(t, acme, fmt.Sprintf("At once %d", i))
		listed := acme.as(acme.admin).call(t, "GET", "/api/v1/deployments/"+id+"/environments", nil).is(200)
		listed.want("items.0.type", "production")
		environment, _ := listed.at("items.0.id").(string)
		acme.as(acme.admin).call(t, "POST", "/api/v1/deployments/"+id+"/environments/"+environment+"/tokens-for-meta-sync",
			map[string]any{"security_context": map[string]any{}}).is(200)
	}
}
