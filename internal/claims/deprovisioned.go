package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/fold"
	"github.com/quoin-dev/quoin/internal/kube"
)

// deprovisioned is the attribute of claims that outlive their user: the userNames of users that were
// deactivated, or deleted over SCIM. As long as no user has such a name, access tokens with it are
// rejected (docs/decisions/0041). Unlike other claims they are not unique values of a holder: they have
// no owner reference, so they are not garbage-collected, and the Sweep deletes only those above
// maxDeprovisioned.
var deprovisioned = Attribute[*v1alpha1.ScimUser]{
	Kind: "ScimUser", Field: "deprovisioned", Form: fold.Case,
	Value: func(u *v1alpha1.ScimUser) string { return u.Spec.UserName },
	New:   func() *v1alpha1.ScimUser { return &v1alpha1.ScimUser{} },
}

// maxDeprovisioned is the number of claims on the names of deprovisioned users of a namespace who do not exist
// any more. The oldest are deleted first.
const maxDeprovisioned = 10_000

// Deprovision records that a user is being deactivated or deleted, before it is. After a deletion it must be called again:
// EnsureDeprovisioned may have deleted the record of a user who was still active.
func Deprovision(ctx context.Context, c client.Writer, u *v1alpha1.ScimUser) error {
	key := client.ObjectKey{Namespace: u.Namespace, Name: deprovisioned.Name(u.Spec.UserName)}
	claim := deprovisioned.claim(key, u.Name)
	claim.Spec.Holder.UID = string(u.UID)
	if err := c.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("record that user %q is deprovisioned: %w", u.Name, err)
	}
	return nil
}

// EnsureDeprovisioned records whether a user is deprovisioned. c reads from a cache; nothing is written if the
// record is as it should be.
func EnsureDeprovisioned(ctx context.Context, c *kube.Client, u *v1alpha1.ScimUser) error {
	claim := &v1alpha1.Claim{}
	err := c.Get(ctx, client.ObjectKey{Namespace: u.Namespace, Name: deprovisioned.Name(u.Spec.UserName)}, claim)
	switch {
	case apierrors.IsNotFound(err) && !u.IsActive():
		return Deprovision(ctx, c, u)
	case err == nil && u.IsActive():
		return removeDeprovisioned(ctx, c, claim, u)
	}
	return client.IgnoreNotFound(err)
}

// removeDeprovisioned deletes the record of a user who is active by the cache. The user may have been deleted over SCIM
// since, which must stay recorded. So the user is read from the API server, and once more after the record was deleted: one
// who is deleted in between is recorded again. One who is deleted even later is recorded by the request that does it, which
// calls Deprovision again after the deletion.
func removeDeprovisioned(ctx context.Context, c *kube.Client, claim *v1alpha1.Claim, u *v1alpha1.ScimUser) error {
	if active, err := isStillActive(ctx, c.Live(), u); err != nil || !active {
		return err
	}
	if err := remove(ctx, c, claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	active, err := isStillActive(ctx, c.Live(), u)
	if err == nil && active {
		return nil
	}
	return errors.Join(err, Deprovision(ctx, c, u))
}

// isStillActive reports whether a user exists and is active, with the same name. live reads from the API server.
func isStillActive(ctx context.Context, live client.Reader, u *v1alpha1.ScimUser) (bool, error) {
	current := &v1alpha1.ScimUser{}
	if err := live.Get(ctx, client.ObjectKeyFromObject(u), current); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	sameName := deprovisioned.Name(current.Spec.UserName) == deprovisioned.Name(u.Spec.UserName)
	return sameName && current.IsActive(), nil
}

// IsDeprovisioned reports whether a user with this userName was deprovisioned. It must be called only if no user
// has the name. c reads from the API server.
func IsDeprovisioned(ctx context.Context, c client.Reader, namespace, userName string) (bool, error) {
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: deprovisioned.Name(userName)}, &v1alpha1.Claim{})
	return err == nil, client.IgnoreNotFound(err)
}

// sweepDeprovisioned deletes the oldest records above the limit of each namespace. Those of users who exist do not
// count: the controller would create them again, as newer ones than those of users who were deleted.
func (s *Sweep) sweepDeprovisioned(ctx context.Context, list *v1alpha1.ClaimList) error {
	byNamespace := map[string][]*v1alpha1.Claim{}
	for i := range list.Items {
		if claim := &list.Items[i]; claim.Spec.Attribute == deprovisioned.id() {
			byNamespace[claim.Namespace] = append(byNamespace[claim.Namespace], claim)
		}
	}
	var failed []error
	for _, all := range byNamespace {
		if len(all) <= s.maxDeprovisioned {
			continue
		}
		gone, err := s.withoutUser(ctx, all)
		failed = append(failed, err)
		excess := len(gone) - s.maxDeprovisioned
		if err != nil || excess <= 0 {
			continue
		}
		slices.SortFunc(gone, func(x, y *v1alpha1.Claim) int { return x.CreationTimestamp.Compare(y.CreationTimestamp.Time) })
		for _, claim := range gone[:excess] {
			failed = append(failed, client.IgnoreNotFound(remove(ctx, s.client, claim)))
		}
	}
	return errors.Join(failed...)
}

// withoutUser returns the records whose users, by the cache, do not exist or have another name.
func (s *Sweep) withoutUser(ctx context.Context, all []*v1alpha1.Claim) ([]*v1alpha1.Claim, error) {
	var gone []*v1alpha1.Claim
	for _, claim := range all {
		held, err := deprovisioned.holds(ctx, s.client.Client, claim)
		if err != nil {
			return nil, fmt.Errorf("read the user of claim %q: %w", client.ObjectKeyFromObject(claim), err)
		}
		if !held {
			gone = append(gone, claim)
		}
	}
	return gone, nil
}
