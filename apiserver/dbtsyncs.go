package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/dbtobjects"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/gitmirror"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/starter"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store"
)

// newDbtSyncs returns the dbt syncs of all accounts, works on them while the database is open, and connects
// them with DbtSync objects.
func newDbtSyncs(k8s cluster.Cluster, database *store.Database, mirrors *gitmirror.Mirrors, c Config) (*dbtsync.Syncs, *dbtobjects.Objects) {
	wake := make(chan struct{}, 1)
	wakeWorker := func() {
		select {
		case wake <- struct{}{}:
		default: // it is awake already
		}
	}
	background := recordWithoutRequest(k8s.GetCache())
	objects := dbtobjects.New(dbtobjects.Options{
		Cached: k8s.GetCache(), Live: k8s.GetAPIReader(), Writer: k8s.GetClient(), Git: c.DbtImage != "", Log: c.Log,
		Syncs: &dbtsync.Syncs{DB: database, Record: background, Started: wakeWorker},
	})
	database.WhileOpen(func(ctx context.Context, s *store.Store) error {
		repositories := &repository.Repositories{DB: s, Record: background}
		worker := &dbtsync.Worker{
			Store: s, Repositories: repositories, Record: background, Log: c.Log, Ended: objects.Wake,
			Open: func(ctx context.Context, of content.Scope) (*repository.Session, string, error) {
				return openModel(ctx, k8s.GetCache(), repositories, mirrors, of)
			},
			Moved: func(ctx context.Context, of content.Scope) error { return requestFetch(ctx, k8s, of) },
		}
		return worker.Run(ctx, wake)
	})
	database.WhileOpen(func(ctx context.Context, s *store.Store) error {
		return dbtsync.RunExpiry(ctx, s, purgeInterval, c.Log)
	})
	return &dbtsync.Syncs{DB: database, Record: recordOfRequest, Started: func() { wakeWorker(); objects.Wake() }}, objects
}

// runDbtObjects makes the objects of dbt syncs in the background.
func runDbtObjects(ctx context.Context, k8s cluster.Cluster, objects *dbtobjects.Objects, trusted func() []byte, background *serving.Background) error {
	if objects == nil {
		return nil
	}
	informer, err := informerOf(ctx, k8s.GetCache(), &v1alpha1.DbtSync{})
	if err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(objects.Handler()); err != nil {
		return fmt.Errorf("observe dbt syncs: %w", err)
	}
	objects.Trusted = trusted
	background.Run("dbt syncs", objects.Run)
	return nil
}

// openModel returns a session on the repository with the data model of a deployment: the one that Quoin
// keeps, or the mirror of a remote; and the branch that production serves.
func openModel(ctx context.Context, deployments client.Reader, kept *repository.Repositories, mirrors *gitmirror.Mirrors, of content.Scope) (*repository.Session, string, error) {
	d := &v1alpha1.Deployment{}
	err := deployments.Get(ctx, client.ObjectKey{Namespace: of.Deployment.Namespace, Name: of.Deployment.Name}, d)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, "", fmt.Errorf("read a deployment: %w", err)
	case err != nil || string(d.UID) != of.Deployment.UID:
		return nil, "", content.Errorf(content.NotFound, "the deployment was deleted")
	case d.Spec.Model.Git == nil && d.Spec.Model.Repository == nil:
		return nil, "", content.Errorf(content.Conflict, "the data model of the deployment is not in a Git repository")
	case d.Spec.Model.Git == nil:
		session := kept.Session(ctx, of)
		return session, d.Spec.Model.Repository.BranchName(), starter.Ensure(session, d)
	}
	mirror, err := mirrors.Open(ctx, d, of, gitmirror.Current)
	if err != nil {
		return nil, "", err
	}
	return mirror.Session(ctx, kept), mirror.Production, nil
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

// deploymentOf returns the deployment of a scope; nil if it does not exist.
func deploymentOf(ctx context.Context, k8s cluster.Cluster, of content.Scope) (*v1alpha1.Deployment, error) {
	d := &v1alpha1.Deployment{}
	if err := k8s.GetCache().Get(ctx, client.ObjectKey{Namespace: of.Deployment.Namespace, Name: of.Deployment.Name}, d); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if string(d.UID) != of.Deployment.UID {
		return nil, nil
	}
	return d, nil
}

// requestFetch has the branches of a deployment read at once.
func requestFetch(ctx context.Context, k8s cluster.Cluster, of content.Scope) error {
	d, err := deploymentOf(ctx, k8s, of)
	if d == nil || err != nil {
		return err
	}
	d = d.DeepCopy()
	before := d.DeepCopy()
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[v1alpha1.AnnotationReconcile] = time.Now().UTC().Format(time.RFC3339Nano)
	return client.IgnoreNotFound(k8s.GetClient().Patch(ctx, d, client.MergeFrom(before), client.FieldOwner(edit.Manager)))
}
