package contentobjects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/controllers/tenancy"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/managed"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/tenant"
)

const (
	// driftInterval is the time after which content is compared with its object again.
	driftInterval = 10 * time.Minute
	// conflictInterval is the time after which an object that conflicts with content is reconciled again.
	conflictInterval = time.Minute
	// waitInterval is the time after which an object that waits for the content store or a folder is reconciled again.
	waitInterval = 5 * time.Second
)

// place is the deployment of an object.
type place struct {
	content.Scope
	record content.Record
	// isConfigMap is true if the data model is in a ConfigMap.
	isConfigMap bool
}

// placeOf returns the deployment of the object of a scope, or the outcome if there is none.
func placeOf[T v1alpha1.Object](ctx context.Context, o Options, s *reconciler.Scope[T], deployment string) (*place, *reconciler.Outcome) {
	account, outcome := tenancy.Account(ctx, s)
	if outcome != nil {
		return nil, outcome
	}
	d := &v1alpha1.Deployment{}
	err := s.Get(ctx, client.ObjectKey{Namespace: s.Object.GetNamespace(), Name: deployment}, d)
	var out reconciler.Outcome
	switch {
	case apierrors.IsNotFound(err):
		out = reconciler.NotFound(v1alpha1.ReasonDeploymentNotFound, fmt.Sprintf("spec.deploymentRef: Deployment %q does not exist", deployment))
	case err != nil:
		out = reconciler.Failed(err)
	case !account.DeletionTimestamp.IsZero() || !d.DeletionTimestamp.IsZero():
		out = reconciler.Progressing(v1alpha1.ReasonTerminating, fmt.Sprintf("Deployment %q is being deleted", deployment))
	case o.Database == nil:
		out = reconciler.Failing(v1alpha1.ReasonContentStoreUnavailable, "quoin apiserver has no --database-url, so it has no workspace content", conflictInterval)
	default:
		return newPlace(o, account, d), nil
	}
	return nil, &out
}

func newPlace(o Options, account *v1alpha1.Account, d *v1alpha1.Deployment) *place {
	p := &place{
		Scope: content.Scope{
			Account:    store.Account{UID: string(account.UID), Name: account.Name},
			Deployment: store.Deployment{UID: string(d.UID), Namespace: d.Namespace, Name: d.Name},
		},
		isConfigMap: d.Spec.Model.ConfigMapRef != nil,
	}
	p.record = func(ctx context.Context, tx *store.Tx, e audit.Event) error {
		e.Account, e.Deployment = account.Name, recording.DeploymentOf(d)
		return o.Record(ctx, tx, e)
	}
	return p
}

// identity returns an object as the content store knows it.
func identity(kind string, obj v1alpha1.Object) managed.Object {
	return managed.Object{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: string(obj.GetUID()), Generation: obj.GetGeneration()}
}

// hold adds the finalizer. It returns the outcome if that fails.
func hold[T v1alpha1.Object](ctx context.Context, s *reconciler.Scope[T]) *reconciler.Outcome {
	if controllerutil.ContainsFinalizer(s.Object, v1alpha1.FinalizerContent) {
		return nil
	}
	if err := s.Label(ctx, func(obj T) { controllerutil.AddFinalizer(obj, v1alpha1.FinalizerContent) }); err != nil {
		out := reconciler.Failed(err)
		return &out
	}
	return nil
}

// release deletes the content of an object that is being deleted, or keeps it, and removes the finalizer. The content of a
// deployment that is being deleted is deleted with it.
func release[T v1alpha1.Object](
	ctx context.Context, o Options, s *reconciler.Scope[T], deployment string, work func(*place) error,
) reconciler.Outcome {
	if !controllerutil.ContainsFinalizer(s.Object, v1alpha1.FinalizerContent) {
		return reconciler.Progressing(v1alpha1.ReasonTerminating, "Waiting for other finalizers")
	}
	p, err := o.living(ctx, s.Live(), s.Object.GetNamespace(), deployment)
	if err != nil {
		return reconciler.Failed(err)
	}
	if p != nil && o.Database == nil {
		return reconciler.Failing(v1alpha1.ReasonContentStoreUnavailable, "quoin apiserver has no --database-url, so it cannot delete the content", conflictInterval)
	}
	if p != nil {
		if err := work(p); err != nil {
			return outcomeOf(err)
		}
	}
	err = s.Label(ctx, func(obj T) { controllerutil.RemoveFinalizer(obj, v1alpha1.FinalizerContent) })
	if err != nil && !apierrors.IsNotFound(err) {
		return reconciler.Failed(err)
	}
	return reconciler.Progressing(v1alpha1.ReasonTerminating, "The content is released").Deferred()
}

// living returns a deployment that is not being deleted; nil if there is none. It asks the Kubernetes API server, because a cache
// can be incomplete.
func (o Options) living(ctx context.Context, live client.Reader, namespace, deployment string) (*place, error) {
	account, err := tenant.Of(ctx, live, namespace)
	if errors.Is(err, tenant.ErrNoAccount) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d := &v1alpha1.Deployment{}
	err = live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: deployment}, d)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil || !account.DeletionTimestamp.IsZero() || !d.DeletionTimestamp.IsZero() {
		return nil, err
	}
	return newPlace(o, account, d), nil
}

// outcomeOf returns the outcome of an error of the content store.
func outcomeOf(err error) reconciler.Outcome {
	var rejected *content.Error
	isRejected := errors.As(err, &rejected)
	switch {
	case errors.Is(err, managed.ErrOutdated):
		return reconciler.Progressing(v1alpha1.ReasonProgressing, "Waiting for the cache").Deferred().RequeueIn(time.Second)
	case errors.Is(err, store.ErrUnavailable), isRejected && rejected.Reason == content.Unavailable:
		return reconciler.Failing(v1alpha1.ReasonContentStoreUnavailable, "the content store of quoin apiserver is not available", waitInterval)
	case isRejected && rejected.Reason == content.Invalid:
		return reconciler.Stalled(v1alpha1.ReasonInvalidSpec, inSpec(rejected.Message)).RequeueIn(conflictInterval)
	case isRejected && rejected.Reason == content.Conflict:
		return reconciler.Stalled(v1alpha1.ReasonConflict, inSpec(rejected.Message)).RequeueIn(conflictInterval)
	case isRejected && rejected.Reason == content.NotFound:
		return reconciler.Progressing(v1alpha1.ReasonFolderNotReady, rejected.Message).RequeueIn(waitInterval)
	}
	return reconciler.Failed(err)
}

// inSpec returns a message that begins with a field of content, with the field of the spec.
func inSpec(message string) string {
	if rest, ok := strings.CutPrefix(message, "meta.dashboardDraft"); ok {
		return "spec.definition.dashboardDraft" + rest
	}
	for _, field := range []string{"meta", "reports"} {
		if strings.HasPrefix(message, field) {
			return "spec.definition." + message
		}
	}
	return "spec." + strings.Replace(message, "parentId:", "parentRef:", 1)
}

// done returns the outcome of content that is what its object defines.
func done(message string) reconciler.Outcome {
	return reconciler.Done(message).RequeueIn(wait.Jitter(driftInterval, 0.1))
}

// isStalled reports whether an object needs a change by a user.
func isStalled(obj v1alpha1.Object) bool {
	return meta.IsStatusConditionTrue(obj.Common().Conditions, v1alpha1.ConditionStalled)
}

// isOlder reports whether an object was created before another one.
func isOlder(a, b client.Object) bool {
	first, second := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return cmp.Or(first.Compare(second.Time), cmp.Compare(a.GetName(), b.GetName())) < 0
}
