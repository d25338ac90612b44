package directory

import (
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/fold"
)

// Indexes of the informers. Their values are the keys that keyOf makes of a namespace and a value;
// texts that are not case exact stand in their fold.
const (
	// indexUnique is userName of users and displayName of groups.
	indexUnique     = "scim.unique"
	indexExternalID = "scim.externalId"
	indexEmail      = "scim.email"
	// indexMember are the members of a chunk, and those that a group has without chunks.
	indexMember = "scim.member"
	// indexChunk are the chunks that a group refers to.
	indexChunk = "scim.chunk"
)

// keyOf is the key of a value in a namespace, and that of an object in its store. The name of a
// namespace has no slash, so no two pairs have the same key.
func keyOf(namespace, value string) string { return namespace + "/" + value }

// addIndexes makes the informers keep the indexes.
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
			indexMember: index(func(g *v1alpha1.ScimGroup, add func(string)) { addMembers(g.Spec.Members, add) }),
			indexChunk: index(func(g *v1alpha1.ScimGroup, add func(string)) {
				for i := range g.Spec.MemberChunks {
					add(g.Spec.MemberChunks[i].Name)
				}
			}),
		}},
		{o.Chunks, toolscache.Indexers{
			indexMember: index(func(c *v1alpha1.ScimMemberChunk, add func(string)) { addMembers(c.Spec.Members, add) }),
		}},
	} {
		if err := of.informer.AddIndexers(of.indexers); err != nil {
			return fmt.Errorf("add indexes: %w", err)
		}
	}
	return nil
}

func addMembers(members []v1alpha1.ScimMember, add func(string)) {
	for i := range members {
		add(members[i].Value)
	}
}

// index makes an index function of one that adds values of an object.
func index[T v1Object](values func(o T, add func(string))) toolscache.IndexFunc {
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

// v1Object is what an index is of.
type v1Object interface{ GetNamespace() string }

// indexed are the objects of a kind with a value in an index. They are shared: not to be changed.
// An index that is not there is a mistake of this package, and finds nothing.
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
