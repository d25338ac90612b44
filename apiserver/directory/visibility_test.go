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
)

// TestVisibility: what is being deleted and what lost its name is no resource; what kubectl has
// made is one.
func TestVisibility(t *testing.T) {
	r := newRoom(t)
	ctx := t.Context()
	object := func(name, userName string) *v1alpha1.ScimUser {
		u := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}, Spec: v1alpha1.ScimUserSpec{UserName: userName}}
		r.must(r.api.Create(ctx, u))
		r.eventually(func() bool { return r.d.users.visible(r.namespace, name) != nil })
		return u
	}
	byHand := object("by-hand", "Hand")
	if got := r.find(r.Tenant, r.Tenant.user, `userName eq "hand"`); !slices.Equal(got, []string{"by-hand"}) {
		t.Errorf("an object without a claim is not found: %v", got)
	}
	_, err := r.CreateResource(ctx, r.Tenant.user, schema.Document{"userName": "HAND"})
	wantError(t, err, http.StatusConflict, scimerror.Uniqueness)
	got, err := r.GetResource(ctx, r.Tenant.user, "by-hand", nil)
	r.must(err)
	if got.Document["active"] != true {
		t.Error("active is not shown as true")
	}

	group := r.group("G", "by-hand", "loser", "going", "never")
	loser := object("loser", "Loser")
	going := object("going", "Going")
	if got := r.shown(group.ID); !slices.Equal(got, []string{"by-hand", "going", "loser"}) {
		t.Errorf("members %v", got)
	}
	loser.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: v1alpha1.ReasonNameTaken, LastTransitionTime: metav1.Now()}}
	r.must(r.api.Status().Update(ctx, loser))
	r.must(r.api.Patch(ctx, going, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["test/hold"]}}`))))
	r.must(r.api.Delete(ctx, going))
	byHand.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "AccountNotFound", LastTransitionTime: metav1.Now()}}
	r.must(r.api.Status().Update(ctx, byHand))
	r.eventually(func() bool {
		return r.d.users.visible(r.namespace, "loser") == nil && r.d.users.visible(r.namespace, "going") == nil && r.d.users.records.of(r.namespace).len() == 1
	})
	r.wantGone(r.Tenant.user, "loser")
	r.wantGone(r.Tenant.user, "going")
	if got := r.find(r.Tenant, r.Tenant.user, ""); !slices.Equal(got, []string{"by-hand"}) {
		t.Errorf("users %v", got)
	}
	if got := r.shown(group.ID); !slices.Equal(got, []string{"by-hand"}) {
		t.Errorf("members %v", got)
	}
	for filter, want := range map[string][]string{
		`members.value eq "by-hand"`: {group.ID}, `members eq "loser"`: {}, `members.value eq "never"`: {},
		`displayName eq "g" and members.value eq "loser"`: {}, `not (members.value eq "never")`: {group.ID},
	} {
		if got := r.find(r.Tenant, r.Tenant.group, filter); !slices.Equal(got, want) {
			t.Errorf("%s finds %v, want %v", filter, got, want)
		}
	}
	r.must(r.api.Patch(ctx, going, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

// applied is what somebody has in Git.
func applied(kind, name string, spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec}
}

// apply applies as a program does.
func (r *room) apply(manager string, manifest map[string]any) {
	r.t.Helper()
	u := &unstructured.Unstructured{Object: manifest}
	u.SetNamespace(r.namespace)
	r.must(r.api.Apply(r.t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager)))
}

func (r *room) eventually(reached func() bool) {
	r.t.Helper()
	for end := time.Now().Add(10 * time.Second); !reached(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatal("it takes too long")
		}
	}
}

// TestTenantsAreApart: what belongs to another account does not exist.
func TestTenantsAreApart(t *testing.T) {
	r, other := newRoom(t), newRoom(t)
	u, g := r.user("u"), r.group("g")
	other.wantGone(other.Tenant.user, u.ID)
	other.wantGone(other.Tenant.group, g.ID)
	other.user("u")
	mine := other.group("g", u.ID)
	if got := other.shown(mine.ID); len(got) != 0 {
		t.Errorf("members of another tenant are shown: %v", got)
	}
	for _, rt := range r.ResourceTypes() {
		for _, filter := range []string{"", `id pr`, `externalId eq "x"`} {
			if got := other.find(other.Tenant, rt, filter); slices.Contains(got, u.ID) || slices.Contains(got, g.ID) {
				t.Errorf("%s %q finds those of another tenant", rt.Name, filter)
			}
		}
	}
	if got := other.find(other.Tenant, other.Tenant.user, `groups.value eq "`+g.ID+`"`); len(got) != 0 {
		t.Errorf("a group of another tenant has members: %v", got)
	}
}

// TestOwnedByGit: what a program applies is its own.
func TestOwnedByGit(t *testing.T) {
	r := newRoom(t)
	ctx := t.Context()
	apply := func(yaml map[string]any) {
		t.Helper()
		r.apply("argocd-controller", yaml)
	}
	apply(applied("ScimUser", "git", map[string]any{"userName": "git", "title": "T", "enterprise": map[string]any{"department": "D"}}))
	apply(applied("ScimGroup", "gitg", map[string]any{"displayName": "Git", "members": []any{map[string]any{"value": "git"}}}))
	apply(applied("ScimGroup", "gith", map[string]any{"displayName": "Git too"}))
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
		"members":                            r.change(r.Tenant, "gitg", func(s schema.Set) { s.Delete("git") }),
	} {
		wantError(t, err, http.StatusConflict, "")
		if err == nil || !strings.Contains(err.Error(), name+": ") || !strings.Contains(err.Error(), "argocd-controller") {
			t.Errorf("%s: says %v", name, err)
		}
	}
	r.wantClaims(map[string]string{})
	r.must(set(r.Tenant.user, "git", "nickName", "g"))
	r.must(r.change(r.Tenant, "gitg", func(s schema.Set) { put(s, "git", "more") })) // in chunks, beside
	r.must(r.change(r.Tenant, "gith", func(s schema.Set) { put(s, "git") }))
	if got := r.kept(r.Tenant, "gitg"); !slices.Equal(got, []string{"git", "more"}) {
		t.Errorf("members %v", got)
	}
	for rt, id := range map[*schema.ResourceType]string{r.Tenant.user: "git", r.Tenant.group: "gitg"} {
		err := r.DeleteResource(ctx, rt, id, pass)
		wantError(t, err, http.StatusConflict, "")
		if err == nil || !strings.Contains(err.Error(), "argocd-controller") {
			t.Errorf("says %v", err)
		}
	}
	r.must(r.api.Delete(ctx, &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "git"}}))
	r.eventually(func() bool { return r.d.users.visible(r.namespace, "git") == nil })
	r.wantGone(r.Tenant.user, "git")
}

// TestDeletedUserLeavesAllGroups, those that belong to a program included: there it is not shown.
func TestDeletedUserLeavesAllGroups(t *testing.T) {
	r := newRoom(t)
	ids := r.users("u", 3)
	one, two := r.group("one", ids...), r.group("two", ids[0])
	r.apply("argocd-controller", applied("ScimGroup", "gitg", map[string]any{"displayName": "Git", "members": []any{map[string]any{"value": ids[0]}, map[string]any{"value": ids[1]}}}))
	r.eventually(func() bool { return r.d.groups.visible(r.namespace, "gitg") != nil })
	r.must(r.DeleteResource(t.Context(), r.Tenant.user, ids[0], pass))
	for id, want := range map[string][]string{one.ID: ids[1:], two.ID: nil, "gitg": {ids[1]}} {
		if got := r.shown(id); !slices.Equal(got, sorted(want)) {
			t.Errorf("%s shows %v, want %v", id, got, want)
		}
	}
	for id, want := range map[string][]string{one.ID: ids[1:], two.ID: nil, "gitg": ids[:2]} {
		if got := r.kept(r.Tenant, id); !slices.Equal(got, sorted(want)) {
			t.Errorf("%s keeps %v, want %v", id, got, want)
		}
	}
	sub := r.group("sub")
	r.must(r.change(r.Tenant, one.ID, func(s schema.Set) { put(s, sub.ID) }))
	r.must(r.DeleteResource(t.Context(), r.Tenant.group, sub.ID, pass))
	if got := r.kept(r.Tenant, one.ID); !slices.Equal(got, sorted(ids[1:])) {
		t.Errorf("keeps a group that is gone: %v", got)
	}
}

func sorted(ids []string) []string {
	copied := slices.Clone(ids)
	slices.Sort(copied)
	return copied
}
