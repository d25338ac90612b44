// Package claims makes a value unique in a namespace.
//
// A Claim is named after the hash of the value, so the API server itself lets only one
// exist, whoever races: several replicas of the front end, the controller, kubectl. It is
// made before its holder takes the value.
//
// There are two kinds of claims. One that a controller made (Ensure) has the UID of its
// holder, is owned by it and goes with it. One that the front end made (Reserve) before
// there was a holder has no UID, and belongs to whoever is called so: nothing has to be
// written again when the holder is there, which makes a user cost two writes. It goes when
// the front end says so (Release), or with the Sweep.
//
// A claim whose holder no longer exists or no longer has the value is taken over. One
// without UID may be in flight: its holder is about to be written. It is left alone while it
// is younger than a minute, except by Reserve, which waits for ReserveTimeout to see what becomes of
// it; who takes longer than that to write has to Confirm.
package claims

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
)

// IndexHolder is the field by which the claims of a holder are found. Holders of several
// kinds may have the same name.
const IndexHolder = "spec.holder.name"

// youth is the age below which a claim without UID may be in flight. It is compared with the
// API server's clock, so it is much longer than a write takes.
const youth = time.Minute

// ErrInFlight says that a value is claimed for an object that does not have it (yet): it will
// have it, or the claim comes free, within a minute.
var ErrInFlight = errors.New("the value is just being given to another object")

// Attribute is a field whose values are unique in a namespace.
type Attribute[T client.Object] struct {
	// Kind of the objects that have the field.
	Kind string
	// Field is the name of the field.
	Field string
	// Value of the field.
	Value func(T) string
	// Form is what two values have in common that count as the same; nil compares them as
	// they are.
	Form func(string) string
	// New makes an empty object.
	New func() T
	// Clock tells how old claims are; nil is the clock of this machine.
	Clock clock.Clock
}

// Name is the name of the claim for a value.
func (a Attribute[T]) Name(value string) string {
	if a.Form != nil {
		value = a.Form(value)
	}
	sum := sha256.Sum256([]byte(a.Kind + "\x00" + a.Field + "\x00" + value))
	return strings.ToLower(a.Kind+"-"+a.Field) + "-" + hex.EncodeToString(sum[:16])
}

// IsNameTaken tells whether an object's unique value is held by another one: a controller has said so.
func IsNameTaken(o v1alpha1.Object) bool {
	ready := meta.FindStatusCondition(o.Common().Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == v1alpha1.ReasonNameTaken
}

// Ensure makes obj the holder of its value. It returns the name of the object that holds
// the value when that is another one, and empty when obj holds it. ErrInFlight says that it
// is not known yet.
func (a Attribute[T]) Ensure(ctx context.Context, c *kube.Client, obj T) (string, error) {
	claim := &v1alpha1.Claim{}
	key := client.ObjectKey{Namespace: obj.GetNamespace(), Name: a.Name(a.Value(obj))}
	err := c.Get(ctx, key, claim)
	if apierrors.IsNotFound(err) {
		err = c.Create(ctx, a.owned(obj, key))
		if err == nil {
			return "", a.release(ctx, c, obj, key.Name)
		}
		if apierrors.IsAlreadyExists(err) {
			err = c.Live().Get(ctx, key, claim)
		}
	}
	if err != nil {
		return "", fmt.Errorf("claim %s: %w", a.id(), err)
	}
	holder := claim.Spec.Holder
	if holder.UID == string(obj.GetUID()) || holder.UID == "" && holder.Name == obj.GetName() {
		return "", a.release(ctx, c, obj, key.Name)
	}
	held, err := a.holds(ctx, c.Live(), claim)
	if err != nil {
		return "", fmt.Errorf("read the holder of claim %q: %w", claim.Name, err)
	}
	if held {
		return holder.Name, nil
	}
	if a.inFlight(claim) {
		return "", fmt.Errorf("%s: claimed for %q: %w", a.id(), holder.Name, ErrInFlight)
	}
	mine := a.owned(obj, key)
	mine.ResourceVersion = claim.ResourceVersion
	if err := c.Update(ctx, mine); err != nil {
		return "", fmt.Errorf("take over claim on %s: %w", a.id(), err)
	}
	return "", a.release(ctx, c, obj, key.Name)
}

// id names the attribute, as claims do.
func (a Attribute[T]) id() string { return a.Kind + "." + a.Field }

// claim is a claim for whoever has a name.
func (a Attribute[T]) claim(key client.ObjectKey, name string) *v1alpha1.Claim {
	return &v1alpha1.Claim{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       v1alpha1.ClaimSpec{Attribute: a.id(), Holder: v1alpha1.ClaimHolder{Kind: a.Kind, Name: name}},
	}
}

// owned is a claim for an object that exists, and that takes the claim with it when it goes.
func (a Attribute[T]) owned(obj T, key client.ObjectKey) *v1alpha1.Claim {
	claim := a.claim(key, obj.GetName())
	claim.Spec.Holder.UID = string(obj.GetUID())
	claim.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: a.Kind, Name: obj.GetName(), UID: obj.GetUID(),
	}}
	return claim
}

// holds tells whether the holder of a claim exists and has the value. c reads either the
// cache or the API server: one that may read both would decode into what the cache holds.
func (a Attribute[T]) holds(ctx context.Context, c client.Reader, claim *v1alpha1.Claim) (bool, error) {
	holder := a.New()
	key := client.ObjectKey{Namespace: claim.Namespace, Name: claim.Spec.Holder.Name}
	if err := c.Get(ctx, key, holder, client.UnsafeDisableDeepCopy); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	// A holder that had no UID when it was claimed for is any object of that name.
	same := claim.Spec.Holder.UID == "" || string(holder.GetUID()) == claim.Spec.Holder.UID
	return same && a.Name(a.Value(holder)) == claim.Name, nil
}

// inFlight tells whether the holder of a claim, which does not have the value, may be about
// to be written.
func (a Attribute[T]) inFlight(claim *v1alpha1.Claim) bool {
	return claim.Spec.Holder.UID == "" && a.clock().Since(claim.CreationTimestamp.Time) <= youth
}

func (a Attribute[T]) clock() clock.Clock {
	if a.Clock != nil {
		return a.Clock
	}
	return clock.RealClock{}
}

// release removes the claims of obj on values that it no longer has. Those that may be in
// flight are for values that it is about to get.
func (a Attribute[T]) release(ctx context.Context, c *kube.Client, obj T, keep string) error {
	list := &v1alpha1.ClaimList{}
	if err := c.List(ctx, list, client.InNamespace(obj.GetNamespace()),
		client.MatchingFields{IndexHolder: obj.GetName()}); err != nil {
		return fmt.Errorf("list claims of %s %q: %w", a.Kind, obj.GetName(), err)
	}
	for i := range list.Items {
		claim := &list.Items[i]
		namesake := claim.Spec.Holder.UID != "" && claim.Spec.Holder.UID != string(obj.GetUID())
		if claim.Name == keep || claim.Spec.Attribute != a.id() || namesake || a.inFlight(claim) {
			continue
		}
		if err := remove(ctx, c, claim); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("release claim %q: %w", claim.Name, err)
		}
	}
	return nil
}

// remove deletes a claim, unless it has changed since it was read.
func remove(ctx context.Context, c client.Writer, claim *v1alpha1.Claim) error {
	return c.Delete(ctx, claim, client.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion})
}
