// Package dbtobjects connects dbt syncs in the content store with DbtSync objects.
//
// A sync of a Git repository is a row and an object. The row has the request, the manifest and the result;
// the object makes quoin controller run the pod. Each field has one writer at a time, by the stage of the
// object:
//
//	(none)                       this package stores the row, creates the Secret for the delivery, and
//	                             sets the stage INITIALIZING
//	INITIALIZING                 quoin controller creates the Job, and sets CREATING_SANDBOX
//	CREATING_SANDBOX to          quoin controller sets the stage and the phases of the pod, until the Job
//	COMPILING_DBT                is complete (PROCESSING_MANIFEST) or has failed (FAILED)
//	PROCESSING_MANIFEST to       this package sets the stage of the row, which a worker works on
//	COMPLETED or FAILED
//
// Over REST the row is first, and the object, whose name is derived from the id, is created after it; with
// kubectl the object is first, and the id is its UID. Whatever ends in between, the next pass continues:
// passes look at the state only, and every replica makes them.
//
//	dbtobjects.go  passes
//	start.go       the rows of objects that users have created
//	status.go      the status of an object and of a row
//	deliver.go     the delivery of the manifest by the pod
package dbtobjects

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/ratelimit"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=dbtsyncs,verbs=create;delete;get
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=dbtsyncs/status,verbs=patch

const (
	// interval is the time between two passes without a change.
	interval = 5 * time.Second
	// pageSize is the number of rows that are read at a time.
	pageSize = 1000
	// keptFor is how long the object of a sync that was started over REST is kept after its end.
	keptFor = time.Hour
)

// Options configure Objects.
type Options struct {
	// Cached reads Accounts, Deployments and DbtSyncs.
	Cached client.Reader
	// Live reads from the Kubernetes API server.
	Live client.Reader
	// Writer writes objects.
	Writer client.Client
	// Syncs are the rows. Their Record must not need a request.
	Syncs *dbtsync.Syncs
	// Git reports whether quoin controller has an image with dbt.
	Git bool
	// Trusted returns the certificates by which this server is verified, in PEM.
	Trusted func() []byte
	Log     *slog.Logger
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Objects connects rows and objects. Create it with New.
type Objects struct {
	Options
	wake chan struct{}
	// deliveries has a value for each manifest that is being received, failures the failed
	// authentications of client addresses.
	deliveries chan struct{}
	failures   *ratelimit.Limits[netip.Prefix]
	passwords  *passwords
}

// New returns Objects.
func New(o Options) *Objects {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Objects{
		Options: o, wake: make(chan struct{}, 1), deliveries: make(chan struct{}, maxDeliveries),
		failures:  ratelimit.New[netip.Prefix](failuresPerSecond, failureBurst, maxAddresses),
		passwords: &passwords{now: o.Now, known: map[types.UID]knownPassword{}},
	}
}

// Wake causes a pass at once.
func (o *Objects) Wake() {
	select {
	case o.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Handler wakes on changes of DbtSyncs.
func (o *Objects) Handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { o.Wake() }, UpdateFunc: func(any, any) { o.Wake() }, DeleteFunc: func(any) { o.Wake() },
	}
}

// Run makes passes until the context ends. It returns nil.
func (o *Objects) Run(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := o.Pass(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
			o.Log.Error("Cannot read the dbt syncs", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-o.wake:
		case <-ticker.C:
		}
	}
}

// Pass makes one pass: over the running rows, then over the objects that have not ended.
func (o *Objects) Pass(ctx context.Context) error {
	if err := o.rows(ctx); err != nil {
		return err
	}
	list := &v1alpha1.DbtSyncList{}
	if err := o.Cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range list.Items {
		obj := &list.Items[i]
		switch {
		case !obj.DeletionTimestamp.IsZero():
		case !obj.Status.Ended():
			o.report(o.object(ctx, obj.DeepCopy()), obj.Namespace, obj.Name)
		case o.expired(obj):
			err := o.Writer.Delete(ctx, obj.DeepCopy(), client.Preconditions{UID: &obj.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
			o.report(client.IgnoreNotFound(err), obj.Namespace, obj.Name)
		}
	}
	return nil
}

// rows makes a pass over all running rows: an account with many of them does not keep those of others from being worked on.
func (o *Objects) rows(ctx context.Context) error {
	queue := dbtsync.Queue{}
	for last := (*dbtsync.Pending)(nil); ; {
		page, err := o.Syncs.Pending(ctx, last, pageSize)
		if err != nil {
			return err
		}
		for i := range page {
			p := &page[i]
			if queue.Waits(p) {
				continue
			}
			o.report(o.row(ctx, p), p.Scope.Deployment.Namespace, p.ObjectName)
		}
		if len(page) < pageSize {
			return nil
		}
		last = &page[len(page)-1]
	}
}

// report logs an error that the next pass may not have.
func (o *Objects) report(err error, namespace, name string) {
	if err == nil || apierrors.IsConflict(err) || errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.Canceled) {
		return
	}
	o.Log.Warn("A dbt sync could not be worked on; it is retried", "namespace", namespace, "name", name, "cause", err.Error())
}

// expired reports whether the object of an ended sync that was started over REST is no longer needed.
func (o *Objects) expired(obj *v1alpha1.DbtSync) bool {
	ended := obj.Status.CompletionTime
	return obj.Annotations[v1alpha1.AnnotationSyncJobID] != "" && ended != nil && o.Now().Sub(ended.Time) > keptFor
}

// row makes the object of a row, or ends a row whose object has ended or was deleted.
func (o *Objects) row(ctx context.Context, p *dbtsync.Pending) error {
	obj := &v1alpha1.DbtSync{}
	key := types.NamespacedName{Namespace: p.Scope.Deployment.Namespace, Name: p.ObjectName}
	err := o.Cached.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		err = o.Live.Get(ctx, key, obj)
	}
	switch {
	case apierrors.IsNotFound(err) && p.ObjectUID == "":
		return o.create(ctx, p)
	case apierrors.IsNotFound(err), err == nil && p.ObjectUID != "" && string(obj.UID) != p.ObjectUID:
		if !p.Waits {
			return nil // the worker ends it
		}
		return o.Syncs.Fail(ctx, p, p.Stage, p.Phases, "the DbtSync of the sync was deleted")
	case err != nil:
		return err
	case p.ObjectUID == "" && obj.Annotations[v1alpha1.AnnotationSyncJobID] == p.ID:
		return o.Syncs.Created(ctx, p, string(obj.UID))
	case p.Waits && obj.Status.Stage == v1alpha1.DbtStageFailed:
		return o.Syncs.Fail(ctx, p, p.Stage, fromStatus(obj, p.StartedAt), obj.Status.Error)
	}
	return nil
}

// create creates the object of a sync that was started over REST.
func (o *Objects) create(ctx context.Context, p *dbtsync.Pending) error {
	of := p.Scope.Deployment
	if p.Git == nil {
		return nil
	}
	obj := &v1alpha1.DbtSync{Spec: v1alpha1.DbtSyncSpec{
		DeploymentRef: v1alpha1.LocalReference{Name: of.Name}, Branch: p.Branch, Trigger: v1alpha1.DbtTrigger(p.Trigger),
		Source: v1alpha1.DbtSource{Git: p.Git}, Options: &p.Options,
	}}
	obj.Namespace, obj.Name = of.Namespace, p.ObjectName
	obj.Annotations = map[string]string{v1alpha1.AnnotationSyncJobID: p.ID}
	obj.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "Deployment", Name: of.Name, UID: types.UID(of.UID),
	}}
	err := o.Writer.Create(ctx, obj)
	switch {
	case apierrors.IsInvalid(err):
		return o.Syncs.Fail(ctx, p, p.Stage, nil, err.Error())
	case apierrors.IsAlreadyExists(err):
		return nil // another replica has created it
	case err != nil:
		return err
	}
	return o.Syncs.Created(ctx, p, string(obj.UID))
}

// object continues the sync of an object that has not ended.
func (o *Objects) object(ctx context.Context, obj *v1alpha1.DbtSync) error {
	account, err := tenant.Of(ctx, o.Cached, obj.Namespace)
	if errors.Is(err, tenant.ErrNoAccount) {
		return nil
	}
	if err != nil {
		return err
	}
	d := &v1alpha1.Deployment{}
	key := types.NamespacedName{Namespace: obj.Namespace, Name: obj.Spec.DeploymentRef.Name}
	err = o.Cached.Get(ctx, key, d)
	if apierrors.IsNotFound(err) && obj.Status.Stage != "" {
		err = o.Live.Get(ctx, key, d) // the cache may not have it yet
	}
	switch {
	case apierrors.IsNotFound(err) && obj.Status.Stage != "":
		return o.end(ctx, obj, "the deployment was deleted")
	case err != nil:
		return client.IgnoreNotFound(err) // the controller reports it
	}
	of := scopeOf(account, d)
	p, err := o.Syncs.OfObject(ctx, of, obj.Name, string(obj.UID))
	switch {
	case err != nil:
		return err
	case p == nil && obj.Spec.Cancelled != nil && *obj.Spec.Cancelled:
		return o.end(ctx, obj, v1alpha1.DbtCancelled)
	case p == nil && obj.Annotations[v1alpha1.AnnotationSyncJobID] != "":
		// A deployment of that name was deleted, and its syncs with it.
		return o.end(ctx, obj, "the sync of the object does not exist: create a DbtSync without the annotation "+v1alpha1.AnnotationSyncJobID)
	case p == nil:
		return o.start(ctx, obj, d, of)
	}
	if p.Status == dbtsync.Running && obj.Spec.Cancelled != nil && *obj.Spec.Cancelled {
		if err := o.Syncs.Cancel(ctx, of, p.ID); err != nil {
			return err
		}
		if p, err = o.Syncs.OfObject(ctx, of, obj.Name, string(obj.UID)); err != nil || p == nil {
			return err
		}
	}
	switch {
	case p.Status != dbtsync.Running, !p.Waits:
		return o.show(ctx, obj, p)
	case obj.Status.Stage == "" && p.ObjectUID == "":
		return nil // first the row gets it: until then, pushes need no other sync
	case obj.Status.Stage == "":
		return o.admit(ctx, obj, p)
	case obj.Status.Stage == v1alpha1.DbtStageProcessing:
		return o.Syncs.Release(ctx, p, fromStatus(obj, p.StartedAt))
	}
	return o.Syncs.Progress(ctx, p, dbtsync.Stage(obj.Status.Stage), fromStatus(obj, p.StartedAt))
}

// scopeOf returns a deployment in the form of the content store.
func scopeOf(account *v1alpha1.Account, d *v1alpha1.Deployment) content.Scope {
	return content.Scope{
		Account:    store.Account{UID: string(account.UID), Name: account.Name},
		Deployment: store.Deployment{UID: string(d.UID), Namespace: d.Namespace, Name: d.Name},
	}
}
