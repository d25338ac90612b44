package attribute

import (
	"fmt"
	"slices"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/cacheindex"
	"github.com/quoin-dev/quoin/internal/userattribute"
)

// indexNamespace is the index of UserAttributes by namespace.
const indexNamespace = "userattribute.namespace"

// Definitions are the UserAttributes of all accounts, from a cache. They are safe for concurrent use.
type Definitions struct {
	cache toolscache.Indexer

	mu   sync.Mutex
	sets map[string]*Set
}

// Set is the attributes of an account that are in effect. It is immutable: after a change there is another one.
type Set struct {
	// Attributes by name. They must not be modified.
	Attributes []*v1alpha1.UserAttribute
}

// none is the Set of accounts without attributes.
var none = &Set{}

// NewDefinitions returns the attributes of an informer, which may be running.
func NewDefinitions(informer toolscache.SharedIndexInformer) (*Definitions, error) {
	err := informer.AddIndexers(toolscache.Indexers{indexNamespace: cacheindex.By(func(a *v1alpha1.UserAttribute) []string { return []string{a.Namespace} })})
	if err != nil {
		return nil, fmt.Errorf("add index: %w", err)
	}
	return &Definitions{cache: informer.GetIndexer(), sets: map[string]*Set{}}, nil
}

// Of returns the attributes of the account with a namespace. It returns the same Set until they change.
func (d *Definitions) Of(namespace string) *Set {
	all, err := cacheindex.Find[*v1alpha1.UserAttribute](d.cache, indexNamespace, namespace)
	if err != nil { // there is the index
		return none
	}
	attributes := userattribute.InEffect(all)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(attributes) == 0 {
		delete(d.sets, namespace)
		return none
	}
	if known := d.sets[namespace]; known != nil && slices.Equal(known.Attributes, attributes) { // objects of the cache are replaced, not modified
		return known
	}
	d.sets[namespace] = &Set{Attributes: attributes}
	return d.sets[namespace]
}
