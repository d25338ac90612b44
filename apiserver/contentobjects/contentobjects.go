// Package contentobjects makes the content of Workbook and Folder objects in the content store, which only quoin apiserver
// has, and checks the files of Agents, which only it reads. One replica does so at a time; it holds a Lease.
//
//	contentobjects.go  the Lease, the controllers and what they watch
//	workbook.go        Workbooks
//	file.go            definitions in repositories
//	folder.go          Folders
//	agent.go           the files that configure Agents
//	sweep.go           content whose objects do not exist
//	outcome.go         what both have in common: the deployment, errors of the store, deletion
package contentobjects

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/agentfiles"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/fairqueue"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=folders;workbooks,verbs=get;patch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=folders/status;workbooks/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=quoin-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=quoin-system,resources=leases,resourceNames=quoin-apiserver-content,verbs=get;update

const (
	// FieldManager is the field manager of the writes.
	FieldManager = "quoin-content"
	// leaseName is the name of the Lease.
	leaseName = "quoin-apiserver-content"

	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second

	// minBackoff and maxBackoff bound the backoff after failures of one object.
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
	// reconcileTimeout bounds one reconciliation.
	reconcileTimeout = 2 * time.Minute
	// concurrency is the number of workers of each controller.
	concurrency = 4
)

// Options configure Run.
type Options struct {
	Cluster cluster.Cluster
	// Client accesses the Lease.
	Client kubernetes.Interface
	// Namespace is that of the Lease.
	Namespace string
	// WatchNamespaces are the namespaces of accounts whose objects are reconciled.
	WatchNamespaces tenant.Namespaces
	// Database has the content; nil without one.
	Database content.Database
	// Record stores the events of changes. It does not need a request.
	Record content.Record
	// ReadFile returns a file of a commit in the repository of a deployment.
	ReadFile func(ctx context.Context, of content.Scope, commit, path string) ([]byte, error)
	// Files reads the files that configure agents.
	Files Files
	Log   *slog.Logger
}

// Files is implemented by *agentfiles.Files.
type Files interface {
	Served(ctx context.Context, d *v1alpha1.Deployment, s content.Scope) (*agentfiles.Read, error)
}

// Run reconciles the objects while this process has the Lease, until the context ends.
func Run(ctx context.Context, o Options) error {
	host, _ := os.Hostname()
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: leaseName}, Client: o.Client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + uuid.NewString()},
	}
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(o.Log.Handler()))
	for ctx.Err() == nil {
		if err := o.term(ctx, lock); err != nil {
			return err
		}
	}
	return nil
}

// term runs the controllers once this process has the Lease, until it loses it or the context ends.
func (o Options) term(ctx context.Context, lock resourcelock.Interface) (failed error) {
	elected, stop := context.WithCancel(ctx)
	defer stop()
	begun, ended := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: leaseName, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				close(begun)
				defer close(ended)
				defer stop()
				failed = o.control(ctx)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(elected)
	if ctx.Err() == nil {
		<-ended
		return failed
	}
	select {
	case <-begun:
		<-ended
	default: // it never had the Lease
	}
	return nil
}

// control runs the controllers until the context ends.
func (o Options) control(ctx context.Context) error {
	k := kube.NewClient(o.Cluster.GetClient(), o.Cluster.GetAPIReader(), FieldManager)
	recorder, cached := o.Cluster.GetEventRecorder(FieldManager), o.Cluster.GetClient()
	workbooks, err := o.controller("workbook", newWorkbooks(o, k, recorder, clock.RealClock{}),
		o.watch(&v1alpha1.Workbook{}, &handler.EnqueueRequestForObject{}, changedSpec),
		o.mapped(&v1alpha1.Workbook{}, requests.Others[*v1alpha1.Workbook](cached, &v1alpha1.WorkbookList{}), deleted),
		o.mapped(&v1alpha1.Folder{}, workbooksIn(cached)),
		o.mapped(&v1alpha1.Deployment{}, workbooksOf(cached), existence),
		o.mapped(&v1alpha1.Environment{}, workbooksFrom(cached), servedCommit),
		o.mapped(&v1alpha1.Account{}, requests.OfAccount[*v1alpha1.Workbook](cached, &v1alpha1.WorkbookList{}), existence),
	)
	if err != nil {
		return err
	}
	folders, err := o.controller("folder", newFolders(o, k, recorder, clock.RealClock{}),
		o.watch(&v1alpha1.Folder{}, &handler.EnqueueRequestForObject{}, changedSpec),
		o.mapped(&v1alpha1.Folder{}, foldersBeside(cached)),
		o.mapped(&v1alpha1.Deployment{}, foldersOf(cached), existence),
		o.mapped(&v1alpha1.Account{}, requests.OfAccount[*v1alpha1.Folder](cached, &v1alpha1.FolderList{}), existence),
	)
	if err != nil {
		return err
	}
	agents, err := o.controller("agent", &agents{o, k},
		o.watch(&v1alpha1.Agent{}, &handler.EnqueueRequestForObject{}, changedSpec),
		o.mapped(&v1alpha1.Deployment{}, agentsOf(cached), changedSpec),
		o.mapped(&v1alpha1.Environment{}, agentsFrom(cached), servedCommit),
		o.mapped(&v1alpha1.Account{}, requests.OfAccount[*v1alpha1.Agent](cached, &v1alpha1.AgentList{}), existence),
	)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if o.Database != nil {
		sweep := &sweeper{o.Database, o.Cluster.GetAPIReader()}
		go sweep.run(ctx, func(err error) { o.Log.Error("Content without objects could not be released", "error", err) })
	}
	for _, c := range []controller.Controller{workbooks, folders, agents} {
		group.Go(func() error { return c.Start(ctx) }) // without one of them, another replica must take over
	}
	return group.Wait()
}

// controller returns a controller with its own queue, which takes turns between accounts.
func (o Options) controller(name string, r reconcile.Reconciler, watches ...source.Source) (controller.Controller, error) {
	options := controller.Options{
		Reconciler: o.within(r), ReconciliationTimeout: reconcileTimeout,
		RateLimiter:        workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff),
		Logger:             logr.FromSlogHandler(o.Log.Handler()),
		SkipNameValidation: ptr.To(true), // another term of the Lease has had controllers of the same names
	}
	fairqueue.Workers(&options, concurrency)
	c, err := controller.NewUnmanaged("content-"+name, options)
	if err != nil {
		return nil, fmt.Errorf("set up controller %s: %w", name, err)
	}
	for _, w := range watches {
		if err := c.Watch(w); err != nil {
			return nil, fmt.Errorf("set up controller %s: %w", name, err)
		}
	}
	return c, nil
}

// within returns a reconciler that ignores objects in other namespaces.
func (o Options) within(next reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		if !o.WatchNamespaces.Include(request.Namespace) {
			return reconcile.Result{}, nil
		}
		return next.Reconcile(ctx, request)
	})
}

func (o Options) watch(kind client.Object, h handler.EventHandler, of ...predicate.Predicate) source.Source {
	return source.Kind(termCache{o.Cluster.GetCache()}, kind, h, of...)
}

// termCache has informers whose handlers are removed when the context ends with which they were requested: with the term of the Lease.
// The sources of controller-runtime leave them registered, so that each term would add its work to every event.
type termCache struct{ cache.Cache }

// GetInformer implements cache.Informers.
func (c termCache) GetInformer(ctx context.Context, obj client.Object, of ...cache.InformerGetOption) (cache.Informer, error) {
	i, err := c.Cache.GetInformer(ctx, obj, of...)
	return termInformer{i, ctx}, err
}

type termInformer struct {
	cache.Informer
	ctx context.Context //nolint:containedctx // of the term
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i termInformer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	registered, err := i.Informer.AddEventHandlerWithOptions(h, o)
	if err == nil {
		context.AfterFunc(i.ctx, func() { _ = i.Informer.RemoveEventHandler(registered) }) // the informer may have ended
	}
	return registered, err
}

func (o Options) mapped(kind client.Object, affected handler.MapFunc, of ...predicate.Predicate) source.Source {
	return o.watch(kind, handler.EnqueueRequestsFromMapFunc(affected), of...)
}

// changedSpec selects changes of the spec, reconcile requests and deletions.
var changedSpec = predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld, e.ObjectNew
	return before.GetAnnotations()[v1alpha1.AnnotationReconcile] != after.GetAnnotations()[v1alpha1.AnnotationReconcile] ||
		before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero()
}})

// existence selects creations and deletions.
var existence = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
}}

// deleted selects deletions.
var deleted = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// workbooksIn maps a Folder to the Workbooks in it.
func workbooksIn(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, folder client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.WorkbookList{}, func(w *v1alpha1.Workbook) bool {
			return w.Spec.FolderRef != nil && w.Spec.FolderRef.Name == folder.GetName()
		}, client.InNamespace(folder.GetNamespace()))
	}
}

// workbooksOf maps a Deployment to its Workbooks.
func workbooksOf(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, d client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.WorkbookList{}, func(w *v1alpha1.Workbook) bool {
			return w.Spec.DeploymentRef.Name == d.GetName()
		}, client.InNamespace(d.GetNamespace()))
	}
}

// foldersBeside maps a Folder to those in it, and to those that have the same name when it is changed or deleted.
func foldersBeside(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, changed client.Object) []reconcile.Request {
		of, _ := changed.(*v1alpha1.Folder)
		return requests.For(ctx, c, &v1alpha1.FolderList{}, func(f *v1alpha1.Folder) bool {
			isInIt := f.Spec.ParentRef != nil && f.Spec.ParentRef.Name == of.Name
			return f.UID != of.UID && f.Spec.DeploymentRef == of.Spec.DeploymentRef && (isInIt || isStalled(f))
		}, client.InNamespace(of.Namespace))
	}
}

// foldersOf maps a Deployment to its Folders.
func foldersOf(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, d client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.FolderList{}, func(f *v1alpha1.Folder) bool {
			return f.Spec.DeploymentRef.Name == d.GetName()
		}, client.InNamespace(d.GetNamespace()))
	}
}
