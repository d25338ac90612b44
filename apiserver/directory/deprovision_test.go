package directory

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimtest"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/fieldowner"
	"github.com/quoin-dev/quoin/internal/kube"
)

// appliers are the field managers of tools that apply manifests with server-side apply.
var appliers = []string{"kubectl", "argocd-controller", "kustomize-controller"}

// reapply applies a manifest like a tool that takes over conflicting fields, as Argo CD and Flux do.
func (r *fixture) reapply(manager string, manifest map[string]any) {
	r.t.Helper()
	u := &unstructured.Unstructured{Object: manifest}
	u.SetNamespace(r.namespace)
	r.must(r.api.Apply(r.t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager), client.ForceOwnership))
}

// update applies a manifest like client-side kubectl apply: the whole object, with Update as operation.
func (r *fixture) update(manifest map[string]any) {
	r.t.Helper()
	u := &unstructured.Unstructured{Object: manifest}
	u.SetNamespace(r.namespace)
	err := r.api.Create(r.t.Context(), u.DeepCopy(), client.FieldOwner("kubectl-client-side-apply"))
	if apierrors.IsAlreadyExists(err) {
		err = r.api.Patch(r.t.Context(), u, client.Merge, client.FieldOwner("kubectl-client-side-apply"))
	}
	r.must(err)
}

// set sets attributes of a resource over SCIM.
func (r *fixture) set(rt *schema.ResourceType, id string, attributes schema.Document) error {
	_, err := r.ReplaceResource(r.t.Context(), rt, id, func(u *schema.Resource) (schema.Document, error) {
		for name, value := range attributes {
			u.Document[name] = value
		}
		return u.Document, nil
	})
	return err
}

// storedUser returns a user from the API server.
func (r *fixture) storedUser(name string) *v1alpha1.ScimUser {
	r.t.Helper()
	u := &v1alpha1.ScimUser{}
	r.must(r.api.Get(r.t.Context(), client.ObjectKey{Namespace: r.namespace, Name: name}, u))
	return u
}

// wantActive checks whether a user is active, for keys and tokens as well as over SCIM.
func (r *fixture) wantActive(name string, want bool) {
	r.t.Helper()
	u, err := r.GetResource(r.t.Context(), r.Tenant.user, name, nil)
	r.must(err)
	if got := u.Document["active"]; got != want || r.storedUser(name).IsActive() != want {
		r.t.Errorf("%s: active is %v over SCIM, %v for keys and tokens, want %v", name, got, r.storedUser(name).IsActive(), want)
	}
	r.eventually(func() bool {
		inactive := slices.Contains(r.find(r.Tenant, r.Tenant.user, "active eq false"), name)
		active := slices.Contains(r.find(r.Tenant, r.Tenant.user, "active eq true"), name)
		return inactive == !want && active == want
	})
}

// TestDeactivationWinsOverManifests: a user whose manifest is applied by a tool is deactivated over SCIM.
// Applying the manifest again does not activate it, whether it contains active or not.
func TestDeactivationWinsOverManifests(t *testing.T) {
	r := newFixture(t)
	apply := map[string]func(map[string]any){"kubectl-client-side-apply": r.update}
	for _, manager := range appliers {
		apply[manager] = func(m map[string]any) { r.reapply(manager, m) }
	}
	for manager, apply := range apply {
		for i, active := range []any{true, nil} {
			name := fmt.Sprint(manager, i)
			yaml := func() map[string]any {
				spec := map[string]any{"userName": name, "title": "T"}
				if active != nil {
					spec["active"] = active
				}
				return manifest("ScimUser", name, spec)
			}
			apply(yaml())
			r.wantActive(name, true)
			r.must(r.set(r.Tenant.user, name, schema.Document{"active": false}))
			r.wantActive(name, false)
			apply(yaml())
			r.wantActive(name, false)
			apply(manifest("ScimUser", name, map[string]any{"userName": name, "title": "T", "active": true}))
			r.wantActive(name, false)
			r.must(r.set(r.Tenant.user, name, schema.Document{"active": true}))
			r.wantActive(name, true)
			apply(yaml())
			r.wantActive(name, true)
		}
	}
}

// TestActivationOverSCIMLiftsOnlyItsOwnDeactivation: a manifest with active: false stays in effect.
func TestActivationOverSCIMLiftsOnlyItsOwnDeactivation(t *testing.T) {
	r := newFixture(t)
	yaml := func(active bool) map[string]any {
		return manifest("ScimUser", "git", map[string]any{"userName": "git", "active": active})
	}
	r.apply("argocd-controller", yaml(true))
	r.must(r.set(r.Tenant.user, "git", schema.Document{"active": false}))
	r.apply("argocd-controller", yaml(false))
	wantError(t, r.set(r.Tenant.user, "git", schema.Document{"active": true}), http.StatusConflict, "")
	r.wantActive("git", false)
	r.apply("argocd-controller", yaml(true))
	r.wantActive("git", false) // the SCIM client has not activated it
	r.must(r.set(r.Tenant.user, "git", schema.Document{"active": true}))
	r.wantActive("git", true)
	r.apply("argocd-controller", yaml(false))
	r.wantActive("git", false)
}

// TestDeactivationWinsWithinARequest: a request that deactivates a user and also changes an attribute of
// the manifest is rejected, but the user is deactivated. The same applies to the deletion of the user.
func TestDeactivationWinsWithinARequest(t *testing.T) {
	r := newFixture(t)
	for name, request := range map[string]func(string) error{
		"put": func(id string) error {
			return r.set(r.Tenant.user, id, schema.Document{"active": false, "title": "other"})
		},
		"delete": func(id string) error { return r.DeleteResource(t.Context(), r.Tenant.user, id, pass) },
	} {
		r.apply("argocd-controller", manifest("ScimUser", name, map[string]any{"userName": name, "title": "T"}))
		err := request(name)
		wantError(t, err, http.StatusConflict, "")
		if err == nil || !strings.Contains(err.Error(), "argocd-controller") || !strings.Contains(err.Error(), "deactivated") {
			t.Errorf("%s: got %v", name, err)
		}
		r.wantActive(name, false)
		if u := r.storedUser(name); u.Spec.Title != "T" {
			t.Errorf("%s: title is %q", name, u.Spec.Title)
		}
		before := r.storedUser(name)
		wantError(t, request(name), http.StatusConflict, "") // repeated
		if after := r.storedUser(name); after.ResourceVersion != before.ResourceVersion {
			t.Errorf("%s: the repeated request wrote %+v", name, after.Spec)
		}
	}
}

// TestDeactivationOfInactiveUsers: a SCIM client deactivates, or deletes, a user whose manifest has active: false. The user stays
// inactive when the manifest has active: true. A change of another attribute does not deactivate the user.
func TestDeactivationOfInactiveUsers(t *testing.T) {
	r := newFixture(t)
	ctx := fieldowner.With(t.Context(), fieldowner.SCIM)
	set := func(id, name string, value any) error {
		_, err := r.ReplaceResource(ctx, r.Tenant.user, id, func(u *schema.Resource) (schema.Document, error) {
			u.Document[name] = value
			return u.Document, nil
		})
		return err
	}
	for name, deactivate := range map[string]func(id string) error{
		"patch": func(id string) error { return set(id, "active", false) },
		"delete": func(id string) error {
			err := r.DeleteResource(ctx, r.Tenant.user, id, pass)
			wantError(t, err, http.StatusConflict, "")
			return nil
		},
	} {
		yaml := func(active bool) map[string]any {
			return manifest("ScimUser", name, map[string]any{"userName": name, "active": active})
		}
		r.apply("argocd-controller", yaml(false))
		r.must(set(name, "title", "T"))
		if u := r.storedUser(name); u.Spec.DeprovisionTime != nil || u.Spec.Title != "T" {
			t.Errorf("%s: after the change of the title: %+v", name, u.Spec)
		}
		var versions []string
		for range 2 {
			r.must(deactivate(name))
			versions = append(versions, r.storedUser(name).ResourceVersion)
		}
		if versions[0] != versions[1] {
			t.Errorf("%s: the repeated deactivation wrote", name)
		}
		r.apply("argocd-controller", yaml(true))
		r.wantActive(name, false)
		r.must(set(name, "active", true))
		r.wantActive(name, true)
	}
}

// TestRemovalOfMembersWinsOverManifests: a member that a manifest lists is removed over SCIM. Applying the
// manifest again does not add it.
func TestRemovalOfMembersWinsOverManifests(t *testing.T) {
	r := newFixture(t)
	ids := r.users("u", 3)
	apply := map[string]func(map[string]any){"kubectl-client-side-apply": r.update}
	for _, manager := range appliers {
		apply[manager] = func(m map[string]any) { r.reapply(manager, m) }
	}
	for manager, apply := range apply {
		yaml := func(ids ...string) map[string]any {
			return manifest("ScimGroup", manager, map[string]any{"displayName": manager, "members": memberList(ids...)})
		}
		want := func(members ...string) {
			t.Helper()
			if got := r.visibleMembers(manager); !slices.Equal(got, sorted(members)) {
				t.Errorf("%s: members are %v, want %v", manager, got, members)
			}
			for _, id := range ids {
				r.eventually(func() bool {
					u, err := r.GetResource(t.Context(), r.Tenant.user, id, nil)
					r.must(err)
					groups := fmt.Sprint(u.Document["groups"])
					return strings.Contains(groups, manager) == slices.Contains(members, id) &&
						slices.Contains(r.find(r.Tenant, r.Tenant.group, `members.value eq "`+id+`"`), manager) == slices.Contains(members, id)
				})
			}
		}
		apply(yaml(ids[:2]...))
		want(ids[:2]...)
		r.must(r.change(r.Tenant, manager, func(s schema.Set) { s.Delete(ids[0]) }))
		want(ids[1])
		apply(yaml(ids[:2]...))
		want(ids[1])
		r.must(r.change(r.Tenant, manager, func(s schema.Set) { scimtest.AddMembers(s, ids[2]) }))
		want(ids[1:]...)
		r.must(r.change(r.Tenant, manager, func(s schema.Set) { scimtest.AddMembers(s, ids[0]) }))
		want(ids...)
		r.must(r.change(r.Tenant, manager, func(s schema.Set) { s.Clear() }))
		want()
		apply(yaml(ids[:2]...))
		want()
	}
}

// TestRemovalOfMembersWinsWithinARequest: a request that removes members and also changes an attribute of the
// manifest is rejected, but the members are removed, and none is added.
func TestRemovalOfMembersWinsWithinARequest(t *testing.T) {
	r := newFixture(t)
	ids := r.users("u", 4)
	for name, request := range map[string]func(s schema.Set) any{
		"patch": func(s schema.Set) any { s.Delete(ids[0]); s.Delete(ids[2]); scimtest.AddMembers(s, ids[3]); return s },
		"put":   func(schema.Set) any { return memberList(ids[1], ids[3]) },
	} {
		r.apply("argocd-controller", manifest("ScimGroup", name, map[string]any{"displayName": name, "members": memberList(ids[:2]...)}))
		r.must(r.change(r.Tenant, name, func(s schema.Set) { scimtest.AddMembers(s, ids[2]) })) // in a chunk
		_, err := r.ReplaceResource(t.Context(), r.Tenant.group, name, func(g *schema.Resource) (schema.Document, error) {
			g.Document["displayName"] = "other " + name
			g.Document["members"] = request(g.Document["members"].(schema.Set))
			return g.Document, nil
		})
		wantError(t, err, http.StatusConflict, "")
		if got := r.visibleMembers(name); !slices.Equal(got, ids[1:2]) {
			t.Errorf("%s: members are %v, want %v", name, got, ids[1:2])
		}
		claim := client.ObjectKey{Namespace: r.namespace, Name: claims.GroupName.Name("other " + name)}
		if err := r.api.Get(t.Context(), claim, &v1alpha1.Claim{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: the claim on the rejected name: %v", name, err)
		}
	}
}

// TestDeactivationIsOneWrite: the deactivation of a user whose manifest is applied by a tool is one write.
func TestDeactivationIsOneWrite(t *testing.T) {
	r := newFixture(t)
	r.apply("argocd-controller", manifest("ScimUser", "git", map[string]any{"userName": "git", "active": true}))
	before := r.storedUser("git").Generation
	r.must(r.set(r.Tenant.user, "git", schema.Document{"active": false}))
	if after := r.storedUser("git").Generation; after != before+1 {
		t.Errorf("generation is %d after %d", after, before)
	}
	for range 2 { // repeated requests write nothing
		version := r.storedUser("git").ResourceVersion
		r.must(r.set(r.Tenant.user, "git", schema.Document{"active": false}))
		if got := r.storedUser("git").ResourceVersion; got != version {
			t.Error("the repeated deactivation wrote")
		}
	}
}

// TestFreedNamesAreCounted: authentication looks again for users without a ScimUser after one of the namespace has lost its name.
func TestFreedNamesAreCounted(t *testing.T) {
	m := newMemory(t)
	u := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "ada"}, Spec: v1alpha1.ScimUserSpec{UserName: "ada@example.com"}}
	for i, c := range []struct {
		change func()
		freed  uint64
	}{
		{func() { m.put(u) }, 0},
		{func() { u.Spec.Active = new(false); m.put(u) }, 0},
		{func() { u.Spec.UserName = "ADA@example.com"; m.put(u) }, 0},
		{func() { u.Spec.UserName = "ada@example.org"; m.put(u) }, 1},
		{func() { m.users.changed(m.users.cached("acme", "ada"), nil) }, 2},
	} {
		c.change()
		if got := m.UsersFreed("acme"); got != c.freed || m.UsersFreed("globex") != 0 {
			t.Errorf("change %d: %d names are freed, want %d", i, got, c.freed)
		}
	}
	if found := m.UsersNamed("acme", "ada@example.org"); len(found) != 0 {
		t.Errorf("found %+v", found)
	}
}

// TestReplacedUsersStayInactive: keys and tokens of a deactivated user whose object kubectl replace has replaced by its manifest
// are rejected, before the controller has restored the deactivation.
func TestReplacedUsersStayInactive(t *testing.T) {
	m := newMemory(t)
	u := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "ada"}, Spec: v1alpha1.ScimUserSpec{UserName: "ada@example.com", Active: new(true)}}
	u.Status.DeprovisionTime = new(metav1.Unix(1, 0))
	m.put(u)
	if found := m.UsersNamed("acme", "Ada@example.com"); len(found) != 1 || found[0].IsActive() {
		t.Errorf("found %+v, want one inactive user", found)
	}
	u.Annotations = map[string]string{v1alpha1.AnnotationModified: "2 2026-01-01T00:00:00Z"} // activated over SCIM
	m.put(u)
	if found := m.UsersNamed("acme", "Ada@example.com"); len(found) != 1 || !found[0].IsActive() {
		t.Errorf("found %+v, want one active user", found)
	}
}

// TestUsersBeingDeletedAreInactive: keys and tokens of a user who was deleted are rejected while a finalizer keeps the object. The
// cache keeps what shows it.
func TestUsersBeingDeletedAreInactive(t *testing.T) {
	m := newMemory(t)
	u := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "ada", Finalizers: []string{"example.com/kept"}}, Spec: v1alpha1.ScimUserSpec{UserName: "ada@example.com"}}
	for _, deleted := range []*metav1.Time{nil, new(metav1.Unix(1, 0))} {
		u.DeletionTimestamp = deleted
		m.put(u)
		if found := m.UsersNamed("acme", "ada@example.com"); len(found) != 1 || found[0].IsActive() != (deleted == nil) {
			t.Errorf("deleted at %v: found %+v", deleted, found)
		}
	}
}

// TestReplacedUsersBeforeTheController: a deactivated user whose object kubectl replace has replaced is shown as inactive before the
// controller has restored the deactivation. Other changes restore it, and an activation over SCIM ends it.
func TestReplacedUsersBeforeTheController(t *testing.T) {
	r := newFixture(t)
	id := r.user("ada@example.com").ID
	r.must(r.set(r.Tenant.user, id, schema.Document{"active": false}))
	status := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"deprovisionTime":"2026-01-01T00:00:00Z"}}`))
	r.must(r.api.Status().Patch(t.Context(), r.storedUser(id), status))
	for name, c := range map[string]struct {
		change func() error
		active bool
	}{
		"title": {func() error { return r.set(r.Tenant.user, id, schema.Document{"title": "T"}) }, false},
		"settings": {func() error {
			_, err := r.d.ChangeUser(t.Context(), r.namespace, id, func(u *v1alpha1.ScimUser) error {
				u.Spec.Settings = &v1alpha1.UserSettings{Theme: "dark"}
				return nil
			})
			return err
		}, false},
		"deactivation": {func() error { return r.set(r.Tenant.user, id, schema.Document{"active": false}) }, false},
		"activation":   {func() error { return r.set(r.Tenant.user, id, schema.Document{"active": true}) }, true},
	} {
		t.Log(name)
		replaced := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: id, ResourceVersion: r.storedUser(id).ResourceVersion}}
		replaced.Spec = v1alpha1.ScimUserSpec{UserName: "ada@example.com", Active: new(true)}
		r.must(r.api.Update(t.Context(), replaced, client.FieldOwner("kubectl-replace")))
		r.wantActive(id, false)
		r.must(c.change())
		r.wantActive(id, c.active)
		if u := r.storedUser(id); !v1alpha1.HasSCIMWrite(u) || u.Spec.IsActive() != c.active {
			t.Errorf("%s: stored %+v", name, u.Spec)
		}
	}
}

// TestReplacedGroupsKeepTheirRemovals: members that a SCIM client has removed from a group are not members after kubectl replace has
// replaced the object by its manifest, before the controller has restored the removal.
func TestReplacedGroupsKeepTheirRemovals(t *testing.T) {
	m := newMemory(t)
	g := &v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "staff"}, Spec: v1alpha1.ScimGroupSpec{DisplayName: "Staff"}}
	g.Spec.Members = []v1alpha1.ScimMember{{Value: "ada"}, {Value: "bob"}}
	g.Status.RemovedMembers = []string{"bob", "eve"}
	m.put(g)
	referrers := func(id string) []*v1alpha1.ScimGroup {
		return m.view(t.Context(), "acme", schema.Group, nil).referrers(id, nil)
	}
	if ada, bob := referrers("ada"), referrers("bob"); len(ada) != 1 || len(bob) != 0 {
		t.Errorf("groups of ada: %v, of bob: %v", ada, bob)
	}
	g.Annotations = map[string]string{v1alpha1.AnnotationModified: "2 2026-01-01T00:00:00Z"} // added over SCIM
	m.put(g)
	if bob := referrers("bob"); len(bob) != 1 {
		t.Errorf("groups of bob, who was added again: %v", bob)
	}
}

// TestReplacedGroupsBeforeTheController: a group whose object was replaced is shown without the members that a SCIM client has removed,
// before the controller has restored the removal. Other changes restore it, and adding the member over SCIM ends it.
func TestReplacedGroupsBeforeTheController(t *testing.T) {
	r := newFixture(t)
	ids := r.users("u", 3)
	r.apply("argocd-controller", manifest("ScimGroup", "staff", map[string]any{"displayName": "staff", "members": memberList(ids[:2]...)}))
	r.must(r.change(r.Tenant, "staff", func(s schema.Set) { s.Delete(ids[0]) }))
	stored := func() *v1alpha1.ScimGroup {
		t.Helper()
		g := &v1alpha1.ScimGroup{}
		r.must(r.api.Get(t.Context(), client.ObjectKey{Namespace: r.namespace, Name: "staff"}, g))
		return g
	}
	status := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"removedMembers":["`+ids[0]+`"]}}`))
	r.must(r.api.Status().Patch(t.Context(), stored(), status))
	want := func(members ...string) {
		t.Helper()
		if got := r.visibleMembers("staff"); !slices.Equal(got, sorted(members)) {
			t.Errorf("members are %v, want %v", got, members)
		}
	}
	replace := func() {
		t.Helper()
		replaced := &v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "staff", ResourceVersion: stored().ResourceVersion}}
		replaced.Spec = v1alpha1.ScimGroupSpec{DisplayName: "staff", Members: []v1alpha1.ScimMember{{Value: ids[0]}, {Value: ids[1]}}}
		r.must(r.api.Update(t.Context(), replaced, client.FieldOwner("argocd-controller")))
		want(ids[1])
		r.eventually(func() bool {
			return len(r.find(r.Tenant, r.Tenant.group, `members.value eq "`+ids[0]+`"`)) == 0 &&
				len(r.find(r.Tenant, r.Tenant.group, `members.value eq "`+ids[1]+`"`)) == 1
		})
	}
	for name, c := range map[string]struct {
		change           func() error
		members, removed []string
	}{
		"another member": {func() error {
			return r.change(r.Tenant, "staff", func(s schema.Set) { scimtest.AddMembers(s, ids[2]) })
		}, ids[1:], ids[:1]},
		"the member": {func() error {
			return r.change(r.Tenant, "staff", func(s schema.Set) { scimtest.AddMembers(s, ids[0]) })
		}, ids[:2], nil},
		"a rejected request": {func() error {
			err := r.set(r.Tenant.group, "staff", schema.Document{"displayName": "other", "members": []any{}})
			wantError(t, err, http.StatusConflict, "")
			return nil
		}, nil, ids[:2]},
	} {
		t.Log(name)
		replace()
		r.must(c.change())
		want(c.members...)
		if g := stored(); !v1alpha1.HasSCIMWrite(g) || !slices.Equal(g.Spec.RemovedMembers, sorted(c.removed)) {
			t.Errorf("%s: stored %+v", name, g.Spec)
		}
	}
	replace()
	r.must(r.DeleteResource(t.Context(), r.Tenant.user, ids[1], pass))
	want()
	if g := stored(); !slices.Contains(g.Spec.RemovedMembers, ids[0]) {
		t.Errorf("after the deletion of another member: stored %+v", g.Spec)
	}
}

// TestRestoredDeactivationEndsOverSCIM: after the controller has restored a deactivation that kubectl replace removed, a
// SCIM client activates the user as before.
func TestRestoredDeactivationEndsOverSCIM(t *testing.T) {
	r := newFixture(t)
	r.update(map[string]any{"apiVersion": "platform.quoin.dev/v1alpha1", "kind": "ScimUser", "metadata": map[string]any{"name": "ada"}, "spec": map[string]any{"userName": "ada@example.com"}})
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"deprovisionTime":"2026-01-01T00:00:00Z"}}`))
	r.must(r.api.Patch(t.Context(), r.storedUser("ada"), patch, client.FieldOwner("quoin-scimuser")))
	r.wantActive("ada", false)
	r.must(r.set(r.Tenant.user, "ada", schema.Document{"active": true}))
	r.wantActive("ada", true)
}

// TestDeletionIsRecordedAgain: the controller deletes the record of a user who is still active, just before the user is deleted.
func TestDeletionIsRecordedAgain(t *testing.T) {
	r := newFixture(t)
	u := r.user("ada@example.com")
	c := interceptor.NewClient(r.api, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if user, isUser := o.(*v1alpha1.ScimUser); isUser {
				r.must(claims.EnsureDeprovisioned(ctx, kube.NewClient(r.api, r.api, "quoin-test"), user))
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	on := r.replica(c).Of(r.account)
	r.must(on.DeleteResource(t.Context(), on.user, u.ID, pass))
	if got, err := claims.IsDeprovisioned(t.Context(), r.api, r.namespace, "ada@example.com"); err != nil || !got {
		t.Errorf("recorded: %t, %v", got, err)
	}
}
