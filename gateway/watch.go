package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/gateway/route"
	"github.com/quoin-dev/quoin/gateway/upstream"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// indexService is the index of EndpointSlices by Service.
const indexService = "service"

// rebuildInterval is the minimum time between rebuilds of the table, so that many changes at once
// cause one rebuild.
const rebuildInterval = 50 * time.Millisecond

// watch updates the routing table and the pools from a cache.
type watch struct {
	cache cache.Cache
	// namespaces are those whose accounts are served.
	namespaces tenant.Namespaces
	handler    *handler
	pools      *upstream.Pools
	change     chan struct{}
}

// start adds the event handlers, waits for the caches to sync and builds the first table.
func (w *watch) start(ctx context.Context) error {
	service := func(o client.Object) []string { return []string{o.GetLabels()[discoveryv1.LabelServiceName]} }
	if err := w.cache.IndexField(ctx, &discoveryv1.EndpointSlice{}, indexService, service); err != nil {
		return fmt.Errorf("index endpoint slices: %w", err)
	}
	handlers := map[client.Object]toolscache.ResourceEventHandler{
		&discoveryv1.EndpointSlice{}: toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { w.endpoints(ctx, o) },
			UpdateFunc: func(_, o any) { w.endpoints(ctx, o) },
			DeleteFunc: func(o any) { w.endpoints(ctx, o) },
		},
	}
	for _, kind := range v1alpha1.Kinds {
		if kind.Cached.Gateway != v1alpha1.NotCached {
			handlers[kind.Object] = w.eventHandler()
		}
	}
	var synced []toolscache.InformerSynced
	for object, handler := range handlers {
		informer, err := w.cache.GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return errors.New("the caches did not sync")
	}
	return w.rebuild(ctx)
}

// eventHandler requests a rebuild of the table when an object is added, deleted or changed.
func (w *watch) eventHandler() toolscache.ResourceEventHandler {
	notify := func() {
		select {
		case w.change <- struct{}{}:
		default:
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		DeleteFunc: func(any) { notify() },
		UpdateFunc: func(before, after any) {
			if differ(before, after) {
				notify()
			}
		},
	}
}

// differ reports whether two versions of an object differ in what routes depend on.
func differ(before, after any) bool {
	a, okA := before.(client.Object)
	b, okB := after.(client.Object)
	return !okA || !okB || !equality.Semantic.DeepEqual(routeFields(a), routeFields(b)) || a.GetUID() != b.GetUID() ||
		a.GetDeletionTimestamp().IsZero() != b.GetDeletionTimestamp().IsZero()
}

// routeFields returns the fields of an object that routes depend on. Those of environments and
// branches are immutable.
func routeFields(o client.Object) any {
	switch o := o.(type) {
	case *v1alpha1.Account:
		return o.Spec
	case *v1alpha1.Deployment:
		return [2]any{o.Spec.DataAPI, o.Status.CustomDomain}
	case *v1alpha1.Environment:
		return o.Spec.DeploymentRef
	case *v1alpha1.Branch:
		return o.Spec.Name
	default:
		return o
	}
}

// run rebuilds the table until the context ends. It returns nil.
func (w *watch) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.change:
		}
		if err := w.rebuild(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Cannot list deployments; keeping the present routes")
		}
		select {
		case <-ctx.Done():
		case <-time.After(rebuildInterval):
		}
	}
}

func (w *watch) rebuild(ctx context.Context) error {
	var (
		accounts     v1alpha1.AccountList
		deployments  v1alpha1.DeploymentList
		environments v1alpha1.EnvironmentList
		branches     v1alpha1.BranchList
	)
	for _, list := range []client.ObjectList{&accounts, &deployments, &environments, &branches} {
		if err := w.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
	}
	served := slices.DeleteFunc(accounts.Items, func(a v1alpha1.Account) bool { return !w.namespaces.Include(a.Spec.Namespace) })
	table := route.NewTable(route.Objects{
		Accounts: served, Deployments: deployments.Items, Environments: environments.Items, Branches: branches.Items,
	})
	w.handler.table.Store(table)
	w.pools.Prune(table.Environments())
	w.handler.keys.Prune(table.HasEnvironment)
	w.handler.limits.prune(table.Has)
	w.handler.metrics.deployments.prune(table.Has)
	return nil
}

// endpoints updates the pools of the Service of a changed EndpointSlice.
func (w *watch) endpoints(ctx context.Context, o any) {
	if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	slice, ok := o.(*discoveryv1.EndpointSlice)
	if !ok || slice.Labels[discoveryv1.LabelServiceName] == "" {
		return
	}
	service := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
	list := &discoveryv1.EndpointSliceList{}
	err := w.cache.List(ctx, list, client.InNamespace(service.Namespace), client.MatchingFields{indexService: service.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		if ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Cannot list the endpoint slices of a service", "service", service)
		}
		return
	}
	all := make([]*discoveryv1.EndpointSlice, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	w.pools.Set(service, all)
}
