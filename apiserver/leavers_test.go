package apiserver

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// TestLeaversAreDeletedUsersToo: the sessions and tokens of a user end with the deletion, also while a finalizer keeps the object.
func TestLeaversAreDeletedUsersToo(t *testing.T) {
	user := func(name string, change func(*v1alpha1.ScimUser)) *v1alpha1.ScimUser {
		u := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}, Spec: v1alpha1.ScimUserSpec{UserName: name}}
		change(u)
		return u
	}
	var left []string
	handler := leavers(func(u *v1alpha1.ScimUser) { left = append(left, u.Name) })
	for _, u := range []*v1alpha1.ScimUser{
		user("active", func(*v1alpha1.ScimUser) {}),
		user("deactivated", func(u *v1alpha1.ScimUser) { u.Spec.Active = new(false) }),
		user("deleted", func(u *v1alpha1.ScimUser) {
			u.DeletionTimestamp, u.Finalizers = new(metav1.Unix(1, 0)), []string{"example.com/kept"}
		}),
	} {
		handler.OnUpdate(u, u)
	}
	if want := []string{"deactivated", "deleted"}; !slices.Equal(left, want) {
		t.Errorf("left: %q, want %q", left, want)
	}
}
