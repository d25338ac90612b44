package scimuser

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/userattribute"
)

// indexAttribute is the index of users by the names of the attributes that they have a value for.
const indexAttribute = requests.CacheOnly + "attribute"

// attributeDelay is the delay between the creation or deletion of an attribute and the reconciliation of the users
// with a value for it: a GitOps tool creates many attributes at once.
const attributeDelay = time.Second

// attributesOf is the index function of indexAttribute.
func attributesOf(obj client.Object) []string {
	u, ok := obj.(*v1alpha1.ScimUser)
	if !ok || len(u.Spec.Attributes) == 0 {
		return nil
	}
	names := make([]string, len(u.Spec.Attributes))
	for i := range u.Spec.Attributes {
		names[i] = string(u.Spec.Attributes[i].Name)
	}
	return names
}

// ofAttribute maps an attribute to the users with a value for it.
func ofAttribute(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		a, ok := obj.(*v1alpha1.UserAttribute)
		if !ok {
			return nil
		}
		return requests.For(ctx, c, &v1alpha1.ScimUserList{}, requests.All[*v1alpha1.ScimUser],
			client.InNamespace(a.Namespace), client.MatchingFields{indexAttribute: string(a.Spec.Name)})
	}
}

// takesEffect selects the status update of an attribute above the limit of the account that takes effect, because another one was
// deleted. The values of users for it are not ignored any more.
var takesEffect = predicates.Changed(func(obj client.Object) string {
	a, ok := obj.(*v1alpha1.UserAttribute)
	if !ok {
		return ""
	}
	stalled := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionStalled)
	if stalled == nil || stalled.Reason != v1alpha1.ReasonLimitExceeded {
		return ""
	}
	return stalled.Reason
})

// checkAttributes checks the values of attributes. It returns a note on values without a UserAttribute, which are
// ignored because objects are applied in any order, or an outcome that ends the reconciliation.
func checkAttributes(ctx context.Context, s *scope) (note string, o *reconciler.Outcome) {
	values := s.Object.Spec.Attributes
	if len(values) == 0 {
		return "", nil
	}
	list := &v1alpha1.UserAttributeList{}
	if err := s.List(ctx, list, client.InNamespace(s.Object.Namespace)); err != nil {
		failed := reconciler.Failed(fmt.Errorf("list user attributes: %w", err))
		return "", &failed
	}
	all := make([]*v1alpha1.UserAttribute, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	if err := userattribute.CheckSize(values); err != nil {
		return "", invalidAttributes("spec.attributes: %s", err)
	}
	var unknown []string
	inEffect := userattribute.InEffect(all)
	for i := range values {
		a := userattribute.Find(inEffect, values[i].Name)
		if a == nil {
			unknown = append(unknown, fmt.Sprintf("%q", values[i].Name))
			continue
		}
		if err := userattribute.Check(a, &values[i].UserAttributeContent); err != nil {
			return "", invalidAttributes("spec.attributes[%s]: %s", values[i].Name, err)
		}
	}
	if len(unknown) > 0 {
		note = "spec.attributes: there is no UserAttribute in effect, and the value is ignored: " + strings.Join(unknown, ", ")
	}
	return note, nil
}

func invalidAttributes(format string, args ...any) *reconciler.Outcome {
	o := reconciler.Stalled(v1alpha1.ReasonInvalidSpec, fmt.Sprintf(format, args...))
	return &o
}
