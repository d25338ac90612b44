package account

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/tenant"
)

const (
	// teardownInterval is the time between two checks of the remaining objects.
	teardownInterval = 5 * time.Second
	// teardownTimeout is the time after which a teardown is reported as stalled.
	teardownTimeout = 5 * time.Minute
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=accounts/finalizers,verbs=update
// The verbs on the deleted kinds are in controllers/zz_generated.rbac.go.

// teardown deletes the account's objects, and removes the finalizer when none is left. The
// namespace is kept: Quoin did not create it. Workloads and secrets of environments are
// garbage-collected.
func (r *accountReconciler) teardown(ctx context.Context, s *reconciler.Scope[*v1alpha1.Account]) reconciler.Outcome {
	acct := s.Object
	if !controllerutil.ContainsFinalizer(acct, v1alpha1.FinalizerAccount) {
		return reconciler.Progressing(v1alpha1.ReasonTerminating, "Waiting for other finalizers")
	}
	if err := r.Hosts.Release(ctx, s.Client, acct); err != nil {
		return reconciler.Failed(err)
	}
	remaining, err := r.deleteObjects(ctx, s, acct)
	if err != nil {
		return reconciler.Failed(err)
	}
	if remaining == "" {
		err := s.Label(ctx, func(a *v1alpha1.Account) { controllerutil.RemoveFinalizer(a, v1alpha1.FinalizerAccount) })
		if err != nil && !apierrors.IsNotFound(err) {
			return reconciler.Failed(err)
		}
		return reconciler.Progressing(v1alpha1.ReasonTerminating, "All objects of the account are deleted")
	}
	if !r.WatchNamespaces.Include(acct.Spec.Namespace) {
		return reconciler.Stalled(v1alpha1.ReasonNamespaceNotWatched, fmt.Sprintf(
			"%s is not deleted: this installation of Quoin may not write in namespace %q; delete the objects of the account there, "+
				"or add the namespace to watchNamespaces of the chart", remaining, acct.Spec.Namespace)).RequeueIn(teardownInterval)
	}
	if s.Clock.Since(acct.DeletionTimestamp.Time) > teardownTimeout {
		return reconciler.Stalled(v1alpha1.ReasonTerminating, fmt.Sprintf(
			"%s is not deleted: check its metadata.finalizers and remove those that block it", remaining)).RequeueIn(teardownInterval)
	}
	return reconciler.Progressing(v1alpha1.ReasonTerminating, "Objects of the account are being deleted").RequeueIn(teardownInterval)
}

// deleteObjects deletes the objects in the account's namespace and returns the name of one that
// still exists; empty when there is none.
func (r *accountReconciler) deleteObjects(ctx context.Context, s *reconciler.Scope[*v1alpha1.Account], acct *v1alpha1.Account) (string, error) {
	if acct.Spec.Namespace == r.Hosts.Namespace {
		// The objects there are those of Quoin itself, such as the claims of all accounts.
		return "", nil
	}
	holder, err := tenant.Of(ctx, s.Live(), acct.Spec.Namespace)
	if err != nil {
		return "", err
	}
	if holder.UID != acct.UID {
		// The namespace and its objects belong to an older account.
		return "", nil
	}
	remaining := ""
	for _, kind := range v1alpha1.Kinds {
		if kind.Cluster {
			continue
		}
		list := kind.NewList()
		// Live: an object that the cache has not observed yet must be deleted too.
		if err := s.Live().List(ctx, list, client.InNamespace(acct.Spec.Namespace)); err != nil {
			return "", fmt.Errorf("list objects of account %q: %w", acct.Name, err)
		}
		if remaining, err = r.deleteItems(ctx, s, list, remaining); err != nil {
			return "", err
		}
	}
	return remaining, nil
}

// deleteItems deletes the objects of a list, unless Quoin may not write in their namespace.
func (r *accountReconciler) deleteItems(ctx context.Context, s *reconciler.Scope[*v1alpha1.Account], list client.ObjectList, remaining string) (string, error) {
	err := meta.EachListItem(list, func(o runtime.Object) error {
		item, ok := o.(client.Object)
		if !ok {
			return fmt.Errorf("list holds %T", o)
		}
		if remaining == "" {
			remaining = strings.TrimPrefix(fmt.Sprintf("%T", item), "*v1alpha1.") + " " + item.GetName()
		}
		if !item.GetDeletionTimestamp().IsZero() || !r.WatchNamespaces.Include(item.GetNamespace()) {
			return nil
		}
		return client.IgnoreNotFound(s.Delete(ctx, item))
	})
	return remaining, err
}
