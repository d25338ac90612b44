package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// catalog keeps the deployments of each account in the order in which they are listed, so
// that a page costs as much as the page, however many there are. A list is made anew after
// something of the namespace has changed.
type catalog struct {
	store toolscache.Indexer

	mu sync.Mutex
	// changes counts those of a namespace; lists are gone when there was one.
	changes map[string]uint64
	lists   map[string][]*v1alpha1.Deployment
}

func newCatalog(deployments toolscache.SharedIndexInformer) (*catalog, error) {
	c := &catalog{store: deployments.GetIndexer(), changes: map[string]uint64{}, lists: map[string][]*v1alpha1.Deployment{}}
	_, err := deployments.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    c.changed,
		UpdateFunc: func(_, o any) { c.changed(o) },
		DeleteFunc: c.changed,
	})
	if err != nil {
		return nil, fmt.Errorf("follow deployments: %w", err)
	}
	return c, nil
}

func (c *catalog) changed(o any) {
	if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	if d, ok := o.(*v1alpha1.Deployment); ok {
		c.forget(d.Namespace)
	}
}

// forget makes the next list anew, from what the store has by then.
func (c *catalog) forget(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes[namespace]++
	delete(c.lists, namespace)
}

// of lists the deployments of a namespace that have a number, by number. The list and what is
// in it are shared: not to be changed.
func (c *catalog) of(namespace string) ([]*v1alpha1.Deployment, error) {
	c.mu.Lock()
	list, ok := c.lists[namespace]
	before := c.changes[namespace]
	c.mu.Unlock()
	if ok {
		return list, nil
	}
	stored, err := c.store.ByIndex(toolscache.NamespaceIndex, namespace)
	if err != nil {
		return nil, fmt.Errorf("list deployments: %w", err)
	}
	list = make([]*v1alpha1.Deployment, 0, len(stored))
	for _, o := range stored {
		if d, ok := o.(*v1alpha1.Deployment); ok && d.DeletionTimestamp.IsZero() && numberOf(d) > 0 {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(x, y *v1alpha1.Deployment) int { return cmp.Compare(numberOf(x), numberOf(y)) })
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes[namespace] == before {
		c.lists[namespace] = list
	}
	return list, nil
}
