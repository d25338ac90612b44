// Package turns provides a queue that takes turns between the owners of its items, so that an owner with many
// items delays those of another one by one item at a time.
package turns

import "slices"

// Queue has items in their order of arrival for each owner, and in turns between owners. Its zero value is an
// empty queue. It is not safe for concurrent use.
type Queue[K, V comparable] struct {
	// order has the owners of items; the next turn is that of the first.
	order []K
	items map[K][]V
}

// IsEmpty reports whether the queue has no item.
func (q *Queue[K, V]) IsEmpty() bool { return len(q.order) == 0 }

// Len returns the number of items of an owner.
func (q *Queue[K, V]) Len(owner K) int { return len(q.items[owner]) }

// Push adds an item.
func (q *Queue[K, V]) Push(owner K, item V) {
	if q.items == nil {
		q.items = map[K][]V{}
	}
	before := q.items[owner]
	if len(before) == 0 {
		q.order = append(q.order, owner)
	}
	q.items[owner] = append(before, item)
}

// Pop removes the item whose turn it is and returns it; false if there is none.
func (q *Queue[K, V]) Pop() (item V, ok bool) {
	_, item, ok = q.popOf(func(K) bool { return true })
	return item, ok
}

// popOf is Pop among the items of the owners that may have a turn.
func (q *Queue[K, V]) popOf(may func(K) bool) (owner K, item V, ok bool) {
	i := slices.IndexFunc(q.order, may)
	if i < 0 {
		return owner, item, false
	}
	owner = q.order[i]
	if i == 0 { // without moving the others
		q.order = q.order[1:]
	} else {
		q.order = slices.Delete(q.order, i, i+1)
	}
	items := q.items[owner]
	if len(items) == 1 {
		delete(q.items, owner)
	} else {
		q.items[owner] = items[1:]
		q.order = append(q.order, owner)
	}
	return owner, items[0], true
}

// Remove removes an item, or returns false if it is not in the queue.
func (q *Queue[K, V]) Remove(owner K, item V) bool {
	i := slices.Index(q.items[owner], item)
	if i < 0 {
		return false
	}
	if q.items[owner] = slices.Delete(q.items[owner], i, i+1); len(q.items[owner]) == 0 {
		delete(q.items, owner)
		q.order = slices.DeleteFunc(q.order, func(other K) bool { return other == owner })
	}
	return true
}
