package controllers_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quoin-dev/quoin/controllers"
	"github.com/quoin-dev/quoin/controllers/metrics"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/telemetry"
)

// TestOnlyTheLeaderExportsObjects: of two replicas, only the leader exports the objects, and the other one as soon as it is
// the leader.
func TestOnlyTheLeaderExportsObjects(t *testing.T) {
	w := newWorld(t, 1)
	w.create(w.deployment("observed"))
	first, stop := w.replica()
	awaitSeries(t, first)
	second, stopSecond := w.replica()
	defer stopSecond()
	time.Sleep(time.Second) // a replica that exported the objects at once would do so now
	if n := series(t, second); n != 0 {
		t.Errorf("the standby exports %d series", n)
	}
	stop()
	awaitSeries(t, second)
}

// replica starts a manager with the metrics of objects and without controllers. Its cache is synced.
func (w *world) replica() (metricsOfReplica *prometheus.Registry, stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	mgr, err := ctrl.NewManager(apitest.Server(w.t), manager.Options{
		Scheme: w.api.Scheme(), Cache: controllers.CacheOptions(), Metrics: server.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "quoin-metrics", LeaderElectionNamespace: w.name, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: ptr.To(3 * time.Second), RenewDeadline: ptr.To(2 * time.Second), RetryPeriod: ptr.To(200 * time.Millisecond),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	objects, err := metrics.NewObjects(ctx, mgr.GetCache())
	if err != nil {
		w.t.Fatal(err)
	}
	metricsOfReplica = prometheus.NewRegistry()
	if err := telemetry.Register(metricsOfReplica, telemetry.LeaderOnly(mgr.Elected(), objects)...); err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = mgr.Start(ctx)
	}()
	stop = func() { cancel(); <-ended }
	w.t.Cleanup(stop)
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		w.t.Fatal("the cache did not sync")
	}
	return metricsOfReplica, stop
}

func series(t *testing.T, from *prometheus.Registry) int {
	t.Helper()
	n, err := testutil.GatherAndCount(from, "quoin_objects")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// awaitSeries waits until a replica exports objects.
func awaitSeries(t *testing.T, from *prometheus.Registry) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); series(t, from) == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no objects are exported")
		}
	}
}
