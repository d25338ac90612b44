// Package inprocess runs `quoin apiserver` and single controllers in the process of a test, with the permissions of their roles.
package inprocess

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/controllers"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/tenant"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
)

// Server is `quoin apiserver`.
type Server struct {
	// Address is where it serves HTTPS.
	Address net.Addr
	stopped chan error
}

// Serve starts the server of a cluster and returns when it listens and its database is open. It runs until the context ends. The
// configuration is that of the test, with defaults for the namespace, the version, the listener on loopback, the limits of requests,
// the log, and the database, which is in the folder of the cluster.
func Serve(ctx context.Context, c *clustertest.Cluster, config apiserver.Config) (*Server, error) {
	open := make(chan struct{})
	config.OnOpen = sync.OnceFunc(func() { close(open) })
	s, err := ServeAs(ctx, c, c.As(clustertest.APIServer), config)
	if err != nil {
		return nil, err
	}
	return s, s.wait(open, "opened its database")
}

// ServeAs is Serve with another client configuration, and does not wait for the database.
func ServeAs(ctx context.Context, c *clustertest.Cluster, as *rest.Config, config apiserver.Config) (*Server, error) {
	if config.HTTPS.Listener == nil {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		config.HTTPS.Listener = listener
	}
	s, listening := &Server{stopped: make(chan error, 1)}, make(chan struct{})
	config.Namespace, config.Version, config.OnListen = clustertest.Namespace, "test", func(a serving.Addresses) {
		s.Address = a.HTTPS
		close(listening)
	}
	config.RequestsPerSecond, config.Burst = cmp.Or(config.RequestsPerSecond, 1e6), cmp.Or(config.Burst, 1e6)
	config.Log = cmp.Or(config.Log, slog.New(slog.DiscardHandler))
	config.DatabaseURL = cmp.Or(config.DatabaseURL, "sqlite://"+filepath.Join(c.Folder, "quoin.db"))
	go func() { s.stopped <- apiserver.Run(ctx, as, config) }()
	return s, s.wait(listening, "listened")
}

// wait waits until the server has done something.
func (s *Server) wait(done <-chan struct{}, what string) error {
	select {
	case <-done:
		return nil
	case err := <-s.stopped:
		return fmt.Errorf("quoin apiserver stopped before it has %s: %w", what, err)
	case <-time.After(3 * apiclient.Timeout):
		return fmt.Errorf("quoin apiserver has not %s after %s", what, 3*apiclient.Timeout)
	}
}

// Run runs tests. It returns an error if the server stopped meanwhile.
func (s *Server) Run(m *testing.M) (int, error) {
	code := m.Run()
	select {
	case err := <-s.stopped:
		return 0, fmt.Errorf("quoin apiserver stopped: %w", err)
	default:
		return code, nil
	}
}

// New returns a reconciler of a kind whose objects have numbers.
type New[T v1alpha1.Object] = func(*kube.Client, reconciler.Recorder, clock.PassiveClock, *ids.Allocator) *reconciler.Reconciler[T]

// Setup adds a reconciler to a manager.
type Setup = func(ctrl.Manager, reconcile.Reconciler, controller.Options) error

// Control starts the controller of one kind. It runs until the context ends.
func Control[T v1alpha1.Object](ctx context.Context, c *clustertest.Cluster, newReconciler New[T], setup Setup) error {
	mgr, err := ctrl.NewManager(c.As(clustertest.Controller), manager.Options{
		Scheme: c.Client.Scheme(), Cache: controllers.CacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Account{}, tenant.IndexNamespace, tenant.NamespaceOf)
	if err != nil {
		return err
	}
	writer := kube.NewClient(mgr.GetClient(), mgr.GetAPIReader(), "quoin-controller")
	r := newReconciler(writer, mgr.GetEventRecorder("quoin-controller"), clock.RealClock{}, ids.New(writer))
	if err := setup(mgr, r, controller.Options{}); err != nil {
		return err
	}
	go func() {
		if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
			panic(err)
		}
	}()
	return nil
}
