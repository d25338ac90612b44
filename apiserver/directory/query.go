package directory

import (
	"context"
	"iter"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// lookup finds the resources that may have a value: all of those that do, and perhaps others.
type lookup[T v1alpha1.Object, S any] func(c *collection[T, S], v *view, value string) ([]T, error)

// listResources chooses how candidates are found: by an index, all of them, or, where nothing is filtered
// and nothing sorted, only those on the page.
func (c *collection[T, S]) listResources(v *view, q *scim.Query) (*scim.Page, error) {
	page, err := c.find(v, q)
	if v.err != nil {
		return nil, v.err
	}
	return page, err
}

func (c *collection[T, S]) find(v *view, q *scim.Query) (*scim.Page, error) {
	indexed := func(ref schema.Ref) bool { return c.lookups[ref.String()] != nil }
	if lookups, ok := q.Filter.Lookups(indexed); ok {
		found := map[string]T{}
		for _, l := range lookups {
			objects, err := c.lookups[l.Ref.String()](c, v, l.Value)
			if err != nil {
				return nil, err
			}
			for _, o := range objects {
				found[o.GetName()] = newer(found[o.GetName()], o)
			}
		}
		return q.Select(v.ctx, c.items(v, inOrder(found)))
	}
	all := c.records.of(v.namespace)
	if q.Filter == nil && q.Order == nil {
		return c.page(v, all, q), v.ctx.Err()
	}
	return q.Select(v.ctx, c.items(v, all.all()))
}

// newer of two copies of an object, one of which may come from the API server.
func newer[T v1alpha1.Object](x, y T) T {
	if exists(x) && x.GetGeneration() > y.GetGeneration() {
		return x
	}
	return y
}

// inOrder goes through objects in the store's own order.
func inOrder[T v1alpha1.Object](found map[string]T) iter.Seq[T] {
	sorted := make([]record[T], 0, len(found))
	for _, o := range found {
		sorted = append(sorted, recordOf(o))
	}
	slices.SortFunc(sorted, func(x, y record[T]) int {
		switch {
		case before(x, y):
			return -1
		case before(y, x):
			return 1
		}
		return 0
	})
	return func(yield func(T) bool) {
		for _, r := range sorted {
			if !yield(r.object) {
				return
			}
		}
	}
}

// items makes candidates of objects, many at a time: one by one they would cost more than looking
// at them.
func (c *collection[T, S]) items(v *view, objects iter.Seq[T]) iter.Seq[scim.Item] {
	const block = 128
	return func(yield func(scim.Item) bool) {
		var items []item[T, S]
		for o := range objects {
			if len(items) == cap(items) {
				items = make([]item[T, S], 0, block)
			}
			items = append(items, item[T, S]{c: c, v: v, object: o})
			if !yield(&items[len(items)-1]) {
				return
			}
		}
	}
}

// page cuts a page out of all resources. It costs the same wherever the page is.
func (c *collection[T, S]) page(v *view, all snapshot[T], q *scim.Query) *scim.Page {
	page := &scim.Page{Total: all.len()}
	if q.Count == 0 {
		return page
	}
	objects := all.from(q.Start)
	if q.After != nil {
		objects = all.after(*q.After)
	}
	var last T
	for o := range objects {
		if len(page.Resources) == q.Count {
			next := scim.PositionOf(last.GetCreationTimestamp().Time, last.GetName())
			page.Next = &next
			break
		}
		page.Resources = append(page.Resources, c.resource(v, o))
		last = o
	}
	return page
}

// byID looks up a resource by its id, as the API server has it.
func byID[T v1alpha1.Object, S any](c *collection[T, S], v *view, id string) ([]T, error) {
	return one(c.live(v.ctx, v.namespace, id))
}

// one is a list of what was found, empty when nothing was.
func one[T v1alpha1.Object](o T, err error) ([]T, error) {
	switch {
	case isNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []T{o}, nil
}

// byUnique looks up the resource with a unique value, as the API server has it. The cache says
// where to look, which is one read when it is right. Otherwise the claim on the value says which
// object it is: the cache may be behind, or know several of which kubectl has made some.
func byUnique[T v1alpha1.Object, S any](c *collection[T, S], v *view, value string) ([]T, error) {
	var known []string
	for _, o := range indexed[T](c.informer, indexUnique, v.namespace, value) {
		if isVisible(o) {
			known = append(known, o.GetName())
		}
	}
	if len(known) == 1 {
		if found, err := c.withUnique(v, known, value); err != nil || len(found) > 0 {
			return found, err
		}
		known = nil
	}
	holder, err := c.holder(v.ctx, v.namespace, value)
	if err != nil {
		return nil, err
	}
	if holder != "" {
		if found, err := c.withUnique(v, []string{holder}, value); err != nil || len(found) > 0 {
			return found, err
		}
	}
	return c.withUnique(v, known, value)
}

// withUnique are those of the named objects that have a unique value, as the API server has them.
func (c *collection[T, S]) withUnique(v *view, names []string, value string) ([]T, error) {
	var found []T
	for _, name := range names {
		o, err := c.live(v.ctx, v.namespace, name)
		switch {
		case isNotFound(err):
		case err != nil:
			return nil, err
		case c.unique.Name(c.unique.Value(o)) == c.unique.Name(value):
			found = append(found, o)
		}
	}
	return found, nil
}

// holder names the object that has claimed a unique value; empty when nobody has.
func (c *collection[T, S]) holder(ctx context.Context, namespace, value string) (string, error) {
	claim := &v1alpha1.Claim{}
	err := c.d.kube.Live().Get(ctx, client.ObjectKey{Namespace: namespace, Name: c.unique.Name(value)}, claim)
	return claim.Spec.Holder.Name, client.IgnoreNotFound(err)
}

// byIndex looks up the resources with a value in an index of the cache.
func byIndex[T v1alpha1.Object, S any](index string) lookup[T, S] {
	return func(c *collection[T, S], v *view, value string) ([]T, error) {
		found := indexed[T](c.informer, index, v.namespace, value)
		return slices.DeleteFunc(found, func(o T) bool { return !isVisible(o) }), nil
	}
}
