package requests

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/fairqueue"
)

func TestFor(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	branch := func(namespace, name string) *v1alpha1.Branch {
		return &v1alpha1.Branch{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(branch("acme", "a"), branch("acme", "b"), branch("other", "a")).Build()
	cases := map[string]struct {
		match func(*v1alpha1.Branch) bool
		opts  []client.ListOption
		want  []string
	}{
		"all":            {All[*v1alpha1.Branch], nil, []string{"acme/a", "acme/b", "other/a"}},
		"of a namespace": {All[*v1alpha1.Branch], []client.ListOption{client.InNamespace("acme")}, []string{"acme/a", "acme/b"}},
		"matching":       {func(b *v1alpha1.Branch) bool { return b.Name == "a" }, nil, []string{"acme/a", "other/a"}},
		"none":           {func(*v1alpha1.Branch) bool { return false }, nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range For(t.Context(), api, &v1alpha1.BranchList{}, tc.match, tc.opts...) {
				got = append(got, r.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
	broken := interceptor.NewClient(api, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("x")
		},
	})
	if got := For(t.Context(), broken, &v1alpha1.BranchList{}, All[*v1alpha1.Branch]); got != nil {
		t.Errorf("got %v from a failed list", got)
	}
}

// TestOfAccountAndOthers: the objects of an account after a change of it, and of one of them.
func TestOfAccountAndOthers(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	role := func(namespace, name string) *v1alpha1.AccountRole {
		return &v1alpha1.AccountRole{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name)}}
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(role("acme", "a"), role("acme", "b"), role("globex", "a")).Build()
	list := &v1alpha1.AccountRoleList{}
	ofAccount, others := OfAccount[*v1alpha1.AccountRole](api, list), Others[*v1alpha1.AccountRole](api, list)
	cases := map[string]struct {
		requests []reconcile.Request
		want     []string
	}{
		"an account":               {ofAccount(t.Context(), &v1alpha1.Account{Spec: v1alpha1.AccountSpec{Namespace: "acme"}}), []string{"acme/a", "acme/b"}},
		"an account without any":   {ofAccount(t.Context(), &v1alpha1.Account{Spec: v1alpha1.AccountSpec{Namespace: "none"}}), nil},
		"no account":               {ofAccount(t.Context(), role("acme", "a")), nil},
		"one of them":              {others(t.Context(), role("acme", "a")), []string{"acme/b"}},
		"one that was deleted":     {others(t.Context(), role("acme", "gone")), []string{"acme/a", "acme/b"}},
		"an object of other kinds": {others(t.Context(), &v1alpha1.Branch{ObjectMeta: metav1.ObjectMeta{Namespace: "globex", Name: "a", UID: "x"}}), []string{"globex/a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range tc.requests {
				got = append(got, r.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
	if len(list.Items) != 0 {
		t.Error("the list of the caller was changed")
	}
}

// TestLaterEnqueuesOnceAfterTheDelay for several changes, and not for existing objects.
func TestLaterEnqueuesOnceAfterTheDelay(t *testing.T) {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	h := Later(300*time.Millisecond, func(_ context.Context, obj client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: "of-" + obj.GetName()}}}
	})
	named := func(name string) client.Object {
		return &v1alpha1.Branch{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	h.Create(t.Context(), event.CreateEvent{Object: named("old"), IsInInitialList: true}, q)
	begin := time.Now()
	for range 3 {
		h.Create(t.Context(), event.CreateEvent{Object: named("a")}, q)
		h.Update(t.Context(), event.UpdateEvent{ObjectOld: named("a"), ObjectNew: named("a")}, q)
		h.Delete(t.Context(), event.DeleteEvent{Object: named("a")}, q)
		h.Generic(t.Context(), event.GenericEvent{Object: named("generic")}, q)
		time.Sleep(50 * time.Millisecond)
	}
	got, _ := q.Get()
	if took := time.Since(begin); got.Name != "of-a" || took < 300*time.Millisecond || took > 5*time.Second {
		t.Errorf("%v after %s", got, took)
	}
	q.Done(got)
	time.Sleep(400 * time.Millisecond)
	if n := q.Len(); n != 0 {
		t.Errorf("%d more", n)
	}
}

// TestInBackground checks that changed objects are reconciled before those that another change affects.
func TestInBackground(t *testing.T) {
	q, ok := fairqueue.New(1)("", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()).(priorityqueue.PriorityQueue[reconcile.Request])
	if !ok {
		t.Fatal("the queue has no priorities")
	}
	defer q.ShutDown()
	request := func(name string) reconcile.Request {
		return reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}
	}
	h := InBackground(func(_ context.Context, obj client.Object) []reconcile.Request {
		return []reconcile.Request{request("a-of-" + obj.GetName()), request("b-of-" + obj.GetName())}
	})
	channel := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "stable"}}
	h.Create(t.Context(), event.CreateEvent{Object: channel, IsInInitialList: true}, q)
	if n := q.Len(); n != 0 {
		t.Errorf("%d objects of the initial list", n)
	}
	h.Update(t.Context(), event.UpdateEvent{ObjectOld: channel, ObjectNew: channel}, q)
	q.Add(request("changed"))
	for _, want := range []string{"changed", "a-of-stable", "b-of-stable"} {
		got, _ := q.Get()
		if got.Name != want {
			t.Errorf("got %s, want %s", got.Name, want)
		}
		q.Done(got)
	}
}
