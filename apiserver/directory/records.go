package directory

import (
	"iter"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"github.com/quoin-dev/quoin/apiserver/directory/compact"
	"github.com/quoin-dev/quoin/apiserver/scim"
)

// before is the default order: by the time of creation, and then by name.
func before(x, y *compact.Object) bool { return isBefore(x.Summary(), y.Summary()) }

func isBefore(x, y compact.Summary) bool {
	if created, other := x.Created.UnixNano(), y.Created.UnixNano(); created != other {
		return created < other
	}
	return x.Name < y.Name
}

// records are the visible objects of a kind by namespace, in the default order. The cost of a page does
// not depend on its position, and a change costs O(log n).
type records struct {
	mu          sync.Mutex
	byNamespace map[string]*ordered
}

// ordered is the records of one namespace.
type ordered struct {
	tree *btree.BTreeG[*compact.Object]
	// snapshot is an immutable copy of the tree, which readers share without a lock. The first reader
	// after a change creates it; copy-on-write shares the unchanged nodes.
	snapshot *btree.BTreeG[*compact.Object]
}

func newRecords() *records {
	return &records{byNamespace: map[string]*ordered{}}
}

// change replaces an object; nil means that there was or is none.
func (r *records) change(old, changed *compact.Object) {
	var now compact.Summary
	if changed != nil {
		now = changed.Summary()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old != nil {
		if was := old.Summary(); !now.Visible || !now.Created.Equal(was.Created) {
			r.remove(was.Namespace, old)
		}
	}
	if now.Visible {
		r.put(now.Namespace, changed)
	}
}

func (r *records) put(namespace string, o *compact.Object) {
	of := r.byNamespace[namespace]
	if of == nil {
		of = &ordered{tree: btree.NewBTreeGOptions(before, btree.Options{NoLocks: true})}
		r.byNamespace[namespace] = of
	}
	of.snapshot = nil
	of.tree.Set(o)
}

func (r *records) remove(namespace string, o *compact.Object) {
	of := r.byNamespace[namespace]
	if of == nil {
		return
	}
	of.snapshot = nil
	of.tree.Delete(o)
	if of.tree.Len() == 0 {
		delete(r.byNamespace, namespace)
	}
}

// of returns a snapshot of the records of a namespace.
func (r *records) of(namespace string) snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.byNamespace[namespace]
	if of == nil {
		return snapshot{}
	}
	if of.snapshot == nil {
		of.snapshot = of.tree.Copy()
	}
	return snapshot{of.snapshot}
}

// snapshot is an immutable sorted list. The empty snapshot has no tree.
type snapshot struct {
	tree *btree.BTreeG[*compact.Object]
}

func (s snapshot) len() int {
	if s.tree == nil {
		return 0
	}
	return s.tree.Len()
}

// all iterates over the objects in order.
func (s snapshot) all() iter.Seq[*compact.Object] {
	return func(yield func(*compact.Object) bool) {
		if s.tree != nil {
			s.tree.Scan(yield)
		}
	}
}

// from iterates over the objects from an index.
func (s snapshot) from(start int) iter.Seq[*compact.Object] {
	return func(yield func(*compact.Object) bool) {
		if s.tree == nil {
			return
		}
		if first, ok := s.tree.GetAt(start); ok {
			s.tree.Ascend(first, yield)
		}
	}
}

// after iterates over the objects after a position, which need not be that of an object.
func (s snapshot) after(p scim.Position) iter.Seq[*compact.Object] {
	return func(yield func(*compact.Object) bool) {
		if s.tree == nil {
			return
		}
		pivot := compact.Summary{Created: time.Unix(0, p.Created), Name: p.ID}
		s.tree.Ascend(compact.Pivot(pivot), func(o *compact.Object) bool {
			return !isBefore(pivot, o.Summary()) || yield(o)
		})
	}
}
