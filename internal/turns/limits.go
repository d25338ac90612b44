package turns

// Limits starts items within limits: of all owners, and of each. Create it with NewLimits. It is not safe for
// concurrent use.
type Limits[K, V comparable] struct {
	total, each int
	waiting     Queue[K, V]
	started     int
	startedOf   map[K]int
}

// NewLimits returns limits with which at most total items are in progress, and at most each of one owner.
func NewLimits[K, V comparable](total, each int) *Limits[K, V] {
	return &Limits[K, V]{total: total, each: each, startedOf: map[K]int{}}
}

// Add adds an item to those that wait.
func (l *Limits[K, V]) Add(owner K, item V) { l.waiting.Push(owner, item) }

// Waiting returns the number of items that wait.
func (l *Limits[K, V]) Waiting() int { return l.waiting.Total() }

// InProgress returns the number of items that have been started and have not ended.
func (l *Limits[K, V]) InProgress() int { return l.started }

// Start removes the item that starts next from those that wait, and returns it; false if none may start. The
// caller must call Done when the item has ended.
func (l *Limits[K, V]) Start() (item V, ok bool) {
	if l.started >= l.total {
		return item, false
	}
	owner, item, ok := l.waiting.PopOf(func(owner K) bool { return l.startedOf[owner] < l.each })
	if !ok {
		return item, false
	}
	l.started++
	l.startedOf[owner]++
	return item, true
}

// Done ends an item of an owner.
func (l *Limits[K, V]) Done(owner K) {
	l.started--
	if l.startedOf[owner]--; l.startedOf[owner] == 0 {
		delete(l.startedOf, owner)
	}
}

// Remove removes an item that waits, or returns false if it does not wait.
func (l *Limits[K, V]) Remove(owner K, item V) bool {
	return l.waiting.Remove(owner, item)
}
