// Package turns provides a queue that takes turns between the owners of its items, so that an owner with many
// items delays those of another one by one item at a time.
package turns

import "slices"

// maxFirst is the number of first items after which a further one of another owner is next. It bounds how long the
// first items of many owners delay those that wait.
const maxFirst = 8

// Queue has items in their order of arrival for each owner, and in turns between owners. The first item of an owner that had
// none comes before the further ones of others, so owners with many items do not delay those with few. After that, the owner
// takes its turn like the others. Its zero value is an empty queue. It is not safe for concurrent use.
type Queue[K, V comparable] struct {
	// first has the owners whose first item waits, and order those that have had a turn. The next turn is that of the
	// first in each. An owner whose items have ended stays in order until it would have its turn.
	first, order []K
	items        map[K][]V
	// n is the number of items.
	n int
	// firstTurns counts the turns in first since the last one in order.
	firstTurns int
}

// IsEmpty reports whether the queue has no item.
func (q *Queue[K, V]) IsEmpty() bool { return q.n == 0 }

// Len returns the number of items of an owner.
func (q *Queue[K, V]) Len(owner K) int { return len(q.items[owner]) }

// Total returns the number of items of all owners.
func (q *Queue[K, V]) Total() int { return q.n }

// Push adds an item.
func (q *Queue[K, V]) Push(owner K, item V) {
	if q.items == nil {
		q.items = map[K][]V{}
	}
	items, listed := q.items[owner]
	if !listed {
		q.first = append(q.first, owner)
	}
	q.items[owner] = append(items, item)
	q.n++
}

// Pop removes the item whose turn it is and returns it; false if there is none.
func (q *Queue[K, V]) Pop() (item V, ok bool) {
	_, item, ok = q.PopOf(func(K) bool { return true })
	return item, ok
}

// PopOf is Pop among the items of the owners that may have a turn. It also returns the owner.
func (q *Queue[K, V]) PopOf(may func(K) bool) (owner K, item V, ok bool) {
	if q.firstTurns < maxFirst {
		owner, ok = q.nextFirst(may)
	}
	if !ok {
		q.firstTurns = 0
		owner, ok = q.next(may)
	}
	if !ok {
		owner, ok = q.nextFirst(may)
	}
	if !ok {
		return owner, item, false
	}
	items := q.items[owner]
	q.items[owner] = items[1:]
	q.order = append(q.order, owner)
	q.removed()
	return owner, items[0], true
}

// nextFirst removes the owner from first whose turn it is.
func (q *Queue[K, V]) nextFirst(may func(K) bool) (owner K, ok bool) {
	i := slices.IndexFunc(q.first, may)
	if i < 0 {
		return owner, false
	}
	q.firstTurns++
	owner = q.first[i]
	q.first = without(q.first, i)
	return owner, true
}

// next removes the owner from order whose turn it is, and those before it that have no items.
func (q *Queue[K, V]) next(may func(K) bool) (owner K, ok bool) {
	for i := 0; i < len(q.order); {
		switch owner = q.order[i]; {
		case len(q.items[owner]) == 0:
			delete(q.items, owner)
			q.order = without(q.order, i)
		case may(owner):
			q.order = without(q.order, i)
			return owner, true
		default:
			i++
		}
	}
	return owner, false
}

// Remove removes an item, or returns false if it is not in the queue.
func (q *Queue[K, V]) Remove(owner K, item V) bool {
	items := q.items[owner]
	i := slices.Index(items, item)
	if i < 0 {
		return false
	}
	items = slices.Delete(items, i, i+1)
	q.items[owner] = items
	if first := slices.Index(q.first, owner); len(items) == 0 && first >= 0 {
		delete(q.items, owner)
		q.first = without(q.first, first)
	}
	q.removed()
	return true
}

// removed counts an item that has been removed. Without items, all owners are new.
func (q *Queue[K, V]) removed() {
	if q.n--; q.n == 0 {
		*q = Queue[K, V]{}
	}
}

// without removes an element, the first one without moving the others.
func without[K any](list []K, i int) []K {
	if i == 0 {
		return list[1:]
	}
	return slices.Delete(list, i, i+1)
}
