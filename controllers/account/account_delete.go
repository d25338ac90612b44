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
	// teardownPause is the time between two looks at what is left.
	teardownPause = 5 * time.Second
	// teardownPatience is how long a teardown may take before it asks for help.
	teardownPatience = 5 * time.Minute
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=accounts/finalizers,verbs=update
// The verbs on the deleted kinds are in controllers/zz_generated.rbac.go.

// teardown deletes the account's objects and lets the account go when none is left. The
// namespace stays: it was there before the account. Workloads and secrets of environments
// follow their environments by garbage collection.
func teardown(ctx context.Context, s *reconciler.Scope[*v1alpha1.Account]) reconciler.Outcome {
	acct := s.Object
	if !controllerutil.ContainsFinalizer(acct, v1alpha1.FinalizerAccount) {
		return reconciler.Progressing(v1alpha1.ReasonTerminating, "Waiting for finalizers of others")
	}
	left, err := deleteObjects(ctx, s, acct)
	if err != nil {
		return reconciler.Failed(err)
	}
	if left == "" {
		err := s.Label(ctx, func(a *v1alpha1.Account) { controllerutil.RemoveFinalizer(a, v1alpha1.FinalizerAccount) })
		if err != nil && !apierrors.IsNotFound(err) {
			return reconciler.Failed(err)
		}
		return reconciler.Progressing(v1alpha1.ReasonTerminating, "All objects of the account are gone")
	}
	if s.Clock.Since(acct.DeletionTimestamp.Time) > teardownPatience {
		return reconciler.Stalled(v1alpha1.ReasonTerminating, fmt.Sprintf(
			"%s does not go away: look at its metadata.finalizers and remove what holds it", left)).RequeueIn(teardownPause)
	}
	return reconciler.Progressing(v1alpha1.ReasonTerminating, "Objects of the account are being removed").RequeueIn(teardownPause)
}

// deleteObjects deletes what is in the account's namespace and returns the name of one
// object that is still there, empty when there is none.
func deleteObjects(ctx context.Context, s *reconciler.Scope[*v1alpha1.Account], acct *v1alpha1.Account) (string, error) {
	holder, err := tenant.Of(ctx, s.Live(), acct.Spec.Namespace)
	if err != nil {
		return "", err
	}
	if holder.UID != acct.UID {
		// The namespace belongs to an older account, and so does all that is in it.
		return "", nil
	}
	left := ""
	for _, kind := range v1alpha1.Kinds {
		if kind.Cluster {
			continue
		}
		list := kind.NewList()
		// Live: an object that the cache has not seen yet must not be left behind.
		if err := s.Live().List(ctx, list, client.InNamespace(acct.Spec.Namespace)); err != nil {
			return "", fmt.Errorf("list objects of account %q: %w", acct.Name, err)
		}
		if left, err = deleteItems(ctx, s, list, left); err != nil {
			return "", err
		}
	}
	return left, nil
}

func deleteItems(ctx context.Context, s *reconciler.Scope[*v1alpha1.Account], list client.ObjectList, left string) (string, error) {
	err := meta.EachListItem(list, func(o runtime.Object) error {
		item, ok := o.(client.Object)
		if !ok {
			return fmt.Errorf("list holds %T", o)
		}
		if left == "" {
			left = strings.TrimPrefix(fmt.Sprintf("%T", item), "*v1alpha1.") + " " + item.GetName()
		}
		if !item.GetDeletionTimestamp().IsZero() {
			return nil
		}
		return client.IgnoreNotFound(s.Delete(ctx, item))
	})
	return left, err
}
