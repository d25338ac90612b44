package apikey

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Refusal returns why a key is invalid: a reason of api/v1alpha1 and a message. Both are empty for a
// valid key. owner is the ScimUser that spec.owner names, nil if it does not exist.
func Refusal(k *v1alpha1.ApiKey, owner *v1alpha1.ScimUser, now time.Time) (reason, message string) {
	switch {
	case k.Spec.Revoked != nil && *k.Spec.Revoked:
		return v1alpha1.ReasonRevoked, "The API key has been revoked"
	case k.Spec.ExpirationTime != nil && !now.Before(k.Spec.ExpirationTime.Time):
		return v1alpha1.ReasonExpired, "The API key has expired"
	case k.Spec.Owner == nil:
		return "", ""
	case owner == nil:
		return v1alpha1.ReasonOwnerNotFound, fmt.Sprintf("The user of the API key, %q, does not exist", k.Spec.Owner.ScimUser)
	case wasOwnedByAnother(k, owner):
		return v1alpha1.ReasonOwnerNotFound, fmt.Sprintf("The user of the API key, %q, was deleted; another user has the name now", k.Spec.Owner.ScimUser)
	case !owner.IsActive():
		return v1alpha1.ReasonOwnerInactive, fmt.Sprintf("The user of the API key, %q, is not active", k.Spec.Owner.ScimUser)
	}
	return "", ""
}

// OwnedBy returns the owner reference of a key that ends with a ScimUser: it is deleted with the user, and not valid for a later user
// of the same name.
func OwnedBy(name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: userKind, Name: name, UID: uid}
}

const userKind = "ScimUser"

// wasOwnedByAnother reports whether a key has an owner reference to an earlier user of the same name.
func wasOwnedByAnother(k *v1alpha1.ApiKey, owner *v1alpha1.ScimUser) bool {
	return slices.ContainsFunc(k.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.Kind == userKind && r.Name == owner.Name && r.UID != owner.UID
	})
}
