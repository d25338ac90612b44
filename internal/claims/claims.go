// Package claims makes a value unique in a namespace, and hosts (Hosts) unique in the cluster.
//
// The name of a Claim is a hash of the value, so the Kubernetes API server admits only one,
// regardless of concurrent writers: replicas of `quoin apiserver`, the controller, kubectl. It
// is created before its holder gets the value.
//
// Claims on hosts, and the records of deprovisioned users (Deprovision), are described there. Of the
// others there are two kinds. One that a controller created (Ensure) has the UID of its holder, is
// owned by it and is garbage-collected with it. One that the API server (`quoin apiserver`) created
// (Reserve) before its holder exists has no UID and belongs to the object with the holder's name: it
// needs no update when the holder is created, so a user costs two writes. It is deleted by Release or
// by the Sweep.
//
// A claim whose holder does not exist or does not have the value is taken over. One without
// UID may be in flight: its holder is about to be written. It is kept for
// inFlightGracePeriod. Only Reserve takes it over after ReserveTimeout; a writer that took
// longer has to call Confirm.
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

// IndexHolder is the indexed field of claims that names their holder. Holders of different
// kinds may have the same name.
const IndexHolder = "spec.holder.name"

// inFlightGracePeriod is the age up to which a claim without UID may be in flight. It is much
// longer than a write, because the age depends on the Kubernetes API server's clock.
const inFlightGracePeriod = time.Minute

// ErrInFlight means that a value is claimed for an object that does not have it yet. Within a
// minute the object has it, or the claim can be taken over.
var ErrInFlight = errors.New("the value is being claimed by another object")

// Attribute is a field whose values are unique in a namespace.
type Attribute[T client.Object] struct {
	// Kind is the kind of the objects that have the field.
	Kind string
	// Field is the name of the field.
	Field string
	// Value returns the value of the field.
	Value func(T) string
	// Form returns the canonical form of a value; nil compares values as they are.
	Form func(string) string
	// New returns an empty object.
	New func() T
	// Clock determines the age of claims; nil is the system clock.
	Clock clock.Clock
}

// Name returns the name of the claim on a value.
func (a Attribute[T]) Name(value string) string {
	if a.Form != nil {
		value = a.Form(value)
	}
	sum := sha256.Sum256([]byte(a.Kind + "\x00" + a.Field + "\x00" + value))
	return strings.ToLower(a.Kind+"-"+a.Field) + "-" + hex.EncodeToString(sum[:16])
}

// IsNameTaken reports whether a controller has found that another object holds the unique
// value of o.
func IsNameTaken(o v1alpha1.Object) bool {
	ready := meta.FindStatusCondition(o.Common().Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == v1alpha1.ReasonNameTaken
}

// Ensure makes obj the holder of its value. It returns the name of the holder if that is
// another object, and an empty name if obj holds the value. ErrInFlight means that the holder
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
	updated := a.owned(obj, key)
	updated.ResourceVersion = claim.ResourceVersion
	if err := c.Update(ctx, updated); err != nil {
		return "", fmt.Errorf("take over claim on %s: %w", a.id(), err)
	}
	return "", a.release(ctx, c, obj, key.Name)
}

// id returns the name of the attribute in claims.
func (a Attribute[T]) id() string { return a.Kind + "." + a.Field }

// claim returns a claim without UID for the object with a name.
func (a Attribute[T]) claim(key client.ObjectKey, name string) *v1alpha1.Claim {
	return &v1alpha1.Claim{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       v1alpha1.ClaimSpec{Attribute: a.id(), Holder: v1alpha1.ClaimHolder{Kind: a.Kind, Name: name}},
	}
}

// owned returns a claim that is owned by an existing object.
func (a Attribute[T]) owned(obj T, key client.ObjectKey) *v1alpha1.Claim {
	claim := a.claim(key, obj.GetName())
	claim.Spec.Holder.UID = string(obj.GetUID())
	claim.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: a.Kind, Name: obj.GetName(), UID: obj.GetUID(),
	}}
	return claim
}

// holds reports whether the holder of a claim exists and has the value. c reads either only
// the cache or only the API server: a client that reads both would decode into objects of the cache.
func (a Attribute[T]) holds(ctx context.Context, c client.Reader, claim *v1alpha1.Claim) (bool, error) {
	holder := a.New()
	key := client.ObjectKey{Namespace: claim.Namespace, Name: claim.Spec.Holder.Name}
	if err := c.Get(ctx, key, holder, client.UnsafeDisableDeepCopy); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	// Without a UID, the holder is any object with the name.
	same := claim.Spec.Holder.UID == "" || string(holder.GetUID()) == claim.Spec.Holder.UID
	return same && a.Name(a.Value(holder)) == claim.Name, nil
}

// inFlight reports whether the holder of a claim, which does not have the value, may be about
// to be written.
func (a Attribute[T]) inFlight(claim *v1alpha1.Claim) bool {
	return claim.Spec.Holder.UID == "" && a.clock().Since(claim.CreationTimestamp.Time) <= inFlightGracePeriod
}

// mayBeOrphaned implements Kind: claims with a UID have an owner.
func (a Attribute[T]) mayBeOrphaned(claim *v1alpha1.Claim) bool { return claim.Spec.Holder.UID == "" }

func (a Attribute[T]) clock() clock.Clock {
	if a.Clock != nil {
		return a.Clock
	}
	return clock.RealClock{}
}

// release deletes the claims of obj on values that it no longer has. A claim that may be in
// flight is kept: obj may be about to get the value.
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

// remove deletes a claim unless it has changed since it was read.
func remove(ctx context.Context, c client.Writer, claim *v1alpha1.Claim) error {
	return c.Delete(ctx, claim, client.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion})
}
