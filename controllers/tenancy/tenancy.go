// Package tenancy has what the reconcilers of kinds in the namespaces of accounts share: an object has an account, and its
// number is unique in it.
package tenancy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// Account returns the account that the object of a scope belongs to, or the outcome if there is none.
func Account[T v1alpha1.Object](ctx context.Context, s *reconciler.Scope[T]) (*v1alpha1.Account, *reconciler.Outcome) {
	account, err := tenant.Of(ctx, s.Client, s.Object.GetNamespace())
	if errors.Is(err, tenant.ErrNoAccount) {
		o := reconciler.NotFound(v1alpha1.ReasonAccountNotFound, fmt.Sprintf("no Account has spec.namespace %q", s.Object.GetNamespace()))
		return nil, &o
	}
	if err != nil {
		return nil, failed(err)
	}
	return account, nil
}

// Numbers gives the objects of a kind their numbers, which are their ids over REST. A number is a label of the object, and in
// its status once it is known to be that of this object.
type Numbers[T v1alpha1.Object] struct {
	// Kind is the name of the kind.
	Kind    string
	Counter ids.Counter
	IDs     *ids.Allocator
	// Status returns where the status of an object has the number.
	Status func(T) *int64
}

// Assign gives the object of a scope its number if it has none. all are the objects of its kind in its account. An object that
// carries the number of another one, because its YAML was copied, gets none: that is the outcome. The outcome is nil otherwise.
// An object that was replaced, as by kubectl replace, has lost its label, and keeps the number in its status.
func (n *Numbers[T]) Assign(ctx context.Context, s *reconciler.Scope[T], account string, all []T) *reconciler.Outcome {
	status, label := n.Status(s.Object), s.Object.GetLabels()[v1alpha1.LabelID]
	if labelled, ok := ids.Parse(label); ok && *status == labelled {
		return nil
	}
	label = ids.Or(label, strconv.FormatInt(*status, 10))
	carried, carries := ids.Parse(label)
	if other := slices.IndexFunc(all, func(o T) bool { return o.GetUID() != s.Object.GetUID() && *n.Status(o) == carried }); carries && other >= 0 {
		o := reconciler.Stalled(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("metadata: label %s has the ID of %s %q; remove it, and a new ID is allocated",
			v1alpha1.LabelID, n.Kind, all[other].GetName()))
		return &o
	}
	id, err := n.IDs.Keep(ctx, account, n.Counter, label)
	if err != nil {
		return failed(err)
	}
	err = s.Label(ctx, func(o T) {
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[v1alpha1.LabelID] = ids.Or(labels[v1alpha1.LabelID], id)
		o.SetLabels(labels)
	})
	if err != nil {
		return failed(err)
	}
	*status, _ = ids.Parse(s.Object.GetLabels()[v1alpha1.LabelID])
	return nil
}

func failed(err error) *reconciler.Outcome {
	o := reconciler.Failed(err)
	return &o
}
