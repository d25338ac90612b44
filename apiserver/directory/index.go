package directory

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/compact"
	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/apiserver/directory/valueindex"
	"github.com/quoin-dev/quoin/internal/cacheindex"
	"github.com/quoin-dev/quoin/internal/fold"
)

// Indexes of the informer of groups. Index keys are built by keyOf from a namespace and a value.
const (
	// indexChunk is by the chunks that a group refers to.
	indexChunk = "scim.chunk"
)

// keyOf returns the index key of a value and the cache key of an object. Namespace names contain no
// slash, so keys are unique.
func keyOf(namespace, value string) string { return namespace + "/" + value }

// addIndexes adds the indexes to the informer of groups.
func addIndexes(o Options) error {
	err := o.Groups.AddIndexers(toolscache.Indexers{
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
func index[T v1alpha1.Object](values func(o T, add func(string))) toolscache.IndexFunc {
	return func(obj any) ([]string, error) {
		o := decoded[T](obj)
		if isNil(o) {
			return nil, nil
		}
		var keys []string
		values(o, func(value string) { keys = append(keys, keyOf(o.GetNamespace(), value)) })
		return keys, nil
	}
}

// indexedBy returns the cached objects with a value in an index of the informer, which must exist.
func (c *collection[T, S]) indexedBy(index, namespace, value string) []*compact.Object {
	objects, _ := cacheindex.Find[*compact.Object](c.informer.GetIndexer(), index, keyOf(namespace, value))
	return objects
}

// attributeIndex is an index of the values of an attribute.
type attributeIndex[T v1alpha1.Object] struct {
	*valueindex.Index[*compact.Object]
	values func(T) []string
}

// newIndex returns an empty index for a function that returns the values of an object.
func newIndex[T v1alpha1.Object](values func(T) []string) *attributeIndex[T] {
	return &attributeIndex[T]{
		values: values,
		Index: valueindex.New(func(o *compact.Object, value string) bool {
			return slices.Contains(values(decoded[T](o)), value)
		}),
	}
}

// change replaces an object.
func (x *attributeIndex[T]) change(old, changed state[T]) {
	x.Change(old.cached, x.of(old), changed.cached, x.of(changed))
}

func (x *attributeIndex[T]) of(s state[T]) []string {
	if s.cached == nil {
		return nil
	}
	return x.values(s.object)
}

// find returns the objects with a value.
func (x *attributeIndex[T]) find(namespace, value string) []T {
	found := x.Candidates(namespace, value)
	objects := make([]T, 0, len(found))
	for _, o := range found {
		if object := decoded[T](o); slices.Contains(x.values(object), value) {
			objects = append(objects, object)
		}
	}
	return objects
}

// counts has a number for each namespace. The zero value is empty. It is safe for concurrent use.
type counts struct {
	mu          sync.Mutex
	ofNamespace map[string]uint64 // guarded by mu
}

func (c *counts) add(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ofNamespace == nil {
		c.ofNamespace = map[string]uint64{}
	}
	c.ofNamespace[namespace]++
}

func (c *counts) of(namespace string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ofNamespace[namespace]
}

// uniqueValue returns the values of an object in the index of a unique attribute.
func uniqueValue[T v1alpha1.Object](value func(T) string) func(T) []string {
	return func(o T) []string { return []string{fold.Case(value(o))} }
}

// textValue returns the values of an object in the index of a case-exact attribute.
func textValue[T v1alpha1.Object](value func(T) string) func(T) []string {
	return func(o T) []string {
		if text := value(o); text != "" {
			return []string{text}
		}
		return nil
	}
}

// emails returns the e-mail addresses of a user.
func emails(u *v1alpha1.ScimUser) []string {
	values := make([]string, len(u.Spec.Emails))
	for i := range u.Spec.Emails {
		values[i] = fold.Case(u.Spec.Emails[i].Value)
	}
	return values
}

// attributeNumber is the key of the index by the number of a resource in the REST API.
const attributeNumber = "quoin:number"

// numberValue returns the values of an object in the index by number.
func numberValue[T v1alpha1.Object](kind string) func(T) []string {
	return func(o T) []string { return []string{indexedNumber(number.Of(kind, o.GetName()))} }
}

func indexedNumber(n int64) string { return strconv.FormatInt(n, 36) }

// numbered returns the ids of the resources that have a number.
func (c *collection[T, S]) numbered(namespace string, n int64) []string {
	var ids []string
	for _, o := range c.indexes[attributeNumber].Find(namespace, indexedNumber(n)) {
		if s := o.Summary(); s.Visible {
			ids = append(ids, s.Name)
		}
	}
	slices.Sort(ids)
	return ids
}
