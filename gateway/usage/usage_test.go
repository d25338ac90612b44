package usage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

var name = types.NamespacedName{Namespace: "acme", Name: "sales-stg"}

// newBuilder returns a builder of clients for an API server in memory.
func newBuilder(t *testing.T) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme)
}

// TestWritesAreRateLimited: an environment is written at most once an interval, over all replicas.
func TestWritesAreRateLimited(t *testing.T) {
	environment := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	writes := 0
	kube := newBuilder(t).WithObjects(environment).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			writes++
			return c.Patch(ctx, o, p, options...)
		},
	}).Build()
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := &Recorder{Cache: kube, Writer: kube, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return clock }}
	other := &Recorder{Cache: kube, Writer: kube, Log: r.Log, Now: r.Now} // another replica
	step := func(what string, elapsed time.Duration, on *Recorder, record func(types.NamespacedName), want int) {
		t.Helper()
		clock, writes = clock.Add(elapsed), 0
		for range 3 {
			record(name)
		}
		for len(on.queue()) > 0 {
			if err := on.write(t.Context(), <-on.queue()); err != nil {
				t.Error(err)
			}
		}
		if writes != want {
			t.Errorf("%s: %d writes, want %d", what, writes, want)
		}
	}
	step("used", 0, r, r.Used, 1)
	step("again", 4*time.Minute, r, r.Used, 0)
	step("by another replica", 0, other, other.Used, 0)
	step("after 5 minutes", 2*time.Minute, r, r.Used, 1)
	step("wake requested, but awake", 0, r, r.RequestWake, 0)
	if err := kube.Get(t.Context(), name, environment); err != nil {
		t.Fatal(err)
	}
	environment.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Reason: v1alpha1.ReasonAsleep}}
	if err := kube.Update(t.Context(), environment); err != nil {
		t.Fatal(err)
	}
	step("wake requested, asleep", 0, r, r.RequestWake, 1)
	step("wake requested again", 5*time.Second, r, r.RequestWake, 0)
	step("wake requested by another replica", 0, other, other.RequestWake, 0)
	step("after 10 seconds", 6*time.Second, r, r.RequestWake, 1)
	if err := kube.Delete(t.Context(), environment); err != nil {
		t.Fatal(err)
	}
	step("deleted environment", time.Hour, r, r.Used, 0)
	clock = clock.Add(time.Hour)
	r.sweep()
	if len(r.last) != 0 {
		t.Errorf("%d entries are never removed", len(r.last))
	}
}

// TestFullQueueDoesNotBlock: updates that exceed the queue are dropped.
func TestFullQueueDoesNotBlock(t *testing.T) {
	r := &Recorder{Now: time.Now}
	for i := range 2 * maxPending {
		r.Used(types.NamespacedName{Name: time.Duration(i).String()})
	}
	if len(r.queue()) != maxPending || len(r.last) != maxPending {
		t.Errorf("%d pending, %d entries", len(r.queue()), len(r.last))
	}
}

// TestOutage: uses and wake requests that cannot be written are written when the API server answers
// again, without another request.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
		sleeping := used.DeepCopy()
		sleeping.Name = "sales-dev"
		sleeping.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Reason: v1alpha1.ReasonAsleep}}
		var out atomic.Bool
		var tries atomic.Int64
		kube := newBuilder(t).WithObjects(used, sleeping).WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
				tries.Add(1)
				if out.Load() {
					return errors.New("connection refused")
				}
				return c.Patch(ctx, o, p, options...)
			},
		}).Build()
		r := &Recorder{Cache: kube, Writer: kube, Log: slog.New(slog.DiscardHandler), Now: time.Now}
		go func() { _ = r.Run(t.Context()) }()

		out.Store(true)
		r.Used(client.ObjectKeyFromObject(used))
		r.RequestWake(client.ObjectKeyFromObject(sleeping))
		time.Sleep(time.Minute)
		if n := tries.Load(); n < 10 || n > 61 {
			t.Errorf("%d tries in a minute without an API server, want one a second at most", n)
		}
		out.Store(false)
		end := time.Now()
		time.Sleep(3 * time.Second)
		for annotation, e := range map[string]*v1alpha1.Environment{v1alpha1.AnnotationLastUsed: used, v1alpha1.AnnotationWakeRequested: sleeping} {
			if err := kube.Get(t.Context(), client.ObjectKeyFromObject(e), e); err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, e.Annotations[annotation])
			if err != nil || at.Before(end) {
				t.Errorf("%s of %s is %q after the outage, which ended at %s: %v", annotation, e.Name, e.Annotations[annotation], end, err)
			}
		}
	})
}

// TestUseIsRecordedAfterThatOfAnotherReplica: a use that is not written, because another replica has recorded one, does
// not suppress the write that is due five minutes after that one.
func TestUseIsRecordedAfterThatOfAnotherReplica(t *testing.T) {
	environment := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	kube := newBuilder(t).WithObjects(environment).Build()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := start
	first := &Recorder{Cache: kube, Writer: kube, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return clock }}
	second := &Recorder{Cache: kube, Writer: kube, Log: first.Log, Now: first.Now}
	use := func(r *Recorder) {
		r.Used(name)
		for len(r.queue()) > 0 {
			if err := r.write(t.Context(), <-r.queue()); err != nil {
				t.Error(err)
			}
		}
	}
	use(first)
	for clock = start.Add(4 * time.Minute); clock.Before(start.Add(15 * time.Minute)); clock = clock.Add(47 * time.Second) {
		use(second)
		if err := kube.Get(t.Context(), name, environment); err != nil {
			t.Fatal(err)
		}
		last, err := time.Parse(time.RFC3339, environment.Annotations[v1alpha1.AnnotationLastUsed])
		if lag := clock.Sub(last); err != nil || lag > usedInterval {
			t.Fatalf("the recorded use is %s old in an environment that is used now: %v", lag, err)
		}
	}
}

// TestFailingUpdateIsQueuedOnce: an environment that cannot be written, such as one that an admission webhook of its
// tenant denies, does not fill the queue, and does not delay the uses of others.
func TestFailingUpdateIsQueuedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		denied := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
		denied.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Reason: v1alpha1.ReasonAsleep}}
		other := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "orders-stg"}}
		kube := newBuilder(t).WithObjects(denied, other).WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
				if o.GetNamespace() == name.Namespace {
					return errors.New("denied by an admission webhook")
				}
				return c.Patch(ctx, o, p, options...)
			},
		}).Build()
		r := &Recorder{Cache: kube, Writer: kube, Log: slog.New(slog.DiscardHandler), Now: time.Now}
		go func() { _ = r.Run(t.Context()) }()
		for range 60 * 30 { // an hour of requests to one sleeping environment
			r.RequestWake(name)
			time.Sleep(2 * time.Second)
		}
		synctest.Wait()
		if n := len(r.queue()); n > 1 {
			t.Errorf("%d copies of one update are queued", n)
		}
		r.Used(client.ObjectKeyFromObject(other))
		time.Sleep(10 * time.Second)
		if err := kube.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil {
			t.Fatal(err)
		}
		if other.Annotations[v1alpha1.AnnotationLastUsed] == "" {
			t.Error("the use of another environment is not recorded within 10 seconds")
		}
	})
}

// TestRejectedUpdates: environments that cannot be annotated do not delay the updates of others, and are not tried again without a
// request.
func TestRejectedUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rejected = 100
		other := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "orders-stg"}}
		objects := []client.Object{other}
		for i := range rejected {
			objects = append(objects, &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: fmt.Sprintf("e%d-stg", i)}})
		}
		tries := 0
		kube := newBuilder(t).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
				if o.GetNamespace() == name.Namespace {
					tries++
					return apierrors.NewForbidden(schema.GroupResource{Resource: "environments"}, o.GetName(), errors.New("denied by an admission webhook"))
				}
				return c.Patch(ctx, o, p, options...)
			},
		}).Build()
		r := &Recorder{Cache: kube, Writer: kube, Log: slog.New(slog.DiscardHandler), Now: time.Now}
		for _, o := range objects[1:] {
			r.Used(client.ObjectKeyFromObject(o))
		}
		r.Used(client.ObjectKeyFromObject(other))
		go func() { _ = r.Run(t.Context()) }()
		synctest.Wait()
		if err := kube.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil {
			t.Fatal(err)
		}
		if other.Annotations[v1alpha1.AnnotationLastUsed] == "" || tries != rejected || len(r.queue()) != 0 {
			t.Errorf("the other environment has %v after %d tries; %d updates are queued", other.Annotations, tries, len(r.queue()))
		}
	})
}
