package gateway

import (
	"context"
	"errors"
	"fmt"
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
)

// indexService is the index of EndpointSlices by Service.
const indexService = "service"

// rebuildInterval is the minimum time between rebuilds of the table, so that many changes at once
// cause one rebuild.
const rebuildInterval = 50 * time.Millisecond

// watch updates the routing table and the pools from a cache.
type watch struct {
	cache   cache.Cache
	handler *handler
	pools   *upstream.Pools
	change  chan struct{}
}

// start adds the event handlers, waits for the caches to sync and builds the first table.
func (w *watch) start(ctx context.Context) error {
	service := func(o client.Object) []string { return []string{o.GetLabels()[discoveryv1.LabelServiceName]} }
	if err := w.cache.IndexField(ctx, &discoveryv1.EndpointSlice{}, indexService, service); err != nil {
		return fmt.Errorf("index endpoint slices: %w", err)
	}
	handlers := map[client.Object]toolscache.ResourceEventHandler{
		&v1alpha1.Account{}: w.eventHandler(func(a, b any) bool {
			return differ(a, b, func(o *v1alpha1.Account) any { return o.Spec })
		}),
		&v1alpha1.Deployment{}: w.eventHandler(func(a, b any) bool {
			return differ(a, b, func(o *v1alpha1.Deployment) any { return o.Spec.DataAPI })
		}),
		// The fields of environments and branches that routes depend on are immutable.
		&v1alpha1.Environment{}: w.eventHandler(func(a, b any) bool {
			return differ(a, b, func(o *v1alpha1.Environment) any { return o.Spec.DeploymentRef })
		}),
		&v1alpha1.Branch{}: w.eventHandler(func(a, b any) bool {
			return differ(a, b, func(o *v1alpha1.Branch) any { return o.Spec.Name })
		}),
		&discoveryv1.EndpointSlice{}: toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { w.endpoints(ctx, o) },
			UpdateFunc: func(_, o any) { w.endpoints(ctx, o) },
			DeleteFunc: func(o any) { w.endpoints(ctx, o) },
		},
	}
	var synced []toolscache.InformerSynced
	for kind, handler := range handlers {
		informer, err := w.cache.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return errors.New("the caches did not sync")
	}
	return w.rebuild(ctx)
}

// eventHandler requests a rebuild of the table when an object is added, deleted or changed.
func (w *watch) eventHandler(changed func(before, after any) bool) toolscache.ResourceEventHandler {
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
			if changed(before, after) {
				notify()
			}
		},
	}
}

// differ reports whether two versions of an object differ in what routes depend on.
func differ[T client.Object](before, after any, of func(T) any) bool {
	a, okA := before.(T)
	b, okB := after.(T)
	return !okA || !okB || !equality.Semantic.DeepEqual(of(a), of(b)) || a.GetUID() != b.GetUID() ||
		a.GetDeletionTimestamp().IsZero() != b.GetDeletionTimestamp().IsZero()
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
	table := route.NewTable(route.Objects{
		Accounts: accounts.Items, Deployments: deployments.Items, Environments: environments.Items, Branches: branches.Items,
	})
	w.handler.table.Store(table)
	w.handler.limits.prune(table.Has)
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
