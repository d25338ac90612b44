package directory

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/apiserver/scim/scimtest"
)

// TestVisibility checks that objects that are being deleted or lost their name are not resources, and
// that objects created with kubectl are.
func TestVisibility(t *testing.T) {
	r := newFixture(t)
	ctx := t.Context()
	object := func(name, userName string) *v1alpha1.ScimUser {
		u := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}, Spec: v1alpha1.ScimUserSpec{UserName: userName}}
		r.must(r.api.Create(ctx, u))
		r.eventually(func() bool { return r.d.users.visible(r.namespace, name) != nil })
		return u
	}
	applied := object("applied", "Applied")
	if got := r.find(r.Tenant, r.Tenant.user, `userName eq "applied"`); !slices.Equal(got, []string{"applied"}) {
		t.Errorf("got %v, want the object without a claim", got)
	}
	_, err := r.CreateResource(ctx, r.Tenant.user, schema.Document{"userName": "APPLIED"})
	wantError(t, err, http.StatusConflict, scimerror.Uniqueness)
	got, err := r.GetResource(ctx, r.Tenant.user, "applied", nil)
	r.must(err)
	if got.Document["active"] != true {
		t.Error("active is not true")
	}

	group := r.group("G", "applied", "loser", "going", "never")
	loser := object("loser", "Loser")
	going := object("going", "Going")
	if got := r.visibleMembers(group.ID); !slices.Equal(got, []string{"applied", "going", "loser"}) {
		t.Errorf("members %v", got)
	}
	loser.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: v1alpha1.ReasonNameTaken, LastTransitionTime: metav1.Now()}}
	r.must(r.api.Status().Update(ctx, loser))
	r.must(r.api.Patch(ctx, going, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["test/hold"]}}`))))
	r.must(r.api.Delete(ctx, going))
	applied.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "AccountNotFound", LastTransitionTime: metav1.Now()}}
	r.must(r.api.Status().Update(ctx, applied))
	r.eventually(func() bool {
		return r.d.users.visible(r.namespace, "loser") == nil && r.d.users.visible(r.namespace, "going") == nil && r.d.users.records.of(r.namespace).len() == 1
	})
	r.wantNotFound(r.Tenant.user, "loser")
	r.wantNotFound(r.Tenant.user, "going")
	if got := r.find(r.Tenant, r.Tenant.user, ""); !slices.Equal(got, []string{"applied"}) {
		t.Errorf("users %v", got)
	}
	if got := r.visibleMembers(group.ID); !slices.Equal(got, []string{"applied"}) {
		t.Errorf("members %v", got)
	}
	for filter, want := range map[string][]string{
		`members.value eq "applied"`: {group.ID}, `members eq "loser"`: {}, `members.value eq "never"`: {},
		`displayName eq "g" and members.value eq "loser"`: {}, `not (members.value eq "never")`: {group.ID},
	} {
		if got := r.find(r.Tenant, r.Tenant.group, filter); !slices.Equal(got, want) {
			t.Errorf("%s finds %v, want %v", filter, got, want)
		}
	}
	r.must(r.api.Patch(ctx, going, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

// manifest returns the manifest of an object.
func manifest(kind, name string, spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec}
}

// apply applies a manifest with server-side apply, like a GitOps tool.
func (r *fixture) apply(manager string, manifest map[string]any) {
	r.t.Helper()
	u := &unstructured.Unstructured{Object: manifest}
	u.SetNamespace(r.namespace)
	r.must(r.api.Apply(r.t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager)))
}

func (r *fixture) eventually(reached func() bool) {
	r.t.Helper()
	for end := time.Now().Add(10 * time.Second); !reached(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatal("timeout")
		}
	}
}

// TestTenantIsolation checks that resources of another account do not exist.
func TestTenantIsolation(t *testing.T) {
	r, other := newFixture(t), newFixture(t)
	u, g := r.user("u"), r.group("g")
	other.wantNotFound(other.Tenant.user, u.ID)
	other.wantNotFound(other.Tenant.group, g.ID)
	other.user("u")
	g2 := other.group("g", u.ID)
	if got := other.visibleMembers(g2.ID); len(got) != 0 {
		t.Errorf("members of another tenant are shown: %v", got)
	}
	for _, rt := range r.ResourceTypes() {
		for _, filter := range []string{"", `id pr`, `externalId eq "x"`} {
			if got := other.find(other.Tenant, rt, filter); slices.Contains(got, u.ID) || slices.Contains(got, g.ID) {
				t.Errorf("%s %q returns resources of another tenant", rt.Name, filter)
			}
		}
	}
	if got := other.find(other.Tenant, other.Tenant.user, `groups.value eq "`+g.ID+`"`); len(got) != 0 {
		t.Errorf("a group of another tenant has members: %v", got)
	}
}

// TestGitOpsOwnership checks that fields and objects owned by a GitOps tool cannot be changed or deleted.
func TestGitOpsOwnership(t *testing.T) {
	r := newFixture(t)
	ctx := t.Context()
	apply := func(yaml map[string]any) {
		t.Helper()
		r.apply("argocd-controller", yaml)
	}
	apply(manifest("ScimUser", "git", map[string]any{"userName": "git", "title": "T", "enterprise": map[string]any{"department": "D"}}))
	apply(manifest("ScimGroup", "gitg", map[string]any{"displayName": "Git", "members": []any{map[string]any{"value": "git"}}}))
	apply(manifest("ScimGroup", "gith", map[string]any{"displayName": "Git too"}))
	r.eventually(func() bool {
		return r.d.groups.visible(r.namespace, "gith") != nil && r.d.users.visible(r.namespace, "git") != nil
	})
	set := func(rt *schema.ResourceType, id, name string, value any) error {
		_, err := r.ReplaceResource(ctx, rt, id, func(u *schema.Resource) (schema.Document, error) {
			u.Document[name] = value
			return u.Document, nil
		})
		return err
	}
	for name, err := range map[string]error{
		"title":                              set(r.Tenant.user, "git", "title", "other"),
		"userName":                           set(r.Tenant.user, "git", "userName", "other"),
		schema.EnterpriseURN + ":department": set(r.Tenant.user, "git", schema.EnterpriseURN, map[string]any{"department": "E"}),
	} {
		wantError(t, err, http.StatusConflict, "")
		if err == nil || !strings.Contains(err.Error(), name+": ") || !strings.Contains(err.Error(), "argocd-controller") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	r.wantClaims(map[string]string{})
	r.must(set(r.Tenant.user, "git", "nickName", "g"))
	r.must(r.change(r.Tenant, "gitg", func(s schema.Set) { scimtest.AddMembers(s, "git", "more") })) // stored in a chunk
	r.must(r.change(r.Tenant, "gith", func(s schema.Set) { scimtest.AddMembers(s, "git") }))
	if got := r.storedMembers(r.Tenant, "gitg"); !slices.Equal(got, []string{"git", "more"}) {
		t.Errorf("members %v", got)
	}
	for rt, id := range map[*schema.ResourceType]string{r.Tenant.user: "git", r.Tenant.group: "gitg"} {
		err := r.DeleteResource(ctx, rt, id, pass)
		wantError(t, err, http.StatusConflict, "")
		if err == nil || !strings.Contains(err.Error(), "argocd-controller") {
			t.Errorf("got %v", err)
		}
	}
	r.must(r.api.Delete(ctx, &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "git"}}))
	r.eventually(func() bool { return r.d.users.visible(r.namespace, "git") == nil })
	r.wantNotFound(r.Tenant.user, "git")
}

// TestDeletedUserIsRemovedFromGroups checks that a deleted user is removed from all groups, including those
// owned by a GitOps tool.
func TestDeletedUserIsRemovedFromGroups(t *testing.T) {
	r := newFixture(t)
	ids := r.users("u", 3)
	one, two := r.group("one", ids...), r.group("two", ids[0])
	r.apply("argocd-controller", manifest("ScimGroup", "gitg", map[string]any{"displayName": "Git", "members": []any{map[string]any{"value": ids[0]}, map[string]any{"value": ids[1]}}}))
	r.eventually(func() bool { return r.d.groups.visible(r.namespace, "gitg") != nil })
	r.must(r.DeleteResource(t.Context(), r.Tenant.user, ids[0], pass))
	for id, want := range map[string][]string{one.ID: ids[1:], two.ID: nil, "gitg": {ids[1]}} {
		if got := r.visibleMembers(id); !slices.Equal(got, sorted(want)) {
			t.Errorf("%s: visible members %v, want %v", id, got, want)
		}
	}
	for id, want := range map[string][]string{one.ID: ids[1:], two.ID: nil, "gitg": {ids[1]}} {
		if got := r.storedMembers(r.Tenant, id); !slices.Equal(got, sorted(want)) {
			t.Errorf("%s: stored members %v, want %v", id, got, want)
		}
	}
	sub := r.group("sub")
	r.must(r.change(r.Tenant, one.ID, func(s schema.Set) { scimtest.AddMembers(s, sub.ID) }))
	r.must(r.DeleteResource(t.Context(), r.Tenant.group, sub.ID, pass))
	if got := r.storedMembers(r.Tenant, one.ID); !slices.Equal(got, sorted(ids[1:])) {
		t.Errorf("a deleted group is still a member: %v", got)
	}
}

func sorted(ids []string) []string {
	copied := slices.Clone(ids)
	slices.Sort(copied)
	return copied
}

// TestNewerCopies checks which of two copies of an object a filter with several lookups uses.
func TestNewerCopies(t *testing.T) {
	object := func(uid types.UID, created, generation int64) *v1alpha1.ScimUser {
		return &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{UID: uid, CreationTimestamp: metav1.Unix(created, 0), Generation: generation}}
	}
	deleted, again, changed := object("a", 1, 5), object("b", 2, 1), object("b", 2, 2)
	for _, pair := range [][2]*v1alpha1.ScimUser{{nil, deleted}, {deleted, again}, {again, changed}} { // the second one is newer
		if got := newer(pair[0], pair[1]); got != pair[1] {
			t.Errorf("got %+v", got.ObjectMeta)
		}
		if pair[0] != nil && newer(pair[1], pair[0]) != pair[1] {
			t.Errorf("in the other order: not %+v", pair[1].ObjectMeta)
		}
	}
}
