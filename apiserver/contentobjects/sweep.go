package contentobjects

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/managed"
	"github.com/quoin-dev/quoin/internal/store"
)

const (
	// sweepInterval is the time between two scans for content whose object does not exist.
	sweepInterval = 10 * time.Minute
	// sweepPage is the number of rows that are read at once.
	sweepPage = 500
)

// sweeper releases content whose object does not exist: its finalizer was removed by a user, or the database was restored without
// the object. The content is kept, because its deletion policy is not known, and users can change it.
type sweeper struct {
	db content.Database
	// live reads from the Kubernetes API server: a cache can be incomplete.
	live client.Reader
}

// run scans at an interval until the context ends.
func (s *sweeper) run(ctx context.Context, report func(error)) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		if err := s.scan(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
			report(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// scan checks all managed content once. The failure of one does not keep others from being checked.
func (s *sweeper) scan(ctx context.Context) error {
	var failed []error
	var last managed.Row
	for {
		var page []managed.Row
		err := s.db.Read(ctx, func(q store.Querier) (err error) {
			page, err = managed.List(ctx, q, last, sweepPage)
			return err
		})
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		for i := range page {
			if err := s.check(ctx, &page[i]); err != nil {
				failed = append(failed, err)
			}
		}
		if len(page) < sweepPage || ctx.Err() != nil {
			return errors.Join(failed...)
		}
		last = page[len(page)-1]
	}
}

func (s *sweeper) check(ctx context.Context, row *managed.Row) error {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(row.Kind))
	err := s.live.Get(ctx, client.ObjectKey{Namespace: row.Namespace, Name: row.Name}, obj)
	// A 404 with an unexpected body means that the kind is not served, not that the object does not exist.
	if !apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return err
	}
	return s.db.Tx(ctx, func(tx *store.Tx) error { return managed.Forget(ctx, tx, row) })
}
