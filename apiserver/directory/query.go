package directory

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/compact"
	"github.com/quoin-dev/quoin/apiserver/scim"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/internal/fairsemaphore"
)

// lookup returns candidates for a value: all resources that have it, and possibly others.
type lookup[T v1alpha1.Object, S any] func(c *collection[T, S], v *view, value string) ([]T, error)

// listResources selects the candidates of a query: by an index, all resources or, without filter and
// order, only those on the page.
func (c *collection[T, S]) listResources(v *view, q *scim.Query) (*scim.Page, error) {
	page, err := c.find(v, q)
	if err := v.members.Err(); err != nil {
		return nil, err
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
	isPage := q.Filter == nil && q.Order == nil
	v.turn = q.Turn
	if v.turn == nil {
		v.turn = fairsemaphore.Processors.Work(v.ctx, v.account)
		defer v.turn.End()
	}
	if err := v.turn.BeginIf(!isPage || q.Count > shortPage); err != nil {
		return nil, err
	}
	all := c.records.of(v.namespace)
	if isPage {
		return c.page(v, all, q)
	}
	return q.Select(v.ctx, c.candidates(v, fairsemaphore.Iterate(v.turn, matchStep, all.all())))
}

// Steps after which the work of other accounts may run: the numbers of resources that are matched, and converted for the
// response, within a millisecond or so.
const (
	matchStep   = 128
	convertStep = 16
)

// shortPage and shortGroup are the numbers of resources and of members that are converted without a turn.
const (
	shortPage  = 100
	shortGroup = 1000
)

// newer returns the newer of two copies of an object, from the cache and from the API server. An object that was deleted and
// created again is newer than the deleted one, whatever their generations.
func newer[T v1alpha1.Object](x, y T) T {
	switch {
	case isNil(x):
		return y
	case x.GetUID() != y.GetUID():
		if x.GetCreationTimestamp().After(y.GetCreationTimestamp().Time) {
			return x
		}
	case x.GetGeneration() > y.GetGeneration():
		return x
	}
	return y
}

// inOrder iterates over objects in the default order.
func inOrder[T v1alpha1.Object](found map[string]T) iter.Seq[T] {
	return slices.Values(slices.SortedFunc(maps.Values(found), func(x, y T) int {
		return cmp.Or(x.GetCreationTimestamp().Compare(y.GetCreationTimestamp().Time), strings.Compare(x.GetName(), y.GetName()))
	}))
}

// items returns objects as candidates.
func (c *collection[T, S]) items(v *view, objects iter.Seq[T]) iter.Seq[scim.Item] {
	return func(yield func(scim.Item) bool) {
		for o := range objects {
			if !yield(&item[T, S]{c: c, v: v, object: o}) {
				return
			}
		}
	}
}

// candidates returns cached objects as candidates. It allocates them in blocks: one allocation for each would cost
// more than matching it. They are decoded into the same memory, one after the other.
func (c *collection[T, S]) candidates(v *view, objects iter.Seq[*compact.Object]) iter.Seq[scim.Item] {
	const block = 128
	last := &lastDecoded[T]{object: c.unique.New()}
	return func(yield func(scim.Item) bool) {
		var items []item[T, S]
		for o := range objects {
			if len(items) == cap(items) {
				items = make([]item[T, S], 0, block)
			}
			items = append(items, item[T, S]{c: c, v: v, cached: o, last: last})
			if !yield(&items[len(items)-1]) {
				return
			}
		}
	}
}

// lastDecoded is the last of several cached objects that was decoded.
type lastDecoded[T v1alpha1.Object] struct {
	cached *compact.Object
	object T
}

// of returns a cached object as it was, until the next call.
func (l *lastDecoded[T]) of(cached *compact.Object) T {
	if l.cached != cached {
		cached.DecodeInto(l.object)
		l.cached = cached
	}
	return l.object
}

// page returns a page of all resources. Its cost does not depend on the position of the page.
func (c *collection[T, S]) page(v *view, all snapshot, q *scim.Query) (*scim.Page, error) {
	page := &scim.Page{Total: all.len()}
	if q.Count == 0 {
		return page, nil
	}
	objects := all.from(q.Start)
	if q.After != nil {
		objects = all.after(*q.After)
	}
	if q.Use != nil {
		v.documents = &documents{}
	}
	var last compact.Summary
	count, decoded := 0, &lastDecoded[T]{object: c.unique.New()}
	for o := range fairsemaphore.Iterate(v.turn, convertStep, objects) {
		if count == q.Count {
			next := scim.PositionOf(last.Created, last.Name)
			page.Next = &next
			break
		}
		if err := page.Add(q, c.resource(v, decoded.of(o))); err != nil {
			return nil, err
		}
		v.documents.reuse()
		count++
		last = o.Summary()
	}
	return page, v.ctx.Err()
}

// byID looks up a resource by id in the API server.
func byID[T v1alpha1.Object, S any](c *collection[T, S], v *view, id string) ([]T, error) {
	return one(c.live(v.ctx, v.namespace, id))
}

// one returns a list of the resource, or an empty list for a 404 error.
func one[T v1alpha1.Object](o T, err error) ([]T, error) {
	switch {
	case isNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []T{o}, nil
}

// byUnique looks up the resource with a unique value. If the cache has one candidate, and it still has the value, this costs one
// read of the cache of the API server. Otherwise the claim on the value names the object: the cache may be stale, or contain
// several candidates if some were created with kubectl.
func byUnique[T v1alpha1.Object, S any](c *collection[T, S], v *view, value string) ([]T, error) {
	var cached []string
	for _, o := range c.byUniqueValue.Find(v.namespace, value) {
		if s := o.Summary(); s.Visible {
			cached = append(cached, s.Name)
		}
	}
	if len(cached) == 1 {
		if found, err := c.withUnique(v, c.recent, cached, value); err != nil || len(found) > 0 {
			return found, err
		}
		cached = nil
	}
	holder, err := c.holder(v.ctx, v.namespace, value)
	if err != nil {
		return nil, err
	}
	if holder != "" {
		if found, err := c.withUnique(v, c.live, []string{holder}, value); err != nil || len(found) > 0 {
			return found, err
		}
	}
	return c.withUnique(v, c.live, cached, value)
}

// withUnique reads objects and returns those that have a unique value.
func (c *collection[T, S]) withUnique(v *view, read func(ctx context.Context, namespace, id string) (T, error), names []string, value string) ([]T, error) {
	var found []T
	for _, name := range names {
		o, err := read(v.ctx, v.namespace, name)
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

// holder returns the name of the object that holds the claim on a unique value; empty if there is none.
func (c *collection[T, S]) holder(ctx context.Context, namespace, value string) (string, error) {
	claim := &v1alpha1.Claim{}
	err := c.d.kube.Live().Get(ctx, client.ObjectKey{Namespace: namespace, Name: c.unique.Name(value)}, claim)
	return claim.Spec.Holder.Name, client.IgnoreNotFound(err)
}

// byIndex looks up resources in the index of an attribute.
func byIndex[T v1alpha1.Object, S any](attribute string) lookup[T, S] {
	return func(c *collection[T, S], v *view, value string) ([]T, error) {
		found := c.indexes[attribute].find(v.namespace, value)
		return slices.DeleteFunc(found, func(o T) bool { return !isVisible(o) }), nil
	}
}

// item is a candidate of a query: an object, or one in the cache. It converts only the attributes that are
// read.
type item[T v1alpha1.Object, S any] struct {
	c      *collection[T, S]
	v      *view
	object T
	cached *compact.Object
	last   *lastDecoded[T]
}

// shared returns the object, whose memory another item may use after this call.
func (i *item[T, S]) shared() T {
	if i.cached != nil {
		return i.last.of(i.cached)
	}
	return i.object
}

// Get implements schema.Source.
func (i *item[T, S]) Get(ref schema.Ref) any {
	object := i.shared()
	if ref.Extension == "" {
		switch ref.Attribute.Name {
		case "id":
			return object.GetName()
		case "meta":
			if ref.Sub == nil || ref.Sub.Name == "version" {
				return i.Resource().Get(ref)
			}
			return i.c.bare(i.v, object).Get(ref)
		case "schemas":
			return i.Resource().Get(ref)
		}
	}
	spec := i.c.spec(object)
	if value, ok := i.c.table.attribute(i.v, object.GetName(), spec, ref); ok {
		return value
	}
	s := i.v.resourceType.Extension(ref.Extension)
	if s == nil {
		return nil
	}
	values := i.c.readExtension(s, spec)
	switch {
	case ref.Attribute != nil:
		return values[ref.Attribute.Name]
	case len(values) == 0:
		return nil
	}
	return values
}

// Position implements scim.Item.
func (i *item[T, S]) Position() scim.Position {
	if i.cached != nil {
		s := i.cached.Summary()
		return scim.PositionOf(s.Created, s.Name)
	}
	return scim.PositionOf(i.object.GetCreationTimestamp().Time, i.object.GetName())
}

// Resource implements scim.Item.
func (i *item[T, S]) Resource() *schema.Resource {
	if i.cached != nil {
		return i.c.resource(i.v, decoded[T](i.cached))
	}
	return i.c.resource(i.v, i.object)
}
