// Package valueindex finds cached objects by the values of their fields, in little memory.
package valueindex

import (
	"hash/maphash"
	"slices"
	"sync"
)

// Object is an object in a namespace, or its compact form.
type Object interface {
	GetName() string
	GetNamespace() string
}

// Index finds objects by a value. It keeps a hash of each value and a pointer to the object: an index of an informer
// has a map for each value, which is ten times the memory, and there are several values for each of hundreds of
// thousands of users. It is updated by event handlers. It is safe for concurrent use. Create it with New.
type Index[T Object] struct {
	has  func(o T, value string) bool
	seed maphash.Seed

	mu sync.RWMutex
	// one has the object of a hash, several the objects of a hash that more than one has.
	one     map[uint64]T
	several map[uint64][]T
}

// New returns an empty index. has reports whether an object has a value.
func New[T Object](has func(o T, value string) bool) *Index[T] {
	return &Index[T]{has: has, seed: maphash.MakeSeed(), one: map[uint64]T{}, several: map[uint64][]T{}}
}

func (x *Index[T]) hash(namespace, value string) uint64 {
	var h maphash.Hash
	h.SetSeed(x.seed)
	_, _ = h.WriteString(namespace) // never fails
	_ = h.WriteByte('/')
	_, _ = h.WriteString(value)
	return h.Sum64()
}

// Change replaces the values of an object by those of its next state. An object that there was not or is not has none.
func (x *Index[T]) Change(old T, oldValues []string, changed T, values []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, value := range oldValues {
		x.remove(x.hash(old.GetNamespace(), value), old)
	}
	for _, value := range values {
		x.add(x.hash(changed.GetNamespace(), value), changed)
	}
}

// isSame reports whether two objects are states of the same object.
func isSame[T Object](x, y T) bool {
	return x.GetName() == y.GetName() && x.GetNamespace() == y.GetNamespace()
}

func (x *Index[T]) add(hash uint64, o T) {
	if several, is := x.several[hash]; is {
		if !slices.ContainsFunc(several, func(other T) bool { return isSame(other, o) }) {
			x.several[hash] = append(slices.Clip(several), o)
		}
		return
	}
	if other, is := x.one[hash]; is && !isSame(other, o) {
		delete(x.one, hash)
		x.several[hash] = []T{other, o}
		return
	}
	x.one[hash] = o
}

func (x *Index[T]) remove(hash uint64, o T) {
	if other, is := x.one[hash]; is {
		if isSame(other, o) {
			delete(x.one, hash)
		}
		return
	}
	rest := slices.DeleteFunc(slices.Clone(x.several[hash]), func(other T) bool { return isSame(other, o) })
	x.several[hash] = rest
	if len(rest) <= 1 {
		delete(x.several, hash)
	}
	if len(rest) == 1 {
		x.one[hash] = rest[0]
	}
}

// Find returns the objects with a value. They are shared and must not be modified.
func (x *Index[T]) Find(namespace, value string) []T {
	return slices.DeleteFunc(x.Candidates(namespace, value), func(o T) bool { return !x.has(o, value) })
}

// Candidates returns the objects of a namespace with a value, and rarely others, for a caller that reads the value of each. They
// are shared and must not be modified.
func (x *Index[T]) Candidates(namespace, value string) []T {
	hash := x.hash(namespace, value)
	x.mu.RLock()
	found := slices.Clone(x.several[hash])
	if o, is := x.one[hash]; is {
		found = []T{o}
	}
	x.mu.RUnlock()
	// The hash may be that of another namespace or value.
	return slices.DeleteFunc(found, func(o T) bool { return o.GetNamespace() != namespace })
}
