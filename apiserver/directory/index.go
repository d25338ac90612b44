package directory

import (
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/valueindex"
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

// uniqueValue is the index of the unique value of a kind.
func uniqueValue[T v1alpha1.Object](value func(T) string) *valueindex.Index[T] {
	return valueindex.New(func(o T, add func(string)) { add(fold.Case(value(o))) }, nil)
}

// textValue is the index of a case-exact attribute.
func textValue[T v1alpha1.Object](value func(T) string) *valueindex.Index[T] {
	return valueindex.New(func(o T, add func(string)) {
		if text := value(o); text != "" {
			add(text)
		}
	}, nil)
}

// emails is the index of users by e-mail address.
func emails() *valueindex.Index[*v1alpha1.ScimUser] {
	return valueindex.New(func(u *v1alpha1.ScimUser, add func(string)) {
		for i := range u.Spec.Emails {
			add(fold.Case(u.Spec.Emails[i].Value))
		}
	}, nil)
}
