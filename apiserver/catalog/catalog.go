// Package catalog reads the deployments of accounts, with their environments and branches, by the
// numbers that the REST API shows.
package catalog

import (
	"context"
	"fmt"
	"regexp"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/cacheindex"
	"github.com/quoin-dev/quoin/internal/freshness"
	"github.com/quoin-dev/quoin/internal/kube"
)

// Catalog keeps the deployments of each account in the order in which they are listed, so that the
// cost of a page does not depend on the length of the list. A list is rebuilt after a change in its
// namespace. It is safe for concurrent use.
type Catalog struct {
	kube                                *kube.Client
	deployments, environments, branches toolscache.Indexer
	observe                             func(before, after any)

	mu sync.Mutex
	// changes counts the changes of a namespace; a change removes the list of the namespace.
	changes map[string]uint64
	lists   map[string][]*v1alpha1.Deployment
}

// Informers are those of the objects of a Catalog.
type Informers struct {
	Deployments, Environments, Branches toolscache.SharedIndexInformer
}

// New returns a Catalog of the objects of informers, to which it adds indexes.
func New(c *kube.Client, informers Informers) (*Catalog, error) {
	if err := informers.addIndexes(); err != nil {
		return nil, err
	}
	catalog := &Catalog{
		kube:        c,
		deployments: informers.Deployments.GetIndexer(), environments: informers.Environments.GetIndexer(), branches: informers.Branches.GetIndexer(),
		observe: c.Tracker().Observer(c.KindOf(&v1alpha1.Deployment{})),
		changes: map[string]uint64{}, lists: map[string][]*v1alpha1.Deployment{},
	}
	if _, err := informers.Deployments.AddEventHandler(freshness.EventHandler(catalog.changed)); err != nil {
		return nil, fmt.Errorf("follow deployments: %w", err)
	}
	return catalog, nil
}

func (c *Catalog) changed(before, after any) {
	for _, o := range []any{before, after} {
		if d, ok := o.(*v1alpha1.Deployment); ok {
			c.invalidate(d.Namespace)
		}
	}
	c.observe(before, after)
}

// invalidate makes the next caller rebuild the list of a namespace.
func (c *Catalog) invalidate(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes[namespace]++
	delete(c.lists, namespace)
}

// Deployments returns the deployments of a namespace that have a number and on which a principal holds a
// permission, or any if it is empty, by number. The list and the objects are shared and must not be modified.
func (c *Catalog) Deployments(namespace string, p *auth.Principal, needed v1alpha1.Permission) ([]*v1alpha1.Deployment, error) {
	all, err := c.all(namespace)
	if err != nil || p.MayOn(needed, "") {
		return all, err
	}
	var reached []*v1alpha1.Deployment
	for _, d := range all {
		if p.MayOn(needed, d.Name) {
			reached = append(reached, d)
		}
	}
	return reached, nil
}

func (c *Catalog) all(namespace string) ([]*v1alpha1.Deployment, error) {
	c.mu.Lock()
	list, ok := c.lists[namespace]
	before := c.changes[namespace]
	c.mu.Unlock()
	if ok {
		return list, nil
	}
	deployments, err := cacheindex.Find[*v1alpha1.Deployment](c.deployments, toolscache.NamespaceIndex, namespace)
	if err != nil {
		return nil, err
	}
	list = byNumber(deployments)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes[namespace] == before {
		c.lists[namespace] = list
	}
	return list, nil
}

var numeric = regexp.MustCompile(`^[0-9]{1,16}$`)

// Find returns the deployment of a namespace with an id, or nil if there is none. The name is read
// from the cache, the object from the Kubernetes API server.
func (c *Catalog) Find(ctx context.Context, namespace, id string) (*v1alpha1.Deployment, error) {
	if !numeric.MatchString(id) {
		return nil, nil
	}
	known, err := c.cached(namespace, id)
	if err != nil {
		return nil, err
	}
	if known != nil {
		d := &v1alpha1.Deployment{}
		err := c.kube.Live().Get(ctx, client.ObjectKeyFromObject(known), d)
		if err == nil && d.Labels[v1alpha1.LabelID] == id && d.DeletionTimestamp.IsZero() {
			return d, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
	}
	return c.findLive(ctx, namespace, id)
}

// FindCached is Find for a deployment that may be as old as the cache. One that the cache does not have,
// or that is being deleted there, is read from the Kubernetes API server.
func (c *Catalog) FindCached(ctx context.Context, namespace, id string) (*v1alpha1.Deployment, error) {
	if !numeric.MatchString(id) {
		return nil, nil
	}
	known, err := c.cached(namespace, id)
	if err != nil {
		return nil, err
	}
	if known != nil && known.DeletionTimestamp.IsZero() {
		return known.DeepCopy(), nil
	}
	return c.findLive(ctx, namespace, id)
}

// cached returns the only deployment with an id in the cache, or nil. It is shared and must not be
// modified.
func (c *Catalog) cached(namespace, id string) (*v1alpha1.Deployment, error) {
	known, err := cacheindex.Find[*v1alpha1.Deployment](c.deployments, indexID, cacheindex.Key(namespace, id))
	if err != nil || len(known) != 1 {
		return nil, err
	}
	return known[0], nil
}

// findLive returns the deployment with an id from the Kubernetes API server, or nil.
func (c *Catalog) findLive(ctx context.Context, namespace, id string) (*v1alpha1.Deployment, error) {
	// The cache may be behind, or two objects have the same number for a moment after a restore.
	fresh := &v1alpha1.DeploymentList{}
	if err := c.kube.Live().List(ctx, fresh, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelID: id}); err != nil {
		return nil, err
	}
	for i := range fresh.Items {
		if d := &fresh.Items[i]; d.DeletionTimestamp.IsZero() && (d.Status.ID == id || len(fresh.Items) == 1) {
			return d, nil
		}
	}
	return nil, nil
}

// Environments returns the environments of a deployment that have a number, by number, from the
// cache. The objects are shared and must not be modified.
func (c *Catalog) Environments(d *v1alpha1.Deployment) ([]*v1alpha1.Environment, error) {
	all, err := cacheindex.Find[*v1alpha1.Environment](c.environments, indexDeployment, cacheindex.Key(d.Namespace, d.Name))
	return byNumber(all), err
}

// Branches returns the branches of a deployment that have a number, by number, from the cache. The
// objects are shared and must not be modified.
func (c *Catalog) Branches(d *v1alpha1.Deployment) ([]*v1alpha1.Branch, error) {
	all, err := cacheindex.Find[*v1alpha1.Branch](c.branches, indexDeployment, cacheindex.Key(d.Namespace, d.Name))
	return byNumber(all), err
}

// ProductionBranch returns the name of the branch that production runs; empty if the model is not in
// Git and no branch is declared.
func ProductionBranch(d *v1alpha1.Deployment, branches []*v1alpha1.Branch) string {
	for _, b := range branches {
		if b.Spec.Role == v1alpha1.BranchProduction {
			return b.Spec.Name
		}
	}
	switch model := d.Spec.Model; {
	case model.Git != nil:
		return model.Git.Branch
	case model.Repository != nil:
		return model.Repository.BranchName()
	}
	return ""
}
