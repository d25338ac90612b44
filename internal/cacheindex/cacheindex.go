// Package cacheindex finds objects of an informer by its indexes, with their types. It does not allocate lists of copies, as the
// client of a cache does, so requests can use it.
package cacheindex

import (
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
)

// By returns an index by the keys of an object, none for an object that is not indexed. The informer has objects of one type only.
func By[O any](keys func(O) []string) toolscache.IndexFunc {
	return func(o any) ([]string, error) {
		object, ok := o.(O)
		if !ok {
			return nil, fmt.Errorf("%T is no %T", o, object)
		}
		return keys(object), nil
	}
}

// Key is the key of a value in a namespace. Names of namespaces contain no slash, so keys are unique.
func Key(namespace, value string) string { return namespace + "/" + value }

// Find returns the objects with a key of an index, in no order. They are shared and must not be modified. It fails if there is no
// such index.
func Find[O any](from toolscache.Indexer, index, key string) ([]O, error) {
	stored, err := from.ByIndex(index, key)
	if err != nil {
		return nil, fmt.Errorf("read index %s: %w", index, err)
	}
	objects := make([]O, 0, len(stored))
	for _, o := range stored {
		if object, ok := o.(O); ok {
			objects = append(objects, object)
		}
	}
	return objects, nil
}
