package accountrole_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/accountrole"
)

func role(object, name string, second int64) *v1alpha1.AccountRole {
	return &v1alpha1.AccountRole{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: object, CreationTimestamp: metav1.Unix(second, 0)},
		Spec:       v1alpha1.AccountRoleSpec{Name: name},
	}
}

func names(roles []*v1alpha1.AccountRole) []string {
	all := []string{}
	for _, r := range roles {
		all = append(all, r.Name)
	}
	return all
}

func TestInEffect(t *testing.T) {
	deleted := role("deleted", "Analyst", 1)
	deleted.DeletionTimestamp = ptr.To(metav1.Unix(9, 0))
	all := []*v1alpha1.AccountRole{role("later", "ANALYST", 3), role("b", "Analyst", 2), role("a", "analyst", 2), role("other", "Straße", 5), deleted}
	if diff := cmp.Diff([]string{"a", "other"}, names(accountrole.InEffect(all))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"later", "b", "a", "other", "deleted"}, names(all)); diff != "" {
		t.Errorf("the list was modified: %s", diff)
	}
	numbered := role("numbered", "ANALYST", 9)
	numbered.Labels = map[string]string{v1alpha1.LabelID: "12"}
	if diff := cmp.Diff([]string{"numbered", "other"}, names(accountrole.InEffect(append(all, numbered)))); diff != "" {
		t.Errorf("the first number holds a name: %s", diff)
	}
	var many []*v1alpha1.AccountRole
	for i := range accountrole.MaxPerAccount + 1 {
		many = append(many, role(fmt.Sprintf("r%03d", i), fmt.Sprintf("Role %d", i), int64(i)))
	}
	if got := accountrole.InEffect(many); len(got) != accountrole.MaxPerAccount || got[0].Name != "r000" {
		t.Errorf("%d roles are in effect, the first is %s", len(got), got[0].Name)
	}
}

func TestAssignments(t *testing.T) {
	inEffect := accountrole.InEffect([]*v1alpha1.AccountRole{role("analyst-x1", "Analyst", 1), role("eu", "Sales EU", 2)})
	if r := accountrole.Holder(inEffect, "sales eu"); r == nil || r.Name != "eu" {
		t.Errorf("Sales EU is %v", r)
	}
	if r := accountrole.Find(inEffect, "Analyst"); r != nil {
		t.Errorf("a role is found by its name in user interfaces: %v", r)
	}
	note := accountrole.Unknown("spec.x", []v1alpha1.AccountRoleReference{"eu", "gone", "Viewer", "viewer", "Admin"}, inEffect)
	if want := `spec.x: there is no AccountRole with the name, and the assignment has no effect: "gone", "viewer", "Admin"`; note != want {
		t.Errorf("note %s", note)
	}
	if note := accountrole.Unknown("spec.x", []v1alpha1.AccountRoleReference{"eu", "Explorer"}, inEffect); note != "" {
		t.Errorf("note %s", note)
	}
	over := accountrole.OverSCIM([]v1alpha1.ScimMultiValue{
		{Value: "ANALYST"}, {Value: "viewer"}, {Value: "Admin"}, {Value: "eu"}, {Value: "Engineer"}, {}, {Display: "Analyst"},
	}, inEffect)
	if diff := cmp.Diff([]v1alpha1.AccountRoleReference{"analyst-x1", "Viewer"}, over); diff != "" {
		t.Error(diff)
	}
	if _, admin := accountrole.BuiltIn("Admin"); admin {
		t.Error("Admin can be assigned")
	}
}
