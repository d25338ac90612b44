package catalog

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
)

// Indexes of the cache that lookups use.
const (
	indexID         = "rest.id"
	indexDeployment = "rest.deployment"
)

// AddIndexes prepares a cache for the lookups of this package.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	byID := func(o client.Object) []string {
		if id := o.GetLabels()[v1alpha1.LabelID]; id != "" {
			return []string{id}
		}
		return nil
	}
	byDeployment := func(o client.Object) []string {
		switch o := o.(type) {
		case *v1alpha1.Environment:
			return []string{o.Spec.DeploymentRef.Name}
		case *v1alpha1.Branch:
			return []string{o.Spec.DeploymentRef.Name}
		}
		return nil
	}
	for _, index := range []struct {
		of    client.Object
		field string
		value client.IndexerFunc
	}{
		{&v1alpha1.Deployment{}, indexID, byID},
		{&v1alpha1.Environment{}, indexDeployment, byDeployment},
		{&v1alpha1.Branch{}, indexDeployment, byDeployment},
	} {
		if err := indexer.IndexField(ctx, index.of, index.field, index.value); err != nil {
			return fmt.Errorf("index %T by %s: %w", index.of, index.field, err)
		}
	}
	return nil
}

var digits = regexp.MustCompile(`^[0-9]{1,16}$`)

// deployment finds the account's deployment with a number, as fresh as the API server. What
// is not in the principal's scope answers 403, whether it exists or not.
func (a *API) deployment(ctx context.Context, id string) (*v1alpha1.Deployment, error) {
	s := scopeOf(ctx)
	if !digits.MatchString(id) {
		return nil, badRequest("deploymentId: %q is not a number", clip(id))
	}
	d, err := a.findDeployment(ctx, s.namespace(), id)
	if err != nil {
		return nil, err
	}
	outside := d != nil && !s.principal.Reaches(d.Name) || d == nil && s.principal.Deployments != nil
	switch {
	case outside:
		return nil, forbidden("the key is not for deployment %s", id)
	case d == nil:
		return nil, notFound("deployment %s does not exist", id)
	}
	return d, nil
}

// findDeployment asks the cache for the name and the API server for the object; it returns
// nil when there is none.
func (a *API) findDeployment(ctx context.Context, namespace, id string) (*v1alpha1.Deployment, error) {
	known := &v1alpha1.DeploymentList{}
	if err := a.Kube.List(ctx, known, client.InNamespace(namespace), client.MatchingFields{indexID: id}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	if len(known.Items) == 1 {
		d := &v1alpha1.Deployment{}
		err := a.Kube.Live().Get(ctx, client.ObjectKeyFromObject(&known.Items[0]), d)
		if err == nil && d.Labels[v1alpha1.LabelID] == id && d.DeletionTimestamp.IsZero() {
			return d, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
	}
	// The cache may be behind, or two objects carry the number for a moment after a restore.
	fresh := &v1alpha1.DeploymentList{}
	if err := a.Kube.Live().List(ctx, fresh, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelID: id}); err != nil {
		return nil, err
	}
	for i := range fresh.Items {
		if d := &fresh.Items[i]; d.DeletionTimestamp.IsZero() && (d.Status.ID == id || len(fresh.Items) == 1) {
			return d, nil
		}
	}
	return nil, nil
}

// deploymentsOf lists the account's deployments that have a number and that the principal
// reaches, by number. The list and what is in it are shared: not to be changed.
func (a *API) deploymentsOf(ctx context.Context) ([]*v1alpha1.Deployment, error) {
	s := scopeOf(ctx)
	all, err := a.catalog.of(s.namespace())
	if err != nil || s.principal.Deployments == nil {
		return all, err
	}
	var reached []*v1alpha1.Deployment
	for _, d := range all {
		if s.principal.Reaches(d.Name) {
			reached = append(reached, d)
		}
	}
	return reached, nil
}

// environmentsOf lists a deployment's environments that have a number, by number, from the cache.
func (a *API) environmentsOf(ctx context.Context, d *v1alpha1.Deployment) ([]*v1alpha1.Environment, error) {
	list := &v1alpha1.EnvironmentList{}
	err := a.Kube.List(ctx, list, client.InNamespace(d.Namespace), client.MatchingFields{indexDeployment: d.Name}, client.UnsafeDisableDeepCopy)
	return byNumber[v1alpha1.Environment](list.Items), err
}

// branchesOf lists a deployment's branches that have a number, by number, from the cache.
func (a *API) branchesOf(ctx context.Context, d *v1alpha1.Deployment) ([]*v1alpha1.Branch, error) {
	list := &v1alpha1.BranchList{}
	err := a.Kube.List(ctx, list, client.InNamespace(d.Namespace), client.MatchingFields{indexDeployment: d.Name}, client.UnsafeDisableDeepCopy)
	return byNumber[v1alpha1.Branch](list.Items), err
}

// byNumber sorts objects by their numbers and leaves out those that have none yet or go away.
func byNumber[T any, P interface {
	*T
	client.Object
}](items []T) []P {
	var found []P
	for i := range items {
		if o := P(&items[i]); numberOf(o) > 0 && o.GetDeletionTimestamp().IsZero() {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, func(x, y P) int { return cmp.Compare(numberOf(x), numberOf(y)) })
	return found
}

// numberOf is the number of an object, 0 while it has none.
func numberOf(o client.Object) int64 {
	id, _ := ids.Parse(o.GetLabels()[v1alpha1.LabelID])
	return id
}

// Keys by which lists are sorted and paged.
func deploymentNumber(d *v1alpha1.Deployment) int64   { return numberOf(d) }
func environmentNumber(e *v1alpha1.Environment) int64 { return numberOf(e) }

// seen waits until the cache shows an object as it was written, or gone: a replica has seen
// its own writes before it answers them. It gives up silently, for the write is done.
func (a *API) seen(ctx context.Context, o client.Object, there bool) {
	key := client.ObjectKeyFromObject(o)
	_ = a.await(ctx, func(ctx context.Context) (bool, error) {
		cached, ok := o.DeepCopyObject().(client.Object)
		if !ok {
			return true, nil
		}
		err := a.Kube.Client.Get(ctx, key, cached)
		switch {
		case apierrors.IsNotFound(err):
			return !there, nil
		case err != nil:
			return false, err
		case there:
			return !kube.Older(cached.GetResourceVersion(), o.GetResourceVersion()), nil
		}
		return !cached.GetDeletionTimestamp().IsZero() || cached.GetUID() != o.GetUID(), nil
	})
	a.catalog.forget(o.GetNamespace())
}
