package directory

import (
	"context"
	"net/http"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// deleteResource deletes the object of a resource, as it was checked, and then what refers to it.
func (c *collection[T, S]) deleteResource(v *view, id string, check func(*schema.Resource) error) error {
	w := c.d.seen.expect(c.name, v.namespace, id)
	defer w.end()
	const tries = 5
	for try := 1; ; try++ {
		o, err := c.live(v.ctx, v.namespace, id)
		if err != nil {
			return err
		}
		if err := c.removable(v, o, check); err != nil {
			return err
		}
		uid, version := o.GetUID(), o.GetResourceVersion()
		err = c.d.kube.Client.Delete(v.ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version})
		if apierrors.IsConflict(err) && try < tries {
			continue
		}
		if err != nil {
			return notFoundAs(err, c.name, id)
		}
		c.releaseClaim(v.ctx, v.namespace, id, c.unique.Value(o))
		w.absence(v.ctx, uid)
		c.d.leaveGroups(v, id)
		return nil
	}
}

// removable tells whether an object may be deleted. What a program applies would come back.
func (c *collection[T, S]) removable(v *view, o T, check func(*schema.Resource) error) error {
	r := c.resource(v.forEditing(), o)
	if err := check(r); err != nil {
		return err
	}
	if owner := edit.Owner(o); owner != "" {
		return scimerror.New(http.StatusConflict, "%q owns this %s and would make it again: delete it where that is written, such as in Git", owner, c.name)
	}
	return nil
}

// leaveGroups removes the references to a resource that is gone. They are not shown any more, so
// what fails is no failure: the next who changes such a group may meet a reference to nothing.
func (d *Directory) leaveGroups(v *view, id string) {
	if d.users.visible(v.namespace, id) != nil || d.groups.visible(v.namespace, id) != nil {
		return // one of the other kind has the same name
	}
	const patience = 4 * patience // there may be many groups
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.ctx), patience)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(writers)
	for _, g := range d.referrers(v.namespace, id) {
		group.Go(func() error {
			err := d.leaveGroup(ctx, v, g.Name, id)
			if client.IgnoreNotFound(err) != nil {
				log.FromContext(ctx).Info("A reference to a member that is gone stays", "group", g.Name, "member", id, "reason", err.Error())
			}
			return nil
		})
	}
	_ = group.Wait() // never fails
}

func (d *Directory) leaveGroup(ctx context.Context, v *view, name, id string) error {
	done, err := d.turns.take(ctx, d.groups.name, v.namespace, name)
	if err != nil {
		return err
	}
	defer done()
	editing := &view{ctx: ctx, d: d, namespace: v.namespace, resourceType: schema.Group, editing: true}
	defer editing.end()
	key := client.ObjectKey{Namespace: v.namespace, Name: name}
	_, _, err = edit.Spec(ctx, d.kube, key, func(_, edited *v1alpha1.ScimGroup) error {
		m := newMembers(editing, &edited.Spec)
		m.Delete(id)
		return storeMembers(editing, name, &edited.Spec, schema.Document{attributeMembers: m})
	})
	return err
}
