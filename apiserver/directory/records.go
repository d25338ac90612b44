package directory

import (
	"iter"
	"strings"
	"sync"

	"github.com/tidwall/btree"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim"
)

// record is where an object stands in the store's own order, without looking at the object.
type record[T v1alpha1.Object] struct {
	created int64
	id      string
	object  T
}

func recordOf[T v1alpha1.Object](o T) record[T] {
	return record[T]{created: o.GetCreationTimestamp().UnixNano(), id: o.GetName(), object: o}
}

func before[T v1alpha1.Object](x, y record[T]) bool {
	if x.created != y.created {
		return x.created < y.created
	}
	return x.id < y.id
}

// records are the visible objects of a kind, by namespace, in the store's own order: a page at any
// place of any list costs the page, and an object more costs what a tree of that size does.
type records[T v1alpha1.Object] struct {
	mu          sync.Mutex
	byNamespace map[string]*ordered[T]
}

// ordered are those of a namespace.
type ordered[T v1alpha1.Object] struct {
	tree *btree.BTreeG[record[T]]
	// shown is a copy of the tree that is not changed any more: readers share it, and go through it
	// without a lock. A copy is made for the first reader after a change, and shares all nodes with
	// the tree that have not changed.
	shown *btree.BTreeG[record[T]]
}

func newRecords[T v1alpha1.Object]() *records[T] {
	return &records[T]{byNamespace: map[string]*ordered[T]{}}
}

// change puts what is in the place of what was; each may be nil.
func (r *records[T]) change(was, is T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if exists(was) && (!exists(is) || !is.GetCreationTimestamp().Time.Equal(was.GetCreationTimestamp().Time) || !isVisible(is)) {
		r.remove(was)
	}
	if exists(is) && isVisible(is) {
		r.put(is)
	}
}

// exists tells whether there is an object: a nil pointer in a type parameter is not nil.
func exists[T v1alpha1.Object](o T) bool {
	var none T
	return any(o) != any(none)
}

func (r *records[T]) put(o T) {
	of := r.byNamespace[o.GetNamespace()]
	if of == nil {
		of = &ordered[T]{tree: btree.NewBTreeGOptions(before[T], btree.Options{NoLocks: true})}
		r.byNamespace[o.GetNamespace()] = of
	}
	of.shown = nil
	of.tree.Set(recordOf(o))
}

func (r *records[T]) remove(o T) {
	of := r.byNamespace[o.GetNamespace()]
	if of == nil {
		return
	}
	of.shown = nil
	of.tree.Delete(recordOf(o))
	if of.tree.Len() == 0 {
		delete(r.byNamespace, o.GetNamespace())
	}
}

// of are the records of a namespace as they are now.
func (r *records[T]) of(namespace string) snapshot[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.byNamespace[namespace]
	if of == nil {
		return snapshot[T]{}
	}
	if of.shown == nil {
		of.shown = of.tree.Copy()
	}
	return snapshot[T]{of.shown}
}

// snapshot is a list that does not change. The empty one has no tree.
type snapshot[T v1alpha1.Object] struct{ tree *btree.BTreeG[record[T]] }

func (s snapshot[T]) len() int {
	if s.tree == nil {
		return 0
	}
	return s.tree.Len()
}

// all goes through the objects in order.
func (s snapshot[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		if s.tree != nil {
			s.tree.Scan(func(r record[T]) bool { return yield(r.object) })
		}
	}
}

// from goes through the objects from an index on.
func (s snapshot[T]) from(start int) iter.Seq[T] {
	return func(yield func(T) bool) {
		if s.tree == nil {
			return
		}
		if first, ok := s.tree.GetAt(start); ok {
			s.tree.Ascend(first, func(r record[T]) bool { return yield(r.object) })
		}
	}
}

// after goes through the objects behind a position, whether or not one stands there.
func (s snapshot[T]) after(p scim.Position) iter.Seq[T] {
	return func(yield func(T) bool) {
		if s.tree == nil {
			return
		}
		s.tree.Ascend(record[T]{created: p.Created, id: p.ID}, func(r record[T]) bool {
			if r.created == p.Created && strings.Compare(r.id, p.ID) == 0 {
				return true
			}
			return yield(r.object)
		})
	}
}
