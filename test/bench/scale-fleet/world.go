package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/etcd"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

const (
	namespace  = "bench"
	host       = "bench.example.com"
	channel    = "bench"
	model      = "model"
	repository = "registry.example.com/cube"
)

// world is an API server with a number of deployments, and the processes of Quoin.
type world struct {
	options
	*figures
	server     *controlplane.APIServer
	fleet      *fleet
	controller *controlplane.Metered // nil while it does not run
	// token is an API key of the account.
	token string
}

func newWorld(o options, server *controlplane.APIServer, f *figures) *world {
	server.StartTimeout = o.timeout
	return &world{options: o, figures: f, server: server}
}

// measure runs the steps in order. Each uses the objects of the previous ones.
func (w *world) measure(ctx context.Context) error {
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"creating the account", w.createAccount},
		{"installing", w.install},
		{"rolling out a version", w.rollOut},
		{"steady state", w.steadyState},
		{"restarting the controller", w.restart},
		{"measuring etcd", w.measureEtcd},
		{"starting quoin apiserver and quoin gateway", w.startServers},
	} {
		measure.Progress("  %s", step.name)
		w.server.Settle(ctx)
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// createAccount creates the objects that the deployments need.
func (w *world) createAccount(ctx context.Context) error {
	key, err := apikey.New(rand.Reader)
	if err != nil {
		return err
	}
	w.token = key.Reveal()
	return w.server.CreateAll(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: controlplane.SystemNamespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Spec: v1alpha1.AccountSpec{Host: host, Namespace: namespace}},
		&v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "key"}, Spec: v1alpha1.ApiKeySpec{Token: ptr.To(key.Hash())}},
		&v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: channel}, Spec: v1alpha1.ReleaseChannelSpec{
			ImageRepository: repository, Versions: []v1alpha1.ListedVersion{listed(version(0))},
		}},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: model},
			Data:       map[string]string{"orders.yml": "cubes:\n  - name: orders\n    sql_table: public.orders\n"},
		},
	)
}

// version returns the version of the deployments after i rollouts.
func version(i int) string { return fmt.Sprintf("1.2.%d", 3+i) }

func listed(version string) v1alpha1.ListedVersion {
	return v1alpha1.ListedVersion{Version: version, Digest: "sha256:" + strings.Repeat("0a", 32)}
}

// startController starts the controller with no limit of concurrent rollouts.
func (w *world) startController(ctx context.Context) (err error) {
	w.controller, err = w.server.StartMetered(ctx, "controller", w.quoin, "--quoin-image=quoin:bench", "--leader-elect=false",
		fmt.Sprintf("--concurrency=%d", w.workers), "--max-concurrent-rollouts=0", "--warm-up=false")
	return err
}

// install creates the deployments and waits until they are Ready.
func (w *world) install(ctx context.Context) (err error) {
	if w.fleet, err = newFleet(ctx, w.server, w.n); err != nil {
		return err
	}
	if err := w.startController(ctx); err != nil {
		return err
	}
	used, err := w.during(ctx, func() error {
		_, err := measure.Spread(ctx, w.n, w.workers, func(ctx context.Context, i int) (time.Duration, error) {
			return 0, w.server.Create(ctx, &v1alpha1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("sales-%05d", i)},
				Spec: v1alpha1.DeploymentSpec{
					ReleaseChannel: channel, Size: v1alpha1.SizeShared, Replicas: ptr.To[int32](1),
					Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: model}},
				},
			})
		})
		if err != nil {
			return err
		}
		return w.fleet.await(ctx, version(0), w.timeout)
	})
	w.installed = used
	return err
}

// rollOut adds a version to the channel and waits until all deployments run it.
func (w *world) rollOut(ctx context.Context) error {
	used, err := w.during(ctx, func() error {
		c := &v1alpha1.ReleaseChannel{}
		if err := w.server.Get(ctx, client.ObjectKey{Name: channel}, c); err != nil {
			return err
		}
		c.Spec.Versions = append(c.Spec.Versions, listed(version(1)))
		if err := w.server.Update(ctx, c); err != nil {
			return err
		}
		return w.fleet.await(ctx, version(1), w.timeout)
	})
	w.rolledOut = used
	w.controllerMemory = w.server.Memory("controller")
	return err
}

// steadyState counts the writes while nothing changes.
func (w *world) steadyState(ctx context.Context) error {
	used, err := w.during(ctx, func() error {
		process.Pause(ctx, w.rest)
		return ctx.Err()
	})
	w.steady = used
	return err
}

// restart stops the controller, and starts it again.
func (w *world) restart(ctx context.Context) error {
	w.controller.Stop()
	w.controller = nil
	before, err := w.read(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := w.startController(ctx); err != nil {
		return err
	}
	steady, err := w.awaitSteady(ctx)
	if err != nil {
		return err
	}
	after, err := w.read(ctx)
	w.restarted = after.since(reading{requests: before.requests, cpu: before.cpu})
	w.restarted.took = steady.Sub(began)
	w.synced = w.controller.Started
	w.restartMemory = w.server.Memory("controller")
	return err
}

// measureEtcd measures the size of the objects.
func (w *world) measureEtcd(ctx context.Context) error {
	e := etcd.Server{URL: w.server.Etcd()}
	own := "platform.quoin.dev/"
	var err error
	if w.kinds, err = e.Kinds(ctx, own+"deployments", own+"environments", own+"claims", "deployments", "secrets", "services/specs",
		"serviceaccounts", "networkpolicies", "events", "poddisruptionbudgets", "configmaps"); err != nil {
		return err
	}
	if err := e.Compact(ctx); err != nil {
		return err
	}
	w.database, w.databaseUsed, err = e.Size(ctx)
	return err
}

// startServers starts `quoin apiserver` and `quoin gateway`, and lists deployments.
func (w *world) startServers(ctx context.Context) error {
	if err := w.createEndpoints(ctx); err != nil {
		return err
	}
	var list func(ctx context.Context, _ int) (time.Duration, error)
	began := time.Now()
	q, err := w.server.StartQuoin(ctx, w.quoin, controlplane.Unlimited, func(q *controlplane.Quoin) error {
		list = w.list(q)
		_, err := list(ctx, 0)
		return err
	})
	if err != nil {
		return err
	}
	w.apiserverStarted = time.Since(began)
	if w.pages, err = measure.Spread(ctx, w.lists, 1, list); err != nil {
		return err
	}
	w.apiserverMemory = w.server.Memory(q.Name)
	address, err := freeport.Address()
	if err != nil {
		return err
	}
	gateway, err := w.server.StartMetered(ctx, "gateway", w.quoin, "--bind-address", address, "--sql-bind-address=0", "--shutdown-delay=0s", "--drain-timeout=1s")
	if err != nil {
		return err
	}
	w.gatewayStarted = gateway.Started
	w.server.Settle(ctx)
	w.gatewayMemory = w.server.Memory(gateway.Name)
	w.kubeAPIServerMemory, w.etcdMemory = w.server.Memory("kube-apiserver"), w.server.Memory("etcd")
	return nil
}

// createEndpoints creates the EndpointSlices that Kubernetes would create.
func (w *world) createEndpoints(ctx context.Context) error {
	_, err := measure.Spread(ctx, w.n, w.workers, func(ctx context.Context, i int) (time.Duration, error) {
		environment := v1alpha1.ProductionName(fmt.Sprintf("sales-%05d", i))
		return 0, w.server.Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: environment, Labels: map[string]string{
				discoveryv1.LabelServiceName: engine.APIName(environment), engine.LabelManagedBy: engine.ManagedBy,
			}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
			Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(engine.PortNameHTTP), Port: ptr.To[int32](engine.PortHTTP)}},
		})
	})
	return err
}

// list returns a request for the first page of deployments over REST.
func (w *world) list(q *controlplane.Quoin) measure.Timed {
	return func(ctx context.Context, _ int) (time.Duration, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, q.URL+"/api/v1/deployments?limit=20", nil)
		if err != nil {
			return 0, err
		}
		request.Host = host
		request.Header.Set("Authorization", "Bearer "+w.token)
		return measure.Exchange(q.HTTP, request)
	}
}
