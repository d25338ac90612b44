package directory

import (
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/fold"
)

// Indexes of the informer of groups. Index keys are built by keyOf from a namespace and a value.
const (
	// indexMember is by the members in the group itself; membership.Chunks has the index of chunks.
	indexMember = "scim.member"
	// indexChunk is by the chunks that a group refers to.
	indexChunk = "scim.chunk"
)

// keyOf returns the index key of a value and the cache key of an object. Namespace names contain no
// slash, so keys are unique.
func keyOf(namespace, value string) string { return namespace + "/" + value }

// addIndexes adds the indexes to the informer of groups.
func addIndexes(o Options) error {
	err := o.Groups.AddIndexers(toolscache.Indexers{
		indexMember: index(func(g *v1alpha1.ScimGroup, add func(string)) {
			for _, m := range g.Spec.EffectiveMembers() {
				add(m.Value)
			}
		}),
		indexChunk: index(func(g *v1alpha1.ScimGroup, add func(string)) {
			for _, reference := range g.Spec.Chunks() {
				add(reference.Name)
			}
		}),
	})
	if err != nil {
		return fmt.Errorf("add indexes: %w", err)
	}
	return nil
}

// index returns an index function for a function that adds the values of an object.
func index[T interface{ GetNamespace() string }](values func(o T, add func(string))) toolscache.IndexFunc {
	return func(obj any) ([]string, error) {
		o, ok := obj.(T)
		if !ok {
			return nil, nil
		}
		var keys []string
		values(o, func(value string) { keys = append(keys, keyOf(o.GetNamespace(), value)) })
		return keys, nil
	}
}

// indexed returns the objects with a value in an index, which must exist. The objects are shared and
// must not be modified.
func indexed[T any](informer toolscache.SharedIndexInformer, index, namespace, value string) []T {
	found, err := informer.GetIndexer().ByIndex(index, keyOf(namespace, value))
	if err != nil {
		return nil
	}
	objects := make([]T, 0, len(found))
	for _, o := range found {
		if object, ok := o.(T); ok {
			objects = append(objects, object)
		}
	}
	return objects
}

// valueIndex finds the objects of a kind by a value. It keeps a hash of each value and a pointer to the object:
// an index of the informer has a map for each value, ten times the memory, and there are several values for each
// of hundreds of thousands of users. It is updated by event handlers, before those who wait for the event go on.
type valueIndex[T v1alpha1.Object] struct {
	// values calls add with the values of an object. Values that are not case-exact are case-folded.
	values func(o T, add func(string))
	seed   maphash.Seed

	mu sync.RWMutex
	// one has the object of a hash, several the objects of a hash that more than one has.
	one     map[uint64]T
	several map[uint64][]T
}

func newValueIndex[T v1alpha1.Object](values func(o T, add func(string))) *valueIndex[T] {
	return &valueIndex[T]{values: values, seed: maphash.MakeSeed(), one: map[uint64]T{}, several: map[uint64][]T{}}
}

// uniqueValue is the index of the unique value of a kind.
func uniqueValue[T v1alpha1.Object](value func(T) string) *valueIndex[T] {
	return newValueIndex(func(o T, add func(string)) { add(fold.Case(value(o))) })
}

// textValue is the index of a case-exact attribute.
func textValue[T v1alpha1.Object](value func(T) string) *valueIndex[T] {
	return newValueIndex(func(o T, add func(string)) {
		if text := value(o); text != "" {
			add(text)
		}
	})
}

// emails is the index of users by e-mail address.
func emails() *valueIndex[*v1alpha1.ScimUser] {
	return newValueIndex(func(u *v1alpha1.ScimUser, add func(string)) {
		for i := range u.Spec.Emails {
			add(fold.Case(u.Spec.Emails[i].Value))
		}
	})
}

func (x *valueIndex[T]) hash(namespace, value string) uint64 {
	var h maphash.Hash
	h.SetSeed(x.seed)
	_, _ = h.WriteString(namespace) // never fails
	_ = h.WriteByte('/')
	_, _ = h.WriteString(value)
	return h.Sum64()
}

// change replaces an object; nil means that there was or is none.
func (x *valueIndex[T]) change(old, changed T) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !isNil(old) {
		x.values(old, func(value string) { x.remove(x.hash(old.GetNamespace(), value), old) })
	}
	if !isNil(changed) {
		x.values(changed, func(value string) { x.add(x.hash(changed.GetNamespace(), value), changed) })
	}
}

// isSame reports whether two objects are states of the same object.
func isSame[T v1alpha1.Object](x, y T) bool {
	return x.GetName() == y.GetName() && x.GetNamespace() == y.GetNamespace()
}

func (x *valueIndex[T]) add(hash uint64, o T) {
	if several, is := x.several[hash]; is {
		if !slices.ContainsFunc(several, func(other T) bool { return isSame(other, o) }) {
			x.several[hash] = append(several, o)
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

func (x *valueIndex[T]) remove(hash uint64, o T) {
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

// find returns the objects with a value. They are shared and must not be modified.
func (x *valueIndex[T]) find(namespace, value string) []T {
	hash := x.hash(namespace, value)
	x.mu.RLock()
	found := slices.Clone(x.several[hash])
	if o, is := x.one[hash]; is {
		found = []T{o}
	}
	x.mu.RUnlock()
	// The hash may be that of another value.
	return slices.DeleteFunc(found, func(o T) bool {
		has := false
		x.values(o, func(other string) { has = has || other == value })
		return !has || o.GetNamespace() != namespace
	})
}
