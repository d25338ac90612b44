// Package scim is the code shared by the controllers of ScimUsers and ScimGroups: account, unique name
// and extensions.
package scim

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/tenancy"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/lastmodified"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

const (
	// inFlightInterval is the interval at which a name that is being claimed is checked.
	inFlightInterval = 10 * time.Second
	// takenInterval is the interval at which a taken name is checked, in case an event was missed.
	takenInterval = 10 * time.Minute
)

// Admit performs the first steps of a reconciliation: it finds the account, claims the name and checks
// what the CRD cannot check of extensions. It returns a note on undeclared extensions, or an outcome
// that ends the reconciliation.
func Admit[T v1alpha1.Object](
	ctx context.Context, s *reconciler.Scope[T], name claims.Attribute[T], resource v1alpha1.ScimMemberType, extensions []v1alpha1.ScimExtension,
) (note string, o *reconciler.Outcome) {
	account, o := tenancy.Account(ctx, s)
	if o == nil {
		o = claim(ctx, s, name)
	}
	if o != nil {
		return "", o
	}
	return checkExtensions(account, resource, extensions)
}

// claim ensures that an object holds the claim on its name.
func claim[T v1alpha1.Object](ctx context.Context, s *reconciler.Scope[T], name claims.Attribute[T]) *reconciler.Outcome {
	holder, err := name.Ensure(ctx, s.Client, s.Object)
	if errors.Is(err, claims.ErrInFlight) {
		// The holder is known within a minute. The condition is set only if there is an older one.
		o := reconciler.Progressing(v1alpha1.ReasonProgressing, fmt.Sprintf(
			"spec.%s: %q is being claimed by another object", name.Field, name.Value(s.Object))).Transient().RequeueIn(inFlightInterval)
		return &o
	}
	if err != nil {
		return Failed(err)
	}
	if holder != "" {
		o := reconciler.Stalled(v1alpha1.ReasonNameTaken, fmt.Sprintf(
			"spec.%s: %q belongs to %s %q of the same account; choose another", name.Field, name.Value(s.Object), name.Kind, holder)).RequeueIn(takenInterval)
		return &o
	}
	return nil
}

// Restore writes fields of the spec that a SCIM client has written and a replacement of the object has removed
// (docs/decisions/0040). It is the only write of this controller to a spec. The write triggers the next
// reconciliation, which continues.
func Restore[T v1alpha1.Object](ctx context.Context, s *reconciler.Scope[T], change func(T)) *reconciler.Outcome {
	restored, _ := s.Object.DeepCopyObject().(T)
	change(restored)
	lastmodified.Stamp(restored, s.Clock.Now())
	if err := s.Patch(ctx, restored, client.MergeFromWithOptions(s.Object, client.MergeFromWithOptimisticLock{})); err != nil {
		return Failed(fmt.Errorf("restore what a SCIM client has removed: %w", err))
	}
	o := reconciler.Progressing(v1alpha1.ReasonProgressing, "What a SCIM client has removed is being restored").Transient()
	return &o
}

// Exists reports whether an object exists. name may be any text. obj is set to the cache's object
// without a copy: it must not be modified, nor be the target of other reads.
func Exists(ctx context.Context, c *kube.Client, namespace, name string, obj client.Object) (bool, error) {
	if len(content.IsPathSegmentName(name)) > 0 {
		return false, nil
	}
	// The kube.Client would overwrite the cache's object when it reads a newer version.
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj, client.UnsafeDisableDeepCopy)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read %q: %w", name, err)
	}
	return err == nil, nil
}

// Failed returns the outcome of an error.
func Failed(err error) *reconciler.Outcome {
	o := reconciler.Failed(err)
	return &o
}

// Warnings returns a recorder that drops Normal events: one for each of 100,000 users would be 100,000
// objects.
func Warnings(r reconciler.Recorder) reconciler.Recorder { return warnings{r} }

type warnings struct{ reconciler.Recorder }

// Eventf implements reconciler.Recorder.
func (w warnings) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	if eventtype != corev1.EventTypeNormal {
		w.Recorder.Eventf(regarding, related, eventtype, reason, action, note, args...)
	}
}
