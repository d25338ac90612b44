package apikey

import (
	"fmt"
	"time"

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
	case !owner.IsActive():
		return v1alpha1.ReasonOwnerInactive, fmt.Sprintf("The user of the API key, %q, is not active", k.Spec.Owner.ScimUser)
	}
	return "", ""
}
