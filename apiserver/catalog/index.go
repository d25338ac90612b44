package catalog

import (
	"cmp"
	"fmt"
	"slices"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/cacheindex"
	"github.com/quoin-dev/quoin/internal/ids"
)

// Indexes of the informers. Requests read them directly: an index of the client of a cache copies what it finds into a list.
const (
	indexID         = "catalog.id"
	indexDeployment = "catalog.deployment"
)

// addIndexes adds the indexes that a Catalog needs.
func (i Informers) addIndexes() error {
	for _, index := range []struct {
		of    toolscache.SharedIndexInformer
		name  string
		value toolscache.IndexFunc
	}{
		{i.Deployments, indexID, indexBy(func(d *v1alpha1.Deployment) string { return d.Labels[v1alpha1.LabelID] })},
		{i.Environments, indexDeployment, indexBy(func(e *v1alpha1.Environment) string { return e.Spec.DeploymentRef.Name })},
		{i.Branches, indexDeployment, indexBy(func(b *v1alpha1.Branch) string { return b.Spec.DeploymentRef.Name })},
	} {
		if err := index.of.AddIndexers(toolscache.Indexers{index.name: index.value}); err != nil {
			return fmt.Errorf("add index %s: %w", index.name, err)
		}
	}
	return nil
}

// indexBy indexes the objects of a namespace by a value. Objects without one are not indexed.
func indexBy[O client.Object](value func(O) string) toolscache.IndexFunc {
	return cacheindex.By(func(o O) []string {
		if v := value(o); v != "" {
			return []string{cacheindex.Key(o.GetNamespace(), v)}
		}
		return nil
	})
}

// NumberOf returns the number of an object, 0 while it has none.
func NumberOf[O client.Object](o O) int64 {
	id, _ := ids.Parse(o.GetLabels()[v1alpha1.LabelID])
	return id
}

// byNumber returns the objects that have a number and are not being deleted, by number.
func byNumber[O client.Object](objects []O) []O {
	type numbered struct {
		number int64
		object O
	}
	found := make([]numbered, 0, len(objects))
	for _, o := range objects {
		if number := NumberOf(o); number > 0 && o.GetDeletionTimestamp().IsZero() {
			found = append(found, numbered{number, o})
		}
	}
	slices.SortFunc(found, func(x, y numbered) int { return cmp.Compare(x.number, y.number) })
	sorted := make([]O, len(found))
	for i := range found {
		sorted[i] = found[i].object
	}
	return sorted
}
