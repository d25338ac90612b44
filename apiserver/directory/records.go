package directory

import (
	"iter"
	"strings"
	"sync"

	"github.com/tidwall/btree"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim"
)

// record is an object with its sort key in the default order.
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

// records are the visible objects of a kind by namespace, in the default order. The cost of a page does
// not depend on its position, and a change costs O(log n).
type records[T v1alpha1.Object] struct {
	mu          sync.Mutex
	byNamespace map[string]*ordered[T]
}

// ordered is the records of one namespace.
type ordered[T v1alpha1.Object] struct {
	tree *btree.BTreeG[record[T]]
	// snapshot is an immutable copy of the tree, which readers share without a lock. The first reader
	// after a change creates it; copy-on-write shares the unchanged nodes.
	snapshot *btree.BTreeG[record[T]]
}

func newRecords[T v1alpha1.Object]() *records[T] {
	return &records[T]{byNamespace: map[string]*ordered[T]{}}
}

// change replaces an object; nil means that there was or is none.
func (r *records[T]) change(old, changed T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !isNil(old) && (isNil(changed) || !changed.GetCreationTimestamp().Time.Equal(old.GetCreationTimestamp().Time) || !isVisible(changed)) {
		r.remove(old)
	}
	if !isNil(changed) && isVisible(changed) {
		r.put(changed)
	}
}

// isNil reports whether o is a nil pointer: a type parameter cannot be compared with nil.
func isNil[T v1alpha1.Object](o T) bool {
	var none T
	return any(o) == any(none)
}

func (r *records[T]) put(o T) {
	of := r.byNamespace[o.GetNamespace()]
	if of == nil {
		of = &ordered[T]{tree: btree.NewBTreeGOptions(before[T], btree.Options{NoLocks: true})}
		r.byNamespace[o.GetNamespace()] = of
	}
	of.snapshot = nil
	of.tree.Set(recordOf(o))
}

func (r *records[T]) remove(o T) {
	of := r.byNamespace[o.GetNamespace()]
	if of == nil {
		return
	}
	of.snapshot = nil
	of.tree.Delete(recordOf(o))
	if of.tree.Len() == 0 {
		delete(r.byNamespace, o.GetNamespace())
	}
}

// of returns a snapshot of the records of a namespace.
func (r *records[T]) of(namespace string) snapshot[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.byNamespace[namespace]
	if of == nil {
		return snapshot[T]{}
	}
	if of.snapshot == nil {
		of.snapshot = of.tree.Copy()
	}
	return snapshot[T]{of.snapshot}
}

// snapshot is an immutable sorted list. The empty snapshot has no tree.
type snapshot[T v1alpha1.Object] struct{ tree *btree.BTreeG[record[T]] }

func (s snapshot[T]) len() int {
	if s.tree == nil {
		return 0
	}
	return s.tree.Len()
}

// all iterates over the objects in order.
func (s snapshot[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		if s.tree != nil {
			s.tree.Scan(func(r record[T]) bool { return yield(r.object) })
		}
	}
}

// from iterates over the objects from an index.
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

// after iterates over the objects after a position, which need not be that of an object.
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
