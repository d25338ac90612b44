package auth

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/fold"
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=claims,verbs=get

const (
	// unknownUserFor is how long a user that SCIM does not know is not looked up again. A user that is deleted
	// was known, and is looked up then.
	unknownUserFor = time.Minute
	// maxUnknownUsers bounds the memory for such users: callers with valid tokens.
	maxUnknownUsers = 10_000
)

// knownUsers rejects users that were deprovisioned and deleted.
type knownUsers struct {
	live client.Reader
	// gone are users without a ScimUser by namespace and name; true if they were deprovisioned.
	gone *expiringCache[string, bool]
}

func newKnownUsers(live client.Reader, clk clock.PassiveClock) *knownUsers {
	return &knownUsers{live: live, gone: newExpiringCache[string, bool](clk, unknownUserFor, maxUnknownUsers)}
}

// check returns an error if a user, who has no ScimUser, was deprovisioned.
func (u *knownUsers) check(ctx context.Context, namespace, userName string) error {
	key := namespace + "/" + fold.Case(userName)
	deprovisioned, known := u.gone.get(key)
	if !known {
		var err error
		if deprovisioned, err = claims.IsDeprovisioned(ctx, u.live, namespace, userName); err != nil {
			return fmt.Errorf("check whether the user was deprovisioned: %w", err)
		}
		u.gone.put(key, deprovisioned)
	}
	if deprovisioned {
		return unauthenticated("the user was deprovisioned")
	}
	return nil
}
