package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/ids"
)

// Indexes of the cache.
const (
	indexID         = "catalog.id"
	indexDeployment = "catalog.deployment"
)

// AddIndexes adds the indexes that a Catalog needs to a cache.
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

// pointers returns pointers to the items of a list.
func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}
