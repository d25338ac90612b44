package scimgroup

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/lastmodified"
)

// TestRemovalsOutliveAReplacement: a member that a SCIM client has removed stays removed after the object has been
// replaced by its manifest.
func TestRemovalsOutliveAReplacement(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"ann", "bob", "eve"} {
		f.user(name)
	}
	g := f.group("staff", "ann", "bob", "eve")
	g.Spec.RemovedMembers = []string{"bob", "eve"}
	lastmodified.Stamp(g, time.Now())
	f.must(f.api.Update(t.Context(), g))
	g = f.mustReconcile("staff")
	f.must(f.api.Update(t.Context(), &v1alpha1.ScimGroup{ // the manifest does not list eve any more
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "staff", ResourceVersion: g.ResourceVersion},
		Spec:       v1alpha1.ScimGroupSpec{DisplayName: g.Spec.DisplayName, Members: g.Spec.Members[:2]},
	}))
	f.mustReconcile("staff")
	g = f.mustReconcile("staff")
	if !slices.Equal(g.Spec.RemovedMembers, []string{"bob"}) || g.Status.MemberCount != 1 {
		t.Errorf("%d members, removed %q", g.Status.MemberCount, g.Spec.RemovedMembers)
	}
	f.wantNoWrites("staff")
	g.Spec.RemovedMembers = nil // as a SCIM client that adds the member, or kubectl patch
	f.must(f.api.Update(t.Context(), g))
	if g = f.mustReconcile("staff"); g.Status.MemberCount != 2 || g.Status.RemovedMembers != nil {
		t.Errorf("%d members, removed %q", g.Status.MemberCount, g.Status.RemovedMembers)
	}
}
