package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/store"
)

// newDbtSyncs returns the dbt syncs of all accounts, and works on them while the database is open.
func newDbtSyncs(k8s cluster.Cluster, database *store.Database, log *slog.Logger) *dbtsync.Syncs {
	wake := make(chan struct{}, 1)
	database.WhileOpen(func(ctx context.Context, s *store.Store) error {
		record := recordWithoutRequest(k8s.GetCache())
		worker := &dbtsync.Worker{
			Store: s, Repositories: &repository.Repositories{DB: s, Record: record}, Record: record, Log: log,
			Moved: func(ctx context.Context, of content.Scope) error { return requestFetch(ctx, k8s, of) },
		}
		return worker.Run(ctx, wake)
	})
	database.WhileOpen(func(ctx context.Context, s *store.Store) error { return dbtsync.RunExpiry(ctx, s, purgeInterval, log) })
	return &dbtsync.Syncs{DB: database, Record: recordOfRequest, Started: func() {
		select {
		case wake <- struct{}{}:
		default: // it is awake already
		}
	}}
}

// recordOfRequest is the content.Record of the deployment of a request.
func recordOfRequest(ctx context.Context, tx *store.Tx, e audit.Event) error {
	e.Deployment = recording.DeploymentOf(rest.ScopeFrom(ctx).Deployment)
	return recording.RecordTx(ctx, tx, e)
}

// recordWithoutRequest returns a content.Record for changes that quoin apiserver makes in the background.
// Events need the name of their account.
func recordWithoutRequest(accounts client.Reader) content.Record {
	return func(ctx context.Context, tx *store.Tx, e audit.Event) error {
		account := &v1alpha1.Account{}
		if err := accounts.Get(ctx, client.ObjectKey{Name: e.Account}, account); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("record %q: %w", e.Name, err)
		}
		if !recording.IsOn(account) {
			return nil
		}
		e.Source, e.Actor, e.Outcome = audit.SourceController, audit.Actor{Kind: audit.ActorSystem, ID: edit.Manager}, cmp.Or(e.Outcome, audit.Succeeded)
		return audit.RecordTx(ctx, tx, e)
	}
}

// requestFetch has the branches of a deployment read at once.
func requestFetch(ctx context.Context, k8s cluster.Cluster, of content.Scope) error {
	d := &v1alpha1.Deployment{}
	if err := k8s.GetCache().Get(ctx, client.ObjectKey{Namespace: of.Deployment.Namespace, Name: of.Deployment.Name}, d); err != nil {
		return client.IgnoreNotFound(err)
	}
	if string(d.UID) != of.Deployment.UID {
		return nil
	}
	d = d.DeepCopy()
	before := d.DeepCopy()
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[v1alpha1.AnnotationReconcile] = time.Now().UTC().Format(time.RFC3339Nano)
	return client.IgnoreNotFound(k8s.GetClient().Patch(ctx, d, client.MergeFrom(before), client.FieldOwner(edit.Manager)))
}
