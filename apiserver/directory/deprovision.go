package directory

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/fieldowner"
)

// This file lets SCIM clients take access away although a manifest grants it
// (docs/decisions/0040). The deactivation of a user is in spec.deprovisionTime, and the members that were
// removed from a manifest's group in spec.removedMembers, which manifests do not contain: applying a
// manifest again changes neither.

const attributeActive = "active"

// active is the attribute active of a user. Its value is the effective state. Only an explicit value
// changes it. The document of a request over SCIM does not have the value false of a manifest: so one that it has
// afterwards is that of the request, and is stored besides that of the manifest, which may become true.
var active = &row[v1alpha1.ScimUserSpec]{
	name: attributeActive, defaultValue: true,
	get: func(v *view, _ string, s *v1alpha1.ScimUserSpec) any {
		if v.editing && bySCIM(v.ctx) && !s.IsActive() && s.DeprovisionTime == nil {
			return nil
		}
		return s.IsActive()
	},
	set: func(v *view, _ string, s *v1alpha1.ScimUserSpec, value any) {
		active, given := value.(bool)
		switch {
		case !given:
			return
		case active:
			s.DeprovisionTime = nil
		default:
			s.DeprovisionTime = new(metav1.NewTime(v.d.clock.Now().UTC()))
		}
		s.Active = &active
	},
}

// restoreLost restores what a SCIM client has taken away if the object was replaced by one without it, as the controllers are about
// to do, and reports whether it has: spec.deprovisionTime of a user, who is inactive for keys and tokens, and
// spec.removedMembers of a group.
func restoreLost(o v1alpha1.Object) bool {
	switch o := o.(type) {
	case *v1alpha1.ScimUser:
		if o.LostDeprovisionTime() {
			o.Spec.DeprovisionTime = o.Status.DeprovisionTime.DeepCopy()
			return true
		}
	case *v1alpha1.ScimGroup:
		if lost := o.LostRemovedMembers(); len(lost) > 0 {
			o.Spec.RemovedMembers = lost
			return true
		}
	}
	return false
}

// mayBeRestored reports whether spec.removedMembers of an object of the cache may be what restoreLost has set: the API server does
// not have it, so a patch that is based on the object would not contain it.
func mayBeRestored(cached v1alpha1.Object) bool {
	g, isGroup := cached.(*v1alpha1.ScimGroup)
	return isGroup && len(g.Spec.RemovedMembers) > 0 && !v1alpha1.HasSCIMWrite(g)
}

// beforeDeactivation creates the claim for the name of a user who is being deactivated. If an authoritative
// field manager owns spec.active, the field keeps its value, because the manager would revert the change:
// spec.deprovisionTime is sufficient to deactivate the user. The opposite change, which activates a user
// whose manifest contains active: false, is rejected by edit.Spec.
func beforeDeactivation(v *view, live, edited *v1alpha1.ScimUser) error {
	if edited.Spec.IsActive() || !live.Spec.IsActive() {
		return nil
	}
	if err := claims.Deprovision(v.ctx, v.d.kube.Client, live); err != nil {
		return err
	}
	owner, err := fieldowner.Of(live, "spec", attributeActive)
	if err == nil && owner == "" && !bySCIM(v.ctx) {
		owner, err = fieldowner.OfManager(live, fieldowner.SCIM, "spec", attributeActive)
	}
	if owner != "" {
		edited.Spec.Active = live.Spec.Active
	}
	return err
}

// bySCIM reports whether the request is one of a SCIM client.
func bySCIM(ctx context.Context) bool { return fieldowner.From(ctx) == fieldowner.SCIM }

// checkProvider returns an error if a request over REST changes a field of a user that a SCIM client, such as an identity
// provider, has written: it would write its own value again.
func checkProvider(ctx context.Context, live, edited *v1alpha1.ScimUser) error {
	if bySCIM(ctx) {
		return nil
	}
	changed, err := fieldowner.Changed(live, edited)
	if err != nil {
		return err
	}
	return fieldowner.CheckManager(live, changed, fieldowner.SCIM)
}

// withdrawnError is the error of a request that was rejected because a program owns an attribute. What
// the request takes away was taken away nevertheless.
type withdrawnError struct {
	*fieldowner.OwnedError
	// what was taken away.
	what string
}

// Unwrap returns the reason of the rejection.
func (e *withdrawnError) Unwrap() error { return e.OwnedError }

// deactivation deactivates a user if a document does. Over SCIM it also deactivates one who is inactive by the manifest only.
func deactivation(v *view, u *v1alpha1.ScimUser, d schema.Document) (string, error) {
	done := !u.Spec.IsActive() && (u.Spec.DeprovisionTime != nil || !bySCIM(v.ctx))
	if requested, given := d[attributeActive].(bool); !given || requested || done {
		return "", nil
	}
	live := u.DeepCopy()
	active.set(v, u.Name, &u.Spec, false)
	return "the user was deactivated", beforeDeactivation(v, live, u)
}

// removal removes the members from a group that a document removes.
func removal(v *view, g *v1alpha1.ScimGroup, d schema.Document) (string, error) {
	stored := g.Spec.RemovedMembers
	restoreLost(g)
	changes, err := v.members.SaveRemovals(&g.Spec, d[attributeMembers])
	if err != nil || len(changes) == 0 {
		g.Spec.RemovedMembers = stored // nothing to write
		return "", err
	}
	recording.Detail(v.ctx, g.Name, attributeMembers, changes)
	return "the members were removed", nil
}

// withdraw takes away what a rejected request takes away. It returns the error of the request.
func (c *collection[T, S]) withdraw(v *view, id string, rejected error, replace func(*schema.Resource) (schema.Document, error)) error {
	var owned *fieldowner.OwnedError
	if c.takeAway == nil || !errors.As(rejected, &owned) {
		return rejected
	}
	editing := v.forEditing()
	defer editing.members.End()
	w := c.d.tracker.Expect(c.id(v.namespace, id))
	defer w.Stop()
	var what string
	key := client.ObjectKey{Namespace: v.namespace, Name: id}
	o, written, err := edit.Spec(v.ctx, c.d.kube, key, func(live, edited T) error {
		resource := c.resource(editing, live)
		d, err := replace(resource)
		if err == nil {
			what, err = c.takeAway(editing, edited, d)
			c.stamp(live, edited)
		}
		return errors.Join(err, editing.members.Err())
	})
	switch {
	case errors.As(err, &owned): // nothing can be taken away
		return rejected
	case err != nil:
		return fmt.Errorf("take access away: %w", err)
	case !written:
		return rejected
	}
	editing.members.WaitForCache()
	_ = w.Version(v.ctx, cacheTimeout, o.GetResourceVersion()) // the write is done
	return &withdrawnError{owned, what}
}
