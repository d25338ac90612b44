package scimuser

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/lastmodified"
)

// deactivated creates a user that a SCIM client has deactivated, and reconciles it.
func (f *fixture) deactivated(name string) *v1alpha1.ScimUser {
	f.Helper()
	u := f.user(name, v1alpha1.ScimUserSpec{UserName: name + "@example.com", Title: "Engineer"})
	u.Spec.DeprovisionTime = new(metav1.Unix(1, 0))
	lastmodified.Stamp(u, time.Now())
	f.must(f.api.Update(f.Context(), u))
	u, _ = f.mustReconcile(name)
	return u
}

// replace replaces a user by a manifest, as kubectl replace does.
func (f *fixture) replace(u *v1alpha1.ScimUser, spec v1alpha1.ScimUserSpec) *v1alpha1.ScimUser {
	f.Helper()
	spec.UserName = u.Spec.UserName
	replaced := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: u.Namespace, Name: u.Name, ResourceVersion: u.ResourceVersion}, Spec: spec}
	f.must(f.api.Update(f.Context(), replaced))
	return replaced
}

// TestReplacedUsersStayInactive: a user that a SCIM client has deactivated stays inactive after the object has been
// replaced by its manifest, such as with kubectl replace or by Argo CD with Replace=true.
func TestReplacedUsersStayInactive(t *testing.T) {
	f := newFixture(t)
	u := f.deactivated("ann")
	for range 2 { // a sync replaces it again and again
		u = f.replace(u, v1alpha1.ScimUserSpec{Active: new(true)})
		if u.Spec.DeprovisionTime != nil || u.IsActive() {
			t.Fatalf("after the replacement, before the reconciliation: active %t, %+v", u.IsActive(), u.Spec)
		}
		f.writes = nil
		u, _ = f.mustReconcile("ann")
		if want := new(metav1.Unix(1, 0)); !u.Spec.DeprovisionTime.Equal(want) || u.IsActive() || !v1alpha1.HasSCIMWrite(u) || u.Spec.Title != "" {
			t.Errorf("after the reconciliation: %+v", u.Spec)
		}
		u, _ = f.mustReconcile("ann")
		if diff := cmp.Diff([]string{"patch ScimUser", "patch status ScimUser"}, f.writes); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		if *u.Status.Active || meta.FindStatusCondition(u.Status.Conditions, "Deprovisioned") == nil {
			t.Errorf("the status is %+v", u.Status)
		}
		f.wantReady(u, "True", "Succeeded", "in effect")
		f.wantNoWrites("ann")
	}
	if !f.isDeprovisioned(u) {
		t.Error("the name is no longer recorded")
	}
}

func (f *fixture) isDeprovisioned(u *v1alpha1.ScimUser) bool {
	f.Helper()
	found, err := claims.IsDeprovisioned(f.Context(), f.api, f.namespace, u.Spec.UserName)
	f.must(err)
	return found
}

// TestDeactivationsEnd: removing spec.deprovisionTime over SCIM or with kubectl patch activates the user.
func TestDeactivationsEnd(t *testing.T) {
	f := newFixture(t)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"active":true,"deprovisionTime":null}}`))
	for name, activate := range map[string]func(u *v1alpha1.ScimUser){
		"scim": func(u *v1alpha1.ScimUser) {
			u.Spec.DeprovisionTime = nil
			lastmodified.Stamp(u, time.Now())
			f.must(f.api.Update(t.Context(), u))
		},
		"kubectl": func(u *v1alpha1.ScimUser) { f.must(f.api.Patch(t.Context(), u, patch)) },
		"restored": func(u *v1alpha1.ScimUser) {
			f.replace(u, v1alpha1.ScimUserSpec{})
			u, _ = f.mustReconcile(u.Name)
			f.must(f.api.Patch(t.Context(), u, patch))
		},
	} {
		activate(f.deactivated(name))
		u, _ := f.mustReconcile(name)
		if !u.IsActive() || !*u.Status.Active || u.Status.DeprovisionTime != nil || f.isDeprovisioned(u) {
			t.Errorf("%s: %+v %+v", name, u.Spec, u.Status)
		}
		f.replace(u, v1alpha1.ScimUserSpec{})
		if u, _ = f.mustReconcile(name); !u.IsActive() {
			t.Errorf("%s, replaced later: %+v", name, u.Spec)
		}
	}
}
