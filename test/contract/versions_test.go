package contract_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// Spec: "List versions of a deployment".
func TestVersionsOfChannelsAreListed(t *testing.T) {
	a := acme.as(acme.admin).call(t, "GET", "/api/v1/deployments/"+acme.id+"/versions", nil).is(200)
	for _, list := range []string{"data", "items"} {
		a.want(list+".0.releaseChannelVersion", imageRepository+":v1.2.3").want(list+".0.version", "1.2.3").
			want(list+".0.releaseChannel", "latest").want(list+".0.isLatestInChannel", true).want(list+".0.isCurrent", true)
		a.want(list+".1.version", "1.1.0").want(list+".1.releaseChannel", "release").want(list+".1.isCurrent", false)
		if n := len(a.list(list)); n != 2 {
			t.Errorf("%s has %d versions, want the head of each channel: %s", list, n, a.raw)
		}
	}
	a = acme.as(acme.admin).call(t, "GET", "/api/v1/deployments/"+acme.id+"/versions?first=1", nil).is(200).want("pageInfo.hasNextPage", true)
	next := fmt.Sprintf("/api/v1/deployments/%s/versions?first=1&after=%s", acme.id, a.at("pageInfo.endCursor"))
	acme.as(acme.admin).call(t, "GET", next, nil).is(200).want("items.0.version", "1.1.0").want("pageInfo.hasNextPage", false)
}

// runs waits until the production environment of a deployment runs a version.
func runs(t *testing.T, a *account, id, version string) {
	t.Helper()
	apiclient.Soon(t, func() error {
		if d := object(t, a, id); d.Status.CurrentVersion != version {
			return fmt.Errorf("deployment %s runs %q, want %q: %v", id, d.Status.CurrentVersion, version, d.Status.Conditions)
		}
		return nil
	})
}

// Spec: "Update a deployment (version switch)", each written form, and the rejections.
func TestVersionIsSwitched(t *testing.T) {
	admin := globex.as(globex.admin)
	id := create(t, globex, "Versions")
	path := "/api/v1/deployments/" + id
	runs(t, globex, id, "1.2.3")
	for _, written := range []string{"1.1.0", "v1.1.0", imageRepository + ":v1.1.0"} {
		t.Run(written, func(t *testing.T) {
			body := map[string]any{"releaseChannel": "release", "releaseChannelVersion": written}
			admin.call(t, "PUT", path, body).is(200).want("releaseChannelVersion", imageRepository+":v1.1.0").want("releaseChannelVersionHold", false)
			runs(t, globex, id, "1.1.0")
			admin.call(t, "GET", path+"/versions", nil).is(200).want("data.1.version", "1.1.0").want("data.1.isCurrent", true)
			t.Run("releaseChannel alone selects its newest version", func(t *testing.T) {
				admin.call(t, "PUT", path, map[string]any{"releaseChannel": "latest"}).is(200).
					want("releaseChannel", "latest").want("releaseChannelVersionHold", false)
				runs(t, globex, id, "1.2.3")
			})
		})
	}
	t.Run("a version that is not its channel's newest is held", func(t *testing.T) {
		admin.call(t, "PUT", path, map[string]any{"releaseChannelVersion": imageRepository + ":v1.1.0"}).is(200).want("releaseChannelVersionHold", true)
		runs(t, globex, id, "1.1.0")
		admin.call(t, "PUT", path, map[string]any{"releaseChannelVersion": imageRepository + ":v1.1.0", "releaseChannelVersionHold": false}).
			is(200).want("releaseChannelVersionHold", false)
		admin.call(t, "PUT", path, map[string]any{"releaseChannelVersionHold": true}).is(200).want("releaseChannelVersionHold", true)
		admin.call(t, "PUT", path, map[string]any{"releaseChannel": "latest"}).is(200)
		runs(t, globex, id, "1.2.3")
	})
	for name, c := range map[string]struct {
		body  map[string]any
		words []string
	}{
		"not on the list":     {map[string]any{"releaseChannelVersion": "9.9.9"}, []string{"releaseChannelVersion", "9.9.9", "1.2.3"}},
		"never run, not head": {map[string]any{"releaseChannelVersion": "1.2.2"}, []string{"1.2.2", "1.2.3"}},
		"not a version":       {map[string]any{"releaseChannelVersion": "newest"}, []string{"newest"}},
		"empty":               {map[string]any{"releaseChannelVersion": ""}, []string{"releaseChannelVersion"}},
		"a number":            {map[string]any{"releaseChannelVersion": 1.2}, []string{"releaseChannelVersion", "string"}},
		"foreign repository":  {map[string]any{"releaseChannelVersion": "evil.example.com/cube:v1.2.3"}, []string{"evil.example.com/cube:v1.2.3"}},
		"unknown channel":     {map[string]any{"releaseChannel": "nightly"}, []string{"releaseChannel", "nightly", "latest", "release"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := object(t, globex, id).Generation
			admin.call(t, "PUT", path, c.body).rejected(400, c.words...)
			if now := object(t, globex, id).Generation; now != before {
				t.Error("the spec has changed")
			}
		})
	}
}

// Decision 5: a field that Argo CD owns cannot be changed over REST.
func TestFieldsOwnedByGitOpsAreNotChanged(t *testing.T) {
	admin := acme.as(acme.admin)
	applied := fmt.Sprintf(`{"apiVersion":%q,"kind":"Deployment","metadata":{"name":"gitops","namespace":%q},
		"spec":{"releaseChannel":"latest","releaseChannelVersion":"1.2.3","model":{"configMapRef":{"name":"none"}},"env":[{"name":"A","value":"1"}]}}`,
		v1alpha1.GroupVersion.String(), acme.name)
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: acme.name, Name: "gitops"}}
	if err := k8s.Patch(t.Context(), d, client.RawPatch(types.ApplyPatchType, []byte(applied)), client.FieldOwner("argocd-controller")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k8s.Delete(t.Context(), d) })
	id := ""
	apiclient.Soon(t, func() error {
		err := k8s.Get(t.Context(), client.ObjectKeyFromObject(d), d)
		if id = d.Status.ID; err == nil && id == "" {
			err = fmt.Errorf("no id yet: %v", d.Status.Conditions)
		}
		return err
	})
	path := "/api/v1/deployments/" + id
	admin.call(t, "PUT", path, map[string]any{"releaseChannelVersion": imageRepository + ":v1.1.0"}).
		rejected(409, "spec.releaseChannelVersion", "argocd-controller", "Git")
	admin.call(t, "PUT", path, map[string]any{"releaseChannel": "release"}).rejected(409, "argocd-controller")
	admin.call(t, "PUT", path+"/env-vars", map[string]any{"env_variables": []any{map[string]any{"name": "A", "value": "2"}}}).
		rejected(409, "env", "A", "argocd-controller")
	admin.call(t, "PUT", path+"/env-vars", map[string]any{"env_variables": []any{map[string]any{"name": "A", "value": "2"}, map[string]any{"name": "A_TOKEN", "value": "rejected"}}}).
		rejected(409, "env", "A", "argocd-controller")
	held := &corev1.Secret{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: "gitops-variables"}, held); client.IgnoreNotFound(err) != nil || len(held.Data) > 0 {
		t.Errorf("the Secret has the values of a rejected request: %d, %v", len(held.Data), err)
	}
	admin.call(t, "POST", "/build"+path+"/github/connect", map[string]any{"installationId": 1, "name": "other"}).rejected(409, "spec.model", "argocd-controller")
	if hooks := githubHost.Installations[1].Repositories["other"].Hooks; len(hooks) > 0 {
		t.Errorf("GitHub has been changed: %v", hooks)
	}
	admin.call(t, "DELETE", path, nil).rejected(409, "argocd-controller")
	t.Run("fields without an owner are changed", func(t *testing.T) {
		admin.call(t, "PUT", path, map[string]any{"name": "Git Ops"}).is(200).want("name", "Git Ops")
		admin.call(t, "PUT", path+"/env-vars", map[string]any{"env_variables": []any{map[string]any{"name": "B", "value": "2"}}}).is(200)
	})
	t.Run("fields set with kubectl are changed", func(t *testing.T) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"displayName":"Typed"}}`))
		if err := k8s.Patch(t.Context(), d, patch, client.FieldOwner("kubectl-edit")); err != nil {
			t.Fatal(err)
		}
		admin.call(t, "PUT", path, map[string]any{"name": "Again"}).is(200).want("name", "Again")
	})
	if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
		t.Fatal(err)
	}
	if spec, _ := json.Marshal(d.Spec); d.Spec.ReleaseChannelVersion != "1.2.3" || d.Spec.ReleaseChannel != "latest" || len(d.Spec.Env) != 2 {
		t.Errorf("the spec is %s", spec)
	}
}

// A request that is refused in one part changes nothing: not the other parts either.
func TestRefusedUpdateChangesNothing(t *testing.T) {
	id := create(t, acme, "One write")
	before := object(t, acme, id)
	admin := acme.as(acme.admin)
	for part, body := range map[string]map[string]any{
		"releaseChannelVersion": {"creationMethod": "ssh", "releaseChannelVersion": "9.9.9"},
		"releaseChannel":        {"creationMethod": "ssh", "name": "Other", "releaseChannel": "none"},
		"repository.branch":     {"creationMethod": "ssh", "deployBranchName": "a..b"},
		"customDomain":          {"creationMethod": "ssh", "customDomain": "not a host"},
		"templateVariables":     {"creationMethod": "ssh", "templateVariables": map[string]any{"replicas": 101}},
	} {
		admin.call(t, "PUT", "/api/v1/deployments/"+id, body).rejected(400, part)
		after := object(t, acme, id)
		if method := after.Annotations["platform.quoin.dev/creation-method"]; method != "" || after.Generation != before.Generation {
			t.Errorf("%s: creation method %q, generation %d instead of %d", part, method, after.Generation, before.Generation)
		}
	}
	admin.call(t, "PUT", "/api/v1/deployments/"+id, map[string]any{"creationMethod": "ssh", "templateVariables": map[string]any{"replicas": 3}}).
		is(200).want("creationMethod", "ssh").want("templateVariables.replicas", 3.0)
}

// The values of clients that a deployment has as annotations are recorded like its fields: the event has what changed. A request
// that changes nothing has no event.
func TestChangesOfAnnotationsAreRecorded(t *testing.T) {
	id := create(t, acme, "Annotated")
	path, admin := "/api/v1/deployments/"+id, acme.as(acme.admin)
	for range 2 {
		admin.call(t, "PUT", path, map[string]any{"creationMethod": "ssh"}).is(200).want("creationMethod", "ssh")
		admin.call(t, "POST", path+"/creation-step/advance", map[string]any{"creationStep": "databases"}).is(200)
	}
	admin.call(t, "PUT", path, map[string]any{"creationMethod": "upload", "template": "single"}).is(200)
	var got []string
	for _, row := range eventsOf(t, acme, "Updated deployment configuration", id) {
		got = append(got, row["outcome"]+" "+row["data"])
	}
	event := func(name, change string) string {
		return fmt.Sprintf(`succeeded {"objectId":%q,"changes":{"metadata.annotations.platform.quoin.dev/%s":{%s}}}`, id, name, change)
	}
	want := []string{
		event("creation-method", `"after":"ssh"`),
		event("creation-step", `"after":"databases","before":"project"`),
		event("creation-method", `"after":"upload","before":"ssh"`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
