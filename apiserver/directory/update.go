package directory

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// replaceResource changes the spec of a resource's object, in one write that is made only if the object is
// still what the change was made of. A new unique value is reserved before, and the old one
// released afterwards.
func (c *collection[T, S]) replaceResource(v *view, id string, change func(*schema.Resource) (schema.Document, error)) (*schema.Resource, error) {
	if !isName(id) {
		return nil, scimerror.NotFound(c.name, id)
	}
	done, err := c.d.turns.take(v.ctx, c.name, v.namespace, id)
	if err != nil {
		return nil, err
	}
	defer done()
	r := c.reservation(v, id)
	var before string
	editing := v.forEditing()
	defer func() { editing.end() }()
	w := c.d.seen.expect(c.name, v.namespace, id)
	defer w.end()
	key := client.ObjectKey{Namespace: v.namespace, Name: id}
	o, written, err := edit.Spec(v.ctx, c.d.kube, key, func(live, edited T) error {
		if !isVisible(live) {
			return scimerror.NotFound(c.name, id)
		}
		editing.end()
		editing = v.forEditing()
		before = c.unique.Value(live)
		return c.change(editing, r, live, edited, change)
	})
	if err != nil {
		if isRefusal(err) {
			r.release(v.ctx)
		}
		return nil, notFoundAs(err, c.name, id)
	}
	if written {
		if err := c.settle(v, r, o, before); err != nil {
			return nil, err
		}
		editing.seen()
		w.version(v.ctx, o.GetResourceVersion())
	}
	updated := c.resource(v, o)
	return updated, v.err
}

// change has a resource changed, and makes the spec of its object that.
func (c *collection[T, S]) change(editing *view, r *reservation[T, S], live, edited T, change func(*schema.Resource) (schema.Document, error)) error {
	resource := c.resource(editing, live)
	if editing.err != nil {
		return editing.err
	}
	d, err := change(resource)
	if err != nil {
		return err
	}
	if err := c.writeSpec(editing, edited, d); err != nil {
		return err
	}
	// First what takes long: a reserved value must not wait.
	if err := c.storeApart(editing, edited, d); err != nil {
		return err
	}
	if value := c.unique.Value(edited); c.unique.Name(value) == c.unique.Name(c.unique.Value(live)) {
		r.release(editing.ctx) // of a try before, when it had another value
		return nil
	}
	return r.reserve(c.unique.Value(edited))
}

// writeSpec makes the spec of an object what a document says, without what is kept apart.
func (c *collection[T, S]) writeSpec(v *view, o T, d schema.Document) error {
	spec := c.spec(o)
	c.table.write(v, o.GetName(), spec, d)
	return c.writeExtensions(v.resourceType, c.extensions(spec), d)
}

// storeApart writes what is kept in objects of its own.
func (c *collection[T, S]) storeApart(v *view, o T, d schema.Document) error {
	if c.store == nil {
		return nil
	}
	return c.store(v, o.GetName(), c.spec(o), d)
}

// settle ends a change of the unique value: the old one comes free. Who was so slow that somebody
// else has taken the new one goes back to the old one, which is still its own.
func (c *collection[T, S]) settle(v *view, r *reservation[T, S], o T, before string) error {
	value := c.unique.Value(o)
	if c.unique.Name(value) == c.unique.Name(before) {
		return nil
	}
	if held, err := r.confirm(v.ctx); !held || err != nil {
		c.rename(v, o.GetName(), value, before)
		return c.lost(v.ctx, err, value)
	}
	c.releaseClaim(v.ctx, v.namespace, o.GetName(), before)
	return nil
}

// rename gives an object its former value back, if it has the newer one still.
func (c *collection[T, S]) rename(v *view, id, from, to string) {
	ctx, cancel := afterwards(v.ctx)
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
		log.FromContext(ctx).Error(err, "Cannot take back a name that was lost; the object stays as one with the name taken", "kind", c.name, "name", id)
	}
}

// end ends all waiting for chunks.
func (v *view) end() {
	for _, w := range v.written {
		w.end()
	}
	v.written = nil
}

// seen waits until the cache has the chunks that were written.
func (v *view) seen() {
	for _, w := range v.written {
		w.version(v.ctx, w.written)
	}
}
