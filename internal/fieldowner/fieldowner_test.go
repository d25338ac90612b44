package fieldowner

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// An object that a program applies has an owner, also if it applies it on the client, as Argo CD does by default. One of which a
// program only sets a field has none.
func TestOfSpec(t *testing.T) {
	const (
		spec     = `{"f:spec":{"f:releaseChannel":{}}}`
		onClient = `{"f:metadata":{"f:annotations":{".":{},"f:kubectl.kubernetes.io/last-applied-configuration":{}}},"f:spec":{"f:releaseChannel":{}}}`
		label    = `{"f:metadata":{"f:labels":{"f:app":{}}}}`
	)
	for name, c := range map[string]struct {
		manager   string
		operation metav1.ManagedFieldsOperationType
		fields    string
		owner     string
	}{
		"server-side apply":              {"argocd-controller", metav1.ManagedFieldsOperationApply, spec, "argocd-controller"},
		"client-side apply of Argo CD":   {"argocd-controller", metav1.ManagedFieldsOperationUpdate, onClient, "argocd-controller"},
		"client-side apply of kubectl":   {"kubectl-client-side-apply", metav1.ManagedFieldsOperationUpdate, onClient, "kubectl-client-side-apply"},
		"kubectl create --save-config":   {"kubectl-create", metav1.ManagedFieldsOperationUpdate, onClient, ""},
		"a program that sets a field":    {"autoscaler", metav1.ManagedFieldsOperationUpdate, spec, ""},
		"a program that applies a label": {"labeler", metav1.ManagedFieldsOperationApply, label, ""},
		"a controller of Quoin":          {"quoin-branch", metav1.ManagedFieldsOperationApply, spec, ""},
	} {
		d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: c.manager, Operation: c.operation, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(c.fields)},
		}}}
		if owner := OfSpec(d); owner != c.owner {
			t.Errorf("%s: the owner is %q, want %q", name, owner, c.owner)
		}
	}
}
