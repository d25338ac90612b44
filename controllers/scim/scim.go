// Package scim is what the controllers of ScimUsers and ScimGroups have in common: the
// account, the unique name, the extensions.
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
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/tenant"
)

const (
	// inFlightPause is when to look again at a name that is just being given to another object.
	inFlightPause = 10 * time.Second
	// takenPause is when to look again at a name that is taken, should nobody have said that it
	// came free.
	takenPause = 10 * time.Minute
)

// Admit takes the first steps of an object: whose it is, whether its name is its own, and what of
// its extensions the CRD cannot judge. It returns a note on extensions that are not read, and an
// outcome when the object gets no further.
func Admit[T v1alpha1.Object](
	ctx context.Context, s *reconciler.Scope[T], name claims.Attribute[T], resource v1alpha1.ScimMemberType, extensions []v1alpha1.ScimExtension,
) (unread string, o *reconciler.Outcome) {
	account, o := accountOf(ctx, s)
	if o == nil {
		o = claim(ctx, s, name)
	}
	if o != nil {
		return "", o
	}
	return checkExtensions(account, resource, extensions)
}

// accountOf is the account that an object belongs to.
func accountOf[T v1alpha1.Object](ctx context.Context, s *reconciler.Scope[T]) (*v1alpha1.Account, *reconciler.Outcome) {
	account, err := tenant.Of(ctx, s.Client, s.Object.GetNamespace())
	if errors.Is(err, tenant.ErrNoAccount) {
		o := reconciler.Stalled(v1alpha1.ReasonAccountNotFound, fmt.Sprintf("no Account has spec.namespace %q", s.Object.GetNamespace()))
		return nil, &o
	}
	if err != nil {
		return nil, Failed(err)
	}
	return account, nil
}

// claim makes sure that the name of an object is its own.
func claim[T v1alpha1.Object](ctx context.Context, s *reconciler.Scope[T], name claims.Attribute[T]) *reconciler.Outcome {
	holder, err := name.Ensure(ctx, s.Client, s.Object)
	if errors.Is(err, claims.ErrInFlight) {
		// Whose it is comes out within a minute. Said only where something else was said before.
		o := reconciler.Progressing(v1alpha1.ReasonProgressing, fmt.Sprintf(
			"spec.%s: %q is just being given to another object", name.Field, name.Value(s.Object))).Transient().RequeueIn(inFlightPause)
		return &o
	}
	if err != nil {
		return Failed(err)
	}
	if holder != "" {
		o := reconciler.Stalled(v1alpha1.ReasonNameTaken, fmt.Sprintf(
			"spec.%s: %q belongs to %s %q of the same account; choose another", name.Field, name.Value(s.Object), name.Kind, holder)).RequeueIn(takenPause)
		return &o
	}
	return nil
}

// Exists tells whether there is an object of a name, which may be any text. The answer is the
// cache's own object, not a copy of it: obj must not be changed, nor be read into by others.
func Exists(ctx context.Context, c *kube.Client, namespace, name string, obj client.Object) (bool, error) {
	if len(content.IsPathSegmentName(name)) > 0 {
		return false, nil
	}
	// Past the client's memory of its own writes, which would read into the cache's object.
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj, client.UnsafeDisableDeepCopy)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read %q: %w", name, err)
	}
	return err == nil, nil
}

// Failed is the outcome of a call that failed.
func Failed(err error) *reconciler.Outcome {
	o := reconciler.Failed(err)
	return &o
}

// Warnings tells people of what is wrong only: that each of a hundred thousand users is in
// effect is no news, and would be a hundred thousand objects more.
func Warnings(r reconciler.Recorder) reconciler.Recorder { return warnings{r} }

type warnings struct{ reconciler.Recorder }

// Eventf implements reconciler.Recorder.
func (w warnings) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	if eventtype != corev1.EventTypeNormal {
		w.Recorder.Eventf(regarding, related, eventtype, reason, action, note, args...)
	}
}
