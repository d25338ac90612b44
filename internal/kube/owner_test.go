package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

func TestIsOfEarlier(t *testing.T) {
	owner := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Name: "sales", UID: "2"}}
	for name, c := range map[string]struct {
		kind, name string
		uid        types.UID
		want       bool
	}{
		"of an earlier object":         {"Environment", "sales", "1", true},
		"of the object":                {"Environment", "sales", "2", false},
		"of an object of another name": {"Environment", "orders", "1", false},
		"of another kind":              {"Deployment", "sales", "1", false},
	} {
		controller := true
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: c.kind, Name: c.name, UID: c.uid, Controller: &controller}}}}
		if got := IsOfEarlier(secret, "Environment", owner); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if IsOfEarlier(&corev1.Secret{}, "Environment", owner) {
		t.Error("without a controller: true, want false")
	}
}
