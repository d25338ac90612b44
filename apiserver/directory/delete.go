package directory

import (
	"context"
	"errors"
	"net/http"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/fieldowner"
)

// deleteResource deletes the object of a resource at the version that was checked, and then the
// references to it.
func (c *collection[T, S]) deleteResource(v *view, id string, check func(*schema.Resource) error) error {
	w := c.d.tracker.Expect(c.id(v.namespace, id))
	defer w.Stop()
	var deleted T
	err := edit.Retry(v.ctx, func() (err error) {
		deleted, err = c.deleteObject(v, id, check)
		return err
	})
	if err != nil {
		return notFoundAs(err, c.name, id)
	}
	c.recordAgain(v.ctx, deleted)
	c.unique.TryRelease(v.ctx, c.d.kube, v.namespace, id, c.unique.Value(deleted))
	_ = w.Absence(v.ctx, cacheTimeout, deleted.GetUID()) // the write is done
	if c.cached(v.namespace, id) == nil {                // else it was created again
		c.d.removeFromGroups(v, id, v1alpha1.ScimMemberType(c.name))
	}
	return nil
}

// deleteObject deletes the object of a resource at the version that was checked. It returns a conflict if the object has
// changed meanwhile.
func (c *collection[T, S]) deleteObject(v *view, id string, check func(*schema.Resource) error) (T, error) {
	o, err := c.live(v.ctx, v.namespace, id)
	if err != nil {
		return o, err
	}
	if err := c.checkDeletable(v, o, check); err != nil {
		return o, err
	}
	if owner := fieldowner.OfSpec(o); owner != "" {
		return o, c.rejectDeletion(v, o, owner)
	}
	if c.recordDeletion != nil {
		if err := c.recordDeletion(v.ctx, c.d, o); err != nil {
			return o, err
		}
	}
	uid, version := o.GetUID(), o.GetResourceVersion()
	return o, c.d.kube.Client.Delete(v.ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version})
}

// recordAgain records the deletion of an object once more, best-effort: the controller may have deleted the record, because the
// object still existed.
func (c *collection[T, S]) recordAgain(ctx context.Context, deleted T) {
	if c.recordDeletion == nil {
		return
	}
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	if err := c.recordDeletion(ctx, c.d, deleted); err != nil {
		log.FromContext(ctx).Error(err, "Cannot confirm the record of a deletion", "kind", c.name, "name", deleted.GetName())
	}
}

// rejectDeletion returns the error for an object that a GitOps tool owns and would create again. A user is
// deactivated instead.
func (c *collection[T, S]) rejectDeletion(v *view, o T, owner string) error {
	const text = "%q owns this %s and would create it again: delete it at its source, such as Git"
	rejected := c.withdraw(v, o.GetName(), &fieldowner.OwnedError{Manager: owner}, func(r *schema.Resource) (schema.Document, error) {
		r.Document[attributeActive] = false
		return r.Document, nil
	})
	var withdrawn *withdrawnError
	var owned *fieldowner.OwnedError
	switch {
	case errors.As(rejected, &withdrawn):
		return scimerror.New(http.StatusConflict, text+". Until then, %s", owner, c.name, withdrawn.what)
	case errors.As(rejected, &owned):
		return scimerror.New(http.StatusConflict, text, owner, c.name)
	}
	return rejected
}

// checkDeletable returns an error if an object must not be deleted.
func (c *collection[T, S]) checkDeletable(v *view, o T, check func(*schema.Resource) error) error {
	r := c.resource(v.forEditing(), o)
	return check(r)
}

// removeFromGroups removes the references to a deleted user or group, best-effort: references to nothing are
// not visible.
func (d *Directory) removeFromGroups(v *view, id string, kind v1alpha1.ScimMemberType) {
	refers := d.refersTo(v.namespace, id, kind)
	const timeout = 4 * cacheTimeout // there may be many groups
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.ctx), timeout)
	defer cancel()
	var group errgroup.Group
	const concurrentWrites = 8
	group.SetLimit(concurrentWrites)
	for _, g := range v.referrers(id, refers) {
		group.Go(func() error {
			err := d.removeFromGroup(ctx, v, g.Name, id, refers)
			if client.IgnoreNotFound(err) != nil {
				log.FromContext(ctx).Info("Cannot remove a deleted member from a group; it is not visible", "group", g.Name, "member", id, "reason", err.Error())
			}
			return nil
		})
	}
	_ = group.Wait() // always nil
}

func (d *Directory) removeFromGroup(ctx context.Context, v *view, name, id string, refers func(*v1alpha1.ScimMember) bool) error {
	unlock, err := d.locks.Lock(ctx, d.groups.id(v.namespace, name))
	if err != nil {
		return err
	}
	defer unlock()
	editing := d.newView(&view{ctx: ctx, namespace: v.namespace, resourceType: schema.Group, editing: true})
	defer editing.members.End()
	key := client.ObjectKey{Namespace: v.namespace, Name: name}
	_, _, err = edit.Spec(ctx, d.kube, key, func(live, edited *v1alpha1.ScimGroup) error {
		restoreLost(edited)
		m := editing.members.Members(&edited.Spec)
		if stored := m.Stored(id); stored == nil || refers != nil && !refers(stored) {
			edited.Spec.RemovedMembers = live.Spec.RemovedMembers // nothing to write
			return editing.members.Err()                          // else changed since
		}
		m.Delete(id)
		if err := storeMembers(editing, name, &edited.Spec, schema.Document{attributeMembers: m}); err != nil {
			return err
		}
		d.groups.stamp(live, edited)
		return nil
	})
	return err
}
