package directory

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/lastmodified"
)

// replaceResource replaces the spec of a resource in one write with a resourceVersion precondition. It
// reserves a new unique value before the write and releases the old one after it.
func (c *collection[T, S]) replaceResource(v *view, id string, replace func(*schema.Resource) (schema.Document, error)) (*schema.Resource, error) {
	if !isName(id) {
		return nil, scimerror.NotFound(c.name, id)
	}
	unlock, err := c.d.locks.Lock(v.ctx, c.id(v.namespace, id))
	if err != nil {
		return nil, err
	}
	defer unlock()
	r := c.reservation(v, id)
	var before string
	editing := v.forEditing()
	defer func() { editing.members.End() }()
	w := c.d.tracker.Expect(c.id(v.namespace, id))
	defer w.Stop()
	o, written, err := c.edit(v, id, func(live, edited T) error {
		if !isVisible(live) {
			return scimerror.NotFound(c.name, id)
		}
		next := v.forEditing()
		next.members.Continue(editing.members)
		editing.members.End()
		editing = next
		before = c.unique.Value(live)
		return c.applyChange(editing, r, live, edited, replace)
	})
	if err != nil {
		if isRejection(err) {
			r.Release(v.ctx)
		}
		return nil, notFoundAs(c.withdraw(v, id, err, replace), c.name, id)
	}
	if written {
		if err := c.finishRename(v, r, o, before); err != nil {
			return nil, err
		}
		editing.members.WaitForCache()
		_ = w.Version(v.ctx, cacheTimeout, o.GetResourceVersion()) // the write is done
	}
	return c.response(v, o)
}

// applyChange calls replace with the live resource and writes the result to the spec of edited. A lost deactivation or removal of
// members is restored before, and the annotation of a write over SCIM shows that it was not lost if replace ends it.
func (c *collection[T, S]) applyChange(editing *view, r *claims.Reservation[T], live, edited T, replace func(*schema.Resource) (schema.Document, error)) error {
	restored := restoreLost(edited)
	if restored {
		live, _ = edited.DeepCopyObject().(T)
	}
	resource := c.resource(editing, live)
	if err := editing.members.Err(); err != nil {
		return err
	}
	d, err := replace(resource)
	if err != nil {
		return err
	}
	if err := c.writeSpec(editing, edited, d); err != nil {
		return err
	}
	if c.beforeUpdate != nil {
		if err := c.beforeUpdate(editing, live, edited); err != nil {
			return err
		}
	}
	// Slow writes come before the reservation, which must not expire.
	if err := c.storeSeparately(editing, edited, d); err != nil {
		return err
	}
	if restored {
		lastmodified.Stamp(edited, c.d.clock.Now())
	} else {
		c.stamp(live, edited)
	}
	if value := c.unique.Value(edited); c.unique.Name(value) == c.unique.Name(c.unique.Value(live)) {
		r.Release(editing.ctx) // of an earlier attempt with another value
		return nil
	}
	return c.reserve(editing, r, c.unique.Value(edited))
}

// stamp records the time of a change of the spec. An unchanged object must not be written.
func (c *collection[T, S]) stamp(live, edited T) {
	if !equality.Semantic.DeepEqual(c.spec(live), c.spec(edited)) {
		lastmodified.Stamp(edited, c.d.clock.Now())
	}
}

// writeSpec sets the spec of an object to a document, except attributes that are stored separately.
func (c *collection[T, S]) writeSpec(v *view, o T, d schema.Document) error {
	spec := c.spec(o)
	c.table.write(v, o.GetName(), spec, d)
	return c.writeExtensions(v.resourceType, spec, d)
}

// storeSeparately writes attributes that are stored in separate objects.
func (c *collection[T, S]) storeSeparately(v *view, o T, d schema.Document) error {
	if c.store == nil {
		return nil
	}
	return c.store(v, o.GetName(), c.spec(o), d)
}

// ChangeUser edits the spec of a ScimUser, except its user name, in one write, and returns the object as it is afterwards. It
// returns edit.ErrDeleted if there is none.
func (d *Directory) ChangeUser(ctx context.Context, namespace, name string, change func(*v1alpha1.ScimUser) error) (*v1alpha1.ScimUser, error) {
	if !isName(name) {
		return nil, edit.ErrDeleted
	}
	unlock, err := d.locks.Lock(ctx, d.users.id(namespace, name))
	if err != nil {
		return nil, err
	}
	defer unlock()
	w := d.tracker.Expect(d.users.id(namespace, name))
	defer w.Stop()
	u, written, err := edit.Spec(ctx, d.kube, client.ObjectKey{Namespace: namespace, Name: name}, func(live, edited *v1alpha1.ScimUser) error {
		if !isVisible(live) {
			return edit.ErrDeleted
		}
		restoreLost(edited)
		if err := change(edited); err != nil {
			return err
		}
		if err := checkProvider(ctx, live, edited); err != nil {
			return err
		}
		d.users.stamp(live, edited)
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil, edit.ErrDeleted
	}
	if err == nil && written {
		_ = w.Version(ctx, cacheTimeout, u.GetResourceVersion()) // the write is done
	}
	return u, err
}

// FindUser returns a ScimUser by its number in the REST API or by its SCIM id, from the API server. It returns edit.ErrDeleted if
// there is none, or several with the number.
func (d *Directory) FindUser(ctx context.Context, namespace, id string) (*v1alpha1.ScimUser, error) {
	if n, isNumber := ids.Parse(id); isNumber {
		if named := d.users.numbered(namespace, n); len(named) == 1 {
			id = named[0]
		}
	}
	u, err := d.users.live(ctx, namespace, id)
	if isNotFound(err) {
		return nil, edit.ErrDeleted
	}
	return u, err
}

// FindGroup returns a ScimGroup by its number in the REST API, from the cache. It returns edit.ErrDeleted if there is none, or several
// with the number.
func (d *Directory) FindGroup(namespace string, n int64) (*v1alpha1.ScimGroup, error) {
	if named := d.groups.numbered(namespace, n); len(named) == 1 {
		if g := d.groups.visible(namespace, named[0]); g != nil {
			return g, nil
		}
	}
	return nil, edit.ErrDeleted
}

// NameOfGroup returns the UID and the display name of a group, from the cache; empty if there is none.
func (d *Directory) NameOfGroup(namespace, group string) (uid, name string) {
	if g := d.groups.visible(namespace, group); g != nil {
		return string(g.UID), g.Spec.DisplayName
	}
	return "", ""
}

// GroupIsGone reports whether the group with a name and a UID was deleted; with an empty UID, whether there is no group of the name. One
// in the cache exists; absence is confirmed by the Kubernetes API server.
func (d *Directory) GroupIsGone(ctx context.Context, namespace, group, uid string) (bool, error) {
	if g := d.groups.visible(namespace, group); g != nil && (uid == "" || string(g.UID) == uid) {
		return false, nil
	}
	live := &v1alpha1.ScimGroup{}
	err := d.kube.Live().Get(ctx, client.ObjectKey{Namespace: namespace, Name: group}, live)
	// A 404 with an unexpected body means that the kind is not served, not that the object is absent.
	if apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read group %q: %w", group, err)
	}
	return uid != "" && string(live.UID) != uid, nil
}

// finishRename releases the old unique value after a change. If the reservation of the new value expired
// and another object has it, finishRename reverts to the old value, which the object still holds.
func (c *collection[T, S]) finishRename(v *view, r *claims.Reservation[T], o T, before string) error {
	value := c.unique.Value(o)
	if c.unique.Name(value) == c.unique.Name(before) {
		return nil
	}
	if held, err := r.Confirm(v.ctx); !held || err != nil {
		c.revertName(v, o.GetName(), value, before)
		return c.reservationLost(v.ctx, err, value)
	}
	c.unique.TryRelease(v.ctx, c.d.kube, v.namespace, o.GetName(), before)
	return nil
}

// revertName sets the unique value of an object to its previous value unless it has changed again.
func (c *collection[T, S]) revertName(v *view, id, from, to string) {
	ctx, cancel := cleanupContext(v.ctx)
	defer cancel()
	key := client.ObjectKey{Namespace: v.namespace, Name: id}
	_, _, err := edit.Spec(ctx, c.d.kube, key, func(_, edited T) error {
		spec := c.spec(edited)
		if r := c.table.byName[c.uniqueName]; c.unique.Value(edited) == from {
			r.set(v, id, spec, to)
		}
		return nil
	})
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot revert a lost name; the object stays with Ready=False, NameTaken", "kind", c.name, "name", id)
	}
}
