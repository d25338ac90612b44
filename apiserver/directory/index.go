package directory

import (
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/fold"
)

// Indexes of the informers. Index keys are built by keyOf from a namespace and a value; values that are
// not case-exact are case-folded.
const (
	// indexUnique is by userName of users and displayName of groups.
	indexUnique     = "scim.unique"
	indexExternalID = "scim.externalId"
	indexEmail      = "scim.email"
	// indexMember is by the members in the group itself; membership.Chunks has the index of chunks.
	indexMember = "scim.member"
	// indexChunk is by the chunks that a group refers to.
	indexChunk = "scim.chunk"
)

// keyOf returns the index key of a value and the cache key of an object. Namespace names contain no
// slash, so keys are unique.
func keyOf(namespace, value string) string { return namespace + "/" + value }

// addIndexes adds the indexes to the informers.
func addIndexes(o Options) error {
	for _, of := range []struct {
		informer toolscache.SharedIndexInformer
		indexers toolscache.Indexers
	}{
		{o.Users, toolscache.Indexers{
			indexUnique: index(func(u *v1alpha1.ScimUser, add func(string)) { add(fold.Case(u.Spec.UserName)) }),
			indexExternalID: index(func(u *v1alpha1.ScimUser, add func(string)) {
				if u.Spec.ExternalID != "" {
					add(u.Spec.ExternalID)
				}
			}),
			indexEmail: index(func(u *v1alpha1.ScimUser, add func(string)) {
				for i := range u.Spec.Emails {
					add(fold.Case(u.Spec.Emails[i].Value))
				}
			}),
		}},
		{o.Groups, toolscache.Indexers{
			indexUnique: index(func(g *v1alpha1.ScimGroup, add func(string)) { add(fold.Case(g.Spec.DisplayName)) }),
			indexExternalID: index(func(g *v1alpha1.ScimGroup, add func(string)) {
				if g.Spec.ExternalID != "" {
					add(g.Spec.ExternalID)
				}
			}),
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
		}},
	} {
		if err := of.informer.AddIndexers(of.indexers); err != nil {
			return fmt.Errorf("add indexes: %w", err)
		}
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
