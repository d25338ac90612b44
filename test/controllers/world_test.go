package controllers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers"
	"github.com/quoin-dev/quoin/controllers/account"
	"github.com/quoin-dev/quoin/controllers/branch"
	"github.com/quoin-dev/quoin/controllers/deployment"
	"github.com/quoin-dev/quoin/controllers/environment"
	"github.com/quoin-dev/quoin/controllers/releasechannel"
	"github.com/quoin-dev/quoin/controllers/scimgroup"
	"github.com/quoin-dev/quoin/controllers/scimuser"
	"github.com/quoin-dev/quoin/controllers/warmup"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/registry"
)

// world is an account on the API server, and controllers that are run one step at a time, in
// an order that depends on a seed. It simulates the controllers of Kubernetes between the
// steps: garbage collection and the rollout of workloads. Worlds run side by side: each has
// its own namespace, and its controllers see no objects of other worlds.
type world struct {
	t      *testing.T
	ctx    context.Context
	api    client.WithWatch // without faults, and with a cache that is always current
	name   string           // of the namespace, the account and the channel
	clock  *clocktesting.FakeClock
	order  *rand.Rand
	faults *faults
	images *images
	refs   []git.Ref
	gitErr error
	stale  *staleReads
	// remotes fetches refs in the background.
	remotes *deployment.Remotes
	// warmUp makes pods compile their data model before they are ready; uncompiled are the commits
	// that do not compile.
	warmUp     bool
	uncompiled map[string]bool
	events     eventLog
	// counted is the number of writes that takeWrites has counted.
	counted int
	// repaired makes images whose tag contains "-broken" start.
	repaired bool
	// slots is the number of rollout slots.
	slots   int
	running []controllerUnderTest
	// acted counts the writes of the simulated Kubernetes controllers.
	acted int
	// dirty reports whether the Kubernetes controllers may have work to do.
	dirty bool
	// quietPasses is the number of passes without a write after which the world has settled.
	quietPasses int
}

type controllerUnderTest struct {
	kind       string
	empty      func() v1alpha1.Object
	list       client.ObjectList
	reconciler reconcile.Reconciler
}

// worlds is the number of worlds so far.
var worlds atomic.Int64

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	scheme, err := controllers.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.NewWithWatch(apitest.Server(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, ctx: t.Context(), api: newReadCache().wrap(api),
		name:   fmt.Sprintf("w%d", worlds.Add(1)),
		clock:  clocktesting.NewFakeClock(time.Now()),
		order:  rand.New(rand.NewPCG(seed, 11)),
		faults: &faults{}, quietPasses: 4, slots: 1,
		images: &images{tags: map[string]string{}},
	}
	t.Cleanup(w.cleanUp)
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.hosts().Namespace}})
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}})
	w.restart()
	return w
}

// restart starts new controllers without the in-memory state of the old ones.
func (w *world) restart() {
	w.faults.dead = false
	reads := w.faults.wrap(w.confine(w.api))
	live := client.Reader(reads)
	if w.stale != nil {
		reads = w.stale.wrap(reads)
	}
	k := kube.NewClient(reads, live, "quoin-controller")
	recorder := &w.events
	allocator := ids.New(k)
	w.remotes = deployment.NewRemotes(live, func(context.Context, string, map[string][]byte) ([]git.Ref, string, error) {
		return w.refs, "main", w.gitErr
	}, w.clock)

	w.running = []controllerUnderTest{
		{"Account", func() v1alpha1.Object { return &v1alpha1.Account{} }, &v1alpha1.AccountList{}, account.New(k, recorder, w.clock, account.Options{Hosts: w.hosts()})},
		{"ReleaseChannel", func() v1alpha1.Object { return &v1alpha1.ReleaseChannel{} }, &v1alpha1.ReleaseChannelList{}, releasechannel.New(k, recorder, w.clock, releasechannel.Options{
			Namespace: w.name,
			Connect:   func(registry.Options) (releasechannel.Registry, error) { return w.images, nil },
		})},
		{"Rollouts", func() v1alpha1.Object { return &v1alpha1.ReleaseChannel{} }, &v1alpha1.ReleaseChannelList{}, releasechannel.NewRollouts(k, recorder)},
		{"Deployment", func() v1alpha1.Object { return &v1alpha1.Deployment{} }, &v1alpha1.DeploymentList{}, deployment.New(k, recorder, w.clock, deployment.Options{
			IDs: allocator, Fleet: deployment.NewFleet(k, w.slots), Remotes: w.remotes, Hosts: w.hosts(),
		})},
		{"Environment", func() v1alpha1.Object { return &v1alpha1.Environment{} }, &v1alpha1.EnvironmentList{}, environment.New(k, recorder, w.clock, environment.Options{
			Engine: engine.Options{QuoinImage: "quoin:test", GatewayNamespace: "quoin-system", WarmUp: w.warmUp}, SQLPort: 5432,
		})},
		{"Branch", func() v1alpha1.Object { return &v1alpha1.Branch{} }, &v1alpha1.BranchList{}, branch.New(k, recorder, w.clock, allocator)},
		{"Pod", nil, &corev1.PodList{}, warmup.New(k, w.clock, warmup.Options{Ask: w.ask})},
		{"ScimUser", func() v1alpha1.Object { return &v1alpha1.ScimUser{} }, &v1alpha1.ScimUserList{}, scimuser.New(k, recorder, w.clock)},
		{"ScimGroup", func() v1alpha1.Object { return &v1alpha1.ScimGroup{} }, &v1alpha1.ScimGroupList{}, scimgroup.New(k, recorder, w.clock)},
	}
}

// step is one object to reconcile.
type step struct {
	controller controllerUnderTest
	request    ctrl.Request
}

// pass reconciles every object of the world once, in a random order, and then runs the
// simulated Kubernetes controllers if something has changed.
func (w *world) pass() {
	w.t.Helper()
	written := w.faults.written()
	var steps []step
	for _, c := range w.running {
		for _, obj := range w.all(c.list) {
			steps = append(steps, step{c, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(obj)}})
		}
	}
	w.order.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, s := range steps {
		before := w.faults.written()
		w.faults.setController(s.controller.kind)
		_, err := s.controller.reconciler.Reconcile(w.ctx, s.request)
		if err != nil && w.faults.at == 0 {
			w.t.Errorf("%s %s: %v", s.controller.kind, s.request.Name, err)
		}
		if w.faults.dead {
			w.restart()
			continue
		}
		if w.faults.written() != before {
			w.check(s)
		}
	}
	if w.dirty || w.faults.written() != written {
		acted := w.acted
		w.runCluster()
		w.dirty = w.acted != acted
	}
	w.remotes.Wait()
}

// settle runs passes until nothing is written for quietPasses of them.
func (w *world) settle() {
	w.t.Helper()
	quiet := 0
	w.dirty = true
	for range 60 {
		before := w.faults.written() + w.acted
		w.pass()
		if w.faults.written()+w.acted != before {
			quiet = 0
			w.clock.Step(5 * time.Second)
			continue
		}
		if quiet++; quiet == w.quietPasses {
			return
		}
		w.clock.Step(31 * time.Second)
	}
	w.t.Fatalf("the controllers do not settle; the last writes were %v", w.faults.log[max(0, len(w.faults.log)-10):])
}

// check checks the status of the object of a step.
func (w *world) check(s step) {
	w.t.Helper()
	if s.controller.empty == nil {
		return // not a kind of Quoin
	}
	obj := s.controller.empty()
	if err := w.api.Get(w.ctx, s.request.NamespacedName, obj); err == nil {
		checkStatus(w.t, obj)
	}
}

// all returns the objects of a kind that belong to the world.
func (w *world) all(list client.ObjectList) []client.Object {
	w.t.Helper()
	list, _ = list.DeepCopyObject().(client.ObjectList)
	if err := w.list(w.ctx, w.api, list); err != nil {
		w.t.Fatal(err)
	}
	var objs []client.Object
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		obj, _ := o.(client.Object)
		objs = append(objs, obj)
		return nil
	})
	return objs
}

// confine returns a client that lists the objects of the world only.
func (w *world) confine(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return w.list(ctx, c, list, opts...)
		},
	})
}

// list lists objects of the world: those in its namespace, and of cluster-scoped kinds those
// with its name or with its name as a prefix.
func (w *world) list(ctx context.Context, c client.Reader, list client.ObjectList, opts ...client.ListOption) error {
	switch list := list.(type) {
	case *v1alpha1.AccountList, *v1alpha1.ReleaseChannelList:
	case *v1alpha1.ClaimList:
		return w.listClaims(ctx, c, list, opts)
	default:
		return c.List(ctx, list, append(opts, client.InNamespace(w.name))...)
	}
	if err := c.List(ctx, list, opts...); err != nil {
		return err
	}
	var own []runtime.Object
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		if obj, ok := o.(client.Object); ok && strings.HasPrefix(obj.GetName()+"-", w.name+"-") {
			own = append(own, obj)
		}
		return nil
	})
	return meta.SetList(list, own)
}

// hosts returns the claims on hosts, which are in the namespace of Quoin: each world has its own.
func (w *world) hosts() claims.Hosts { return claims.Hosts{Namespace: w.name + "-quoin"} }

// listClaims lists the claims in the namespaces of the world.
func (w *world) listClaims(ctx context.Context, c client.Reader, list *v1alpha1.ClaimList, opts []client.ListOption) error {
	if err := c.List(ctx, list, opts...); err != nil {
		return err
	}
	list.Items = slices.DeleteFunc(list.Items, func(claim v1alpha1.Claim) bool {
		return claim.Namespace != w.name && claim.Namespace != w.hosts().Namespace
	})
	return nil
}

func (w *world) create(obj client.Object) {
	w.t.Helper()
	if err := w.api.Create(w.ctx, obj); err != nil {
		w.t.Fatalf("create %T: %v", obj, err)
	}
}

func (w *world) delete(obj client.Object) {
	w.t.Helper()
	if err := w.api.Delete(w.ctx, obj); err != nil {
		w.t.Fatalf("delete %T: %v", obj, err)
	}
}

// change reads an object, changes it and patches it, as a user does.
func change[T client.Object](w *world, obj T, mutate func(T)) {
	w.t.Helper()
	w.get(obj)
	before, _ := obj.DeepCopyObject().(client.Object)
	mutate(obj)
	if err := w.api.Patch(w.ctx, obj, client.MergeFrom(before)); err != nil {
		w.t.Fatalf("change %T: %v", obj, err)
	}
}

func (w *world) get(obj client.Object) {
	w.t.Helper()
	if err := w.api.Get(w.ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
		w.t.Fatalf("get %T: %v", obj, err)
	}
}

// images is an image repository in memory. Tests of the scanner use real registries.
type images struct {
	tags map[string]string // tag to digest
	err  error
}

func (i *images) push(tag string) {
	i.tags[tag] = fmt.Sprintf("sha256:%064x", len(tag)*1000+int(tag[len(tag)-1]))
}

func (i *images) Tags(context.Context, string) ([]string, error) {
	var tags []string
	for tag := range i.tags {
		tags = append(tags, tag)
	}
	return tags, i.err
}

func (i *images) Digests(_ context.Context, _ string, tags []string, _ int) (map[string]string, error) {
	digests := map[string]string{}
	for _, tag := range tags {
		digests[tag] = i.tags[tag]
	}
	return digests, i.err
}

func (i *images) CloseIdleConnections() {}

// cleanUp deletes the cluster-scoped objects of the world, which the other worlds would read.
func (w *world) cleanUp() {
	ctx := context.Background()
	for _, obj := range []client.Object{w.account(), w.channel()} {
		_ = w.api.Patch(ctx, obj, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
		_ = w.api.Delete(ctx, obj)
	}
}
