package contentobjects

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/fairqueue"
)

// counting is a cluster whose only informer counts its handlers.
type counting struct {
	cluster.Cluster
	handlers atomic.Int64
}

func (c *counting) GetCache() cache.Cache { return &countingCache{of: c} }

type countingCache struct {
	cache.Cache
	of *counting
}

func (c *countingCache) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return &countingInformer{of: c.of}, nil
}

func (*countingCache) WaitForCacheSync(context.Context) bool { return true }

type countingInformer struct {
	cache.Informer
	of *counting
}

type synced struct {
	toolscache.ResourceEventHandlerRegistration
}

func (synced) HasSynced() bool { return true }

func (i *countingInformer) AddEventHandlerWithOptions(toolscache.ResourceEventHandler, toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.of.handlers.Add(1)
	return synced{}, nil
}

func (i *countingInformer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error {
	i.of.handlers.Add(-1)
	return nil
}

// TestTermsLeaveNoHandlers: with each Lease that is lost, as in an outage of Kubernetes, the work for an event would grow.
func TestTermsLeaveNoHandlers(t *testing.T) {
	c := &counting{}
	ctx, end := context.WithCancel(t.Context())
	of := Options{Cluster: c}.watch(&v1alpha1.Workbook{}, &handler.EnqueueRequestForObject{})
	queue := fairqueue.New(1)("test", nil)
	defer queue.ShutDown()
	if err := of.Start(ctx, queue); err != nil {
		t.Fatal(err)
	}
	syncing, _ := of.(source.SyncingSource)
	if err := syncing.WaitForSync(ctx); err != nil || c.handlers.Load() != 1 {
		t.Fatalf("%d handlers, %v", c.handlers.Load(), err)
	}
	end()
	for deadline := time.Now().Add(5 * time.Second); c.handlers.Load() > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if n := c.handlers.Load(); n != 0 {
		t.Errorf("%d handlers are left of a term", n)
	}
}
