// Package domains_test holds attacks on the hosts of other tenants: each test takes the part of a
// user who may edit the deployments of one account and nothing else.
package domains_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers"
	"github.com/quoin-dev/quoin/gateway/route"
	"github.com/quoin-dev/quoin/internal/tenant"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
)

// cluster is the API server of all tests, with the controllers running.
var cluster *clustertest.Cluster

func TestMain(m *testing.M) {
	clustertest.Main(m, func(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
		cluster = c
		if err := createChannel(ctx); err != nil {
			return 0, err
		}
		ctx, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			ended <- controllers.Run(ctx, c.As(clustertest.Controller), manager.Options{
				Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
			}, controllers.Config{Namespace: clustertest.Namespace, Image: "quoin:test", Concurrency: 4, MaxRollouts: 10})
		}()
		code := m.Run()
		stop()
		return code, <-ended
	})
}

// channel is the name of the channel of all deployments.
const channel = "stable"

// createChannel creates a channel with a version. Its registry cannot be reached, so it keeps that one.
func createChannel(ctx context.Context) error {
	c := &v1alpha1.ReleaseChannel{
		ObjectMeta: metav1.ObjectMeta{Name: channel},
		Spec:       v1alpha1.ReleaseChannelSpec{ImageRepository: "127.0.0.1:1/cube", StoreImageRepository: "127.0.0.1:1/store"},
	}
	if err := cluster.Client.Create(ctx, c); err != nil {
		return err
	}
	c.Status.Versions = []v1alpha1.ChannelVersion{{Version: "1.2.3", Image: "127.0.0.1:1/cube:v1.2.3", FirstSeen: metav1.Now(), Digest: "sha256:" + strings.Repeat("0", 64)}}
	return cluster.Client.Status().Update(ctx, c)
}

// world is the set of accounts of one test.
type world struct {
	t      *testing.T
	prefix string
}

// worlds is the number of worlds so far.
var worlds atomic.Int64

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	return &world{t, fmt.Sprintf("w%d-", worlds.Add(1))}
}

// domain returns a domain that no other test uses.
func (w *world) domain(label string) string { return w.prefix + label + ".example.org" }

func (w *world) create(obj client.Object) {
	w.t.Helper()
	if err := cluster.Client.Create(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
}

// account creates an account with its namespace.
func (w *world) account(name string, change ...func(*v1alpha1.AccountSpec)) {
	w.t.Helper()
	name = w.prefix + name
	spec := v1alpha1.AccountSpec{Host: v1alpha1.Host(name + ".example.com"), Namespace: name}
	for _, f := range change {
		f(&spec)
	}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: spec.Namespace}})
	w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: spec.Namespace, Name: "model"}, Data: map[string]string{"orders.yml": "cubes: []"}})
	w.create(&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
}

// deployment creates a deployment with a custom domain, unless that is empty.
func (w *world) deployment(account, name, domain string) {
	w.t.Helper()
	d := &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.prefix + account, Name: name},
		Spec:       v1alpha1.DeploymentSpec{ReleaseChannel: channel, Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}}},
	}
	if domain != "" {
		d.Spec.DataAPI = &v1alpha1.DataAPI{CustomDomain: v1alpha1.Host(domain)}
	}
	w.create(d)
}

// get returns a deployment.
func (w *world) get(account, name string) *v1alpha1.Deployment {
	w.t.Helper()
	d := &v1alpha1.Deployment{}
	if err := cluster.Client.Get(w.t.Context(), client.ObjectKey{Namespace: w.prefix + account, Name: name}, d); err != nil {
		w.t.Fatal(err)
	}
	return d
}

// contested returns a domain that one deployment, as account/name, is served on and that another one,
// created after it, requests.
func (w *world) contested(holder, rival string) string {
	w.t.Helper()
	domain := w.domain("metrics")
	account, name := split(holder)
	w.deployment(account, name, domain)
	w.expectServed(domain, account, name)
	account, name = split(rival)
	w.deployment(account, name, domain)
	w.expectStalled(account, name, v1alpha1.ReasonHostTaken)
	return domain
}

// setDomain changes or, if domain is empty, removes the custom domain of a deployment.
func (w *world) setDomain(account, name, domain string) {
	w.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		d := w.get(account, name)
		d.Spec.DataAPI = nil
		if domain != "" {
			d.Spec.DataAPI = &v1alpha1.DataAPI{CustomDomain: v1alpha1.Host(domain)}
		}
		return cluster.Client.Update(w.t.Context(), d)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// nextSecond waits until objects get a later creation time.
func (w *world) nextSecond() {
	now := time.Now()
	time.Sleep(now.Truncate(time.Second).Add(time.Second + 50*time.Millisecond).Sub(now))
}

// eventually polls until check returns an empty text.
func (w *world) eventually(check func() string) {
	w.t.Helper()
	problem := ""
	for range 200 {
		if problem = check(); problem == "" {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.t.Fatal(problem)
}

// table returns the routes that a gateway would use now. Every deployment gets the production
// environment that it would have.
func (w *world) table() *route.Table {
	w.t.Helper()
	accounts, deployments := &v1alpha1.AccountList{}, &v1alpha1.DeploymentList{}
	for _, list := range []client.ObjectList{accounts, deployments} {
		if err := cluster.Client.List(w.t.Context(), list); err != nil {
			w.t.Fatal(err)
		}
	}
	objects := route.Objects{Accounts: accounts.Items, Deployments: deployments.Items}
	for _, d := range deployments.Items {
		objects.Environments = append(objects.Environments, v1alpha1.Environment{
			ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: v1alpha1.ProductionName(d.Name)},
			Spec:       v1alpha1.EnvironmentSpec{DeploymentRef: v1alpha1.LocalReference{Name: d.Name}, Type: v1alpha1.EnvironmentProduction},
		})
	}
	return route.NewTable(objects)
}

// served returns the deployments that get HTTP, WebSocket and SQL connections to a host, as
// namespace/name; "-" for none.
func (w *world) served(host string) []string {
	w.t.Helper()
	table := w.table()
	show := func(e route.Environment, err error) string {
		if err != nil {
			return "-"
		}
		return strings.TrimPrefix(e.Namespace, w.prefix) + "/" + e.Deployment
	}
	request, err := table.HTTP(host, "/cubejs-api/v1/load", false)
	socket, err2 := table.HTTP(host, "/", true)
	sql, err3 := table.SQL(host)
	return []string{show(request.Environment, err), show(socket.Environment, err2), show(sql, err3)}
}

// expectServed waits until a deployment gets all connections to a host.
func (w *world) expectServed(host, account, deployment string) {
	w.t.Helper()
	want := slices.Repeat([]string{account + "/" + deployment}, 3)
	w.eventually(func() string {
		if got := w.served(host); !slices.Equal(got, want) {
			return fmt.Sprintf("%s is served by %q, want %q", host, got, want)
		}
		return ""
	})
}

// expectStalled waits until a deployment is Stalled with a reason and a message that contains none
// of the words.
func (w *world) expectStalled(account, name, reason string, secrets ...string) {
	w.t.Helper()
	w.eventually(func() string {
		d := w.get(account, name)
		c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionStalled)
		if c == nil || c.Reason != reason {
			return fmt.Sprintf("%s/%s has the condition %+v, want %s", account, name, c, reason)
		}
		for _, secret := range secrets {
			if strings.Contains(c.Message, secret) {
				return fmt.Sprintf("the message discloses %q: %s", secret, c.Message)
			}
		}
		return ""
	})
}

// stalledFor returns the reason why a deployment is Stalled, or empty.
func (w *world) stalledFor(account, name string) string {
	w.t.Helper()
	if c := meta.FindStatusCondition(w.get(account, name).Status.Conditions, v1alpha1.ConditionStalled); c != nil {
		return c.Reason
	}
	return ""
}

// holders returns the deployments whose status shows a domain and whose spec has it.
func (w *world) holders(domain string) []string {
	w.t.Helper()
	list := &v1alpha1.DeploymentList{}
	if err := cluster.Client.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		if d := &list.Items[i]; tenant.HeldDomain(d) == domain {
			names = append(names, strings.TrimPrefix(d.Namespace, w.prefix)+"/"+d.Name)
		}
	}
	return names
}

// watchHolders counts the deployments that hold a domain while the test runs. The returned function
// ends the count and returns the largest number at once.
func (w *world) watchHolders(domain string) func() int {
	stop, counted := make(chan struct{}), make(chan int)
	go func() {
		most := 0
		for {
			select {
			case <-stop:
				counted <- most
				return
			default:
				most = max(most, len(w.holders(domain)))
			}
		}
	}()
	return func() int { close(stop); return <-counted }
}

// split returns the two parts of account/deployment.
func split(name string) (account, deployment string) {
	account, deployment, _ = strings.Cut(name, "/")
	return account, deployment
}
