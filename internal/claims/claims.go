// Package claims makes a value unique in a namespace.
//
// A Claim is named after the hash of the value, so the API server itself lets only one
// exist, whoever races: several replicas of the front end, the controller, kubectl. It is
// made before its holder takes the value and goes with the holder; one whose holder no
// longer exists or no longer has the value is taken over.
package claims

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
)

// IndexHolder is the field by which the claims of a holder are found.
const IndexHolder = "spec.holder.uid"

// Attribute is a field whose values are unique in a namespace.
type Attribute[T client.Object] struct {
	// Kind of the objects that have the field.
	Kind string
	// Field is the name of the field.
	Field string
	// Value of the field, in the form in which it is compared.
	Value func(T) string
	// New makes an empty object.
	New func() T
}

// Name is the name of the claim for a value.
func (a Attribute[T]) Name(value string) string {
	sum := sha256.Sum256([]byte(a.Kind + "\x00" + a.Field + "\x00" + value))
	return strings.ToLower(a.Kind+"-"+a.Field) + "-" + hex.EncodeToString(sum[:16])
}

// Ensure makes obj the holder of its value. It returns the name of the object that holds
// the value when that is another one, and empty when obj holds it.
func (a Attribute[T]) Ensure(ctx context.Context, c *kube.Client, obj T) (string, error) {
	claim := &v1alpha1.Claim{}
	key := client.ObjectKey{Namespace: obj.GetNamespace(), Name: a.Name(a.Value(obj))}
	err := c.Get(ctx, key, claim)
	if apierrors.IsNotFound(err) {
		err = c.Create(ctx, a.claim(obj, key))
		if err == nil {
			return "", a.release(ctx, c, obj, key.Name)
		}
		if apierrors.IsAlreadyExists(err) {
			err = c.Live().Get(ctx, key, claim)
		}
	}
	if err != nil {
		return "", fmt.Errorf("claim %s.%s: %w", a.Kind, a.Field, err)
	}
	holder := claim.Spec.Holder
	if holder.UID == string(obj.GetUID()) {
		return "", a.release(ctx, c, obj, key.Name)
	}
	if holder.UID != "" || holder.Name != obj.GetName() {
		orphaned, err := a.orphaned(ctx, c, claim, a.Value(obj))
		if err != nil {
			return "", err
		}
		if !orphaned {
			return holder.Name, nil
		}
	}
	mine := a.claim(obj, key)
	mine.ResourceVersion = claim.ResourceVersion
	if err := c.Update(ctx, mine); err != nil {
		return "", fmt.Errorf("take over claim on %s.%s: %w", a.Kind, a.Field, err)
	}
	return "", a.release(ctx, c, obj, key.Name)
}

// claim is the claim of obj under a key.
func (a Attribute[T]) claim(obj T, key client.ObjectKey) *v1alpha1.Claim {
	return &v1alpha1.Claim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: a.Kind, Name: obj.GetName(), UID: obj.GetUID(),
			}},
		},
		Spec: v1alpha1.ClaimSpec{
			Attribute: a.Kind + "." + a.Field,
			Holder:    v1alpha1.ClaimHolder{Kind: a.Kind, Name: obj.GetName(), UID: string(obj.GetUID())},
		},
	}
}

// orphaned asks the API server whether the holder of a claim is gone or has another value now.
func (a Attribute[T]) orphaned(ctx context.Context, c *kube.Client, claim *v1alpha1.Claim, value string) (bool, error) {
	holder := a.New()
	key := client.ObjectKey{Namespace: claim.Namespace, Name: claim.Spec.Holder.Name}
	if err := c.Live().Get(ctx, key, holder); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	// A holder that had no UID when it was claimed for is any object of that name.
	same := claim.Spec.Holder.UID == "" || string(holder.GetUID()) == claim.Spec.Holder.UID
	return !same || a.Value(holder) != value, nil
}

// release removes the claims of obj on values that it no longer has.
func (a Attribute[T]) release(ctx context.Context, c *kube.Client, obj T, keep string) error {
	list := &v1alpha1.ClaimList{}
	if err := c.List(ctx, list, client.InNamespace(obj.GetNamespace()),
		client.MatchingFields{IndexHolder: string(obj.GetUID())}); err != nil {
		return fmt.Errorf("list claims of %s %q: %w", a.Kind, obj.GetName(), err)
	}
	for i := range list.Items {
		claim := &list.Items[i]
		if claim.Name == keep || claim.Spec.Attribute != a.Kind+"."+a.Field {
			continue
		}
		err := c.Delete(ctx, claim, client.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("release claim %q: %w", claim.Name, err)
		}
	}
	return nil
}
