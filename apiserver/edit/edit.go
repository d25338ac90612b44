// Package edit writes objects on behalf of callers: it changes the current object of the Kubernetes
// API server without losing concurrent changes, and never a field that is owned by a program such as
// Argo CD (docs/decisions/0014). A write returns when the caches of this process have observed it.
package edit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/internal/fieldowner"
	"github.com/quoin-dev/quoin/internal/freshness"
	"github.com/quoin-dev/quoin/internal/kube"
)

// Manager is the field manager of the writes of quoin apiserver, except edits whose context has another one.
const Manager = fieldowner.APIServer

// Timeout is how long a request waits for the effects of its write.
const Timeout = 20 * time.Second

// Attempts of a change in the case of conflicts, and the longest pause before one. Forty clients that
// add a member to one group at the same time all succeed.
const (
	attempts     = 30
	longestPause = 250 * time.Millisecond
)

// ErrDeleted is returned if the object of a change has been deleted since it was read.
var ErrDeleted = errors.New("the object has been deleted")

// Spec edits the spec and the annotations of the object with a key, in one write, and returns the
// object as it is afterwards and whether it was written. edit is called with the current object of the Kubernetes API server and
// modifies a copy; it is called again after a conflict. Nothing is written if edit changes nothing,
// fails, or changes a field that an authoritative manager owns, which is a *fieldowner.OwnedError.
//
// Spec does not wait for the cache: see Change.
func Spec[T client.Object](ctx context.Context, c *kube.Client, key client.ObjectKey, edit func(live, edited T) error) (T, bool, error) {
	for attempt := 1; ; attempt++ {
		live := newOf[T]()
		if err := c.Live().Get(ctx, key, live); err != nil {
			return live, false, err
		}
		edited, sent, err := write(ctx, c, live, edit)
		if sent && apierrors.IsConflict(err) && attempt < attempts {
			if err := pause(ctx, attempt); err != nil {
				return live, false, err
			}
			continue
		}
		return edited, sent && err == nil, err
	}
}

// Retry calls write until it returns no conflict. write reads the current object.
func Retry(ctx context.Context, write func() error) error {
	for attempt := 1; ; attempt++ {
		err := write()
		if !apierrors.IsConflict(err) || attempt == attempts {
			return err
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
}

// SpecOf is like Spec for an object of which the caller has a copy, such as one of a cache, with the managed fields for which
// fieldowner.IsAuthoritative holds. It saves the read if the copy is current, which the write proves. After a conflict, or if
// edit fails or changes nothing, it edits the object as Spec does.
func SpecOf[T client.Object](ctx context.Context, c *kube.Client, known T, edit func(live, edited T) error) (T, bool, error) {
	edited, sent, err := write(ctx, c, known, edit)
	if sent && !apierrors.IsConflict(err) {
		return edited, err == nil, err
	}
	return Spec(ctx, c, client.ObjectKeyFromObject(known), edit)
}

// write edits an object and writes it, unless edit fails or changes nothing. It returns a conflict if the object has changed
// since it was read, and whether the request was sent.
func write[T client.Object](ctx context.Context, c *kube.Client, live T, edit func(live, edited T) error) (_ T, sent bool, err error) {
	edited, _ := live.DeepCopyObject().(T)
	if err := edit(live, edited); err != nil {
		return live, false, err
	}
	changed, err := fieldowner.CheckChange(live, edited)
	if err != nil || len(changed) == 0 {
		return live, false, err
	}
	patch := mergePatch{Patch: client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{}), before: live}
	// Not recorded for reads of the cache: writers wait for it instead.
	if err := c.Client.Patch(ctx, edited, patch, client.FieldOwner(fieldowner.From(ctx))); err != nil {
		return live, true, err
	}
	return edited, true, nil
}

// Change edits the spec and the annotations of an object that was read before, waits until the cache has the change, and
// returns the object as written. Nothing is written if edit changes nothing. The error is ErrDeleted if the object no longer
// exists.
func Change[T client.Object](ctx context.Context, c *kube.Client, obj T, edit func(T) error) (T, error) {
	w := c.Expect(obj)
	defer w.Stop()
	edited, written, err := Spec(ctx, c, client.ObjectKeyFromObject(obj), func(live, edited T) error {
		if live.GetUID() != obj.GetUID() || !live.GetDeletionTimestamp().IsZero() {
			return ErrDeleted
		}
		return edit(edited)
	})
	if err != nil || !written {
		return edited, orDeleted(err)
	}
	return edited, settled(w.Version(ctx, Timeout, edited.GetResourceVersion()))
}

// Create creates an object, which has a name, and waits until the cache has it.
func Create(ctx context.Context, c *kube.Client, obj client.Object) error {
	w := c.Expect(obj)
	defer w.Stop()
	if err := c.Create(ctx, obj); err != nil {
		return err
	}
	return settled(w.Version(ctx, Timeout, obj.GetResourceVersion()))
}

// Delete deletes an object that was read before and waits until the cache no longer has it. It is no
// error if the object does not exist.
func Delete(ctx context.Context, c *kube.Client, obj client.Object) error {
	w := c.Expect(obj)
	defer w.Stop()
	uid := obj.GetUID()
	if err := c.Delete(ctx, obj, client.Preconditions{UID: &uid}); err != nil {
		return client.IgnoreNotFound(err)
	}
	return settled(w.Absence(ctx, Timeout, uid))
}

// Annotate sets an annotation of an object that was read before and waits until the cache has it. The error is ErrDeleted if the
// object no longer exists, also if there is another one of its name.
func Annotate(ctx context.Context, c *kube.Client, obj client.Object, name, value string) error {
	w := c.Expect(obj)
	defer w.Stop()
	before, _ := obj.DeepCopyObject().(client.Object)
	annotations := maps.Clone(obj.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[name] = value
	obj.SetAnnotations(annotations)
	withoutUID, _ := before.DeepCopyObject().(client.Object)
	withoutUID.SetUID("") // so that the patch has the UID, which the Kubernetes API server compares
	err := c.Patch(ctx, obj, mergePatch{client.MergeFrom(withoutUID), before}, client.FieldOwner(Manager))
	if isOtherUID(err) {
		err = ErrDeleted
	}
	if err != nil {
		return fmt.Errorf("set annotation %s: %w", name, orDeleted(err))
	}
	return settled(w.Version(ctx, Timeout, obj.GetResourceVersion()))
}

// isOtherUID reports whether a patch was rejected because the object of the name has another UID.
func isOtherUID(err error) bool {
	cause, found := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	return apierrors.IsInvalid(err) && found && cause.Field == "metadata.uid"
}

// orDeleted returns ErrDeleted for the error that an object does not exist, and others unchanged.
func orDeleted(err error) error {
	if apierrors.IsNotFound(err) {
		return ErrDeleted
	}
	return err
}

// settled returns the error of a wait after a write that succeeded: a slow cache or a caller that has
// gone do not make the write fail.
func settled(err error) error {
	if errors.Is(err, freshness.ErrTimeout) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// mergePatch is a patch that knows the object before the change.
type mergePatch struct {
	client.Patch
	before client.Object
}

// Before returns the object without the change.
func (p mergePatch) Before() client.Object { return p.before }

// pause waits for a random time that grows with the attempts, so that concurrent callers spread.
func pause(ctx context.Context, attempt int) error {
	most := min(longestPause, time.Millisecond<<min(attempt+1, 10))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rand.N(most)): //nolint:gosec // not security-relevant
		return nil
	}
}

func newOf[T client.Object]() T {
	var none T
	made, _ := reflect.New(reflect.TypeOf(none).Elem()).Interface().(T)
	return made
}
