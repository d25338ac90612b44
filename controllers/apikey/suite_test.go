package apikey

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/kube"
)

func TestMain(m *testing.M) { apitest.Main(m) }

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// fixture is a reconciler with its own namespace.
type fixture struct {
	*testing.T
	api       client.WithWatch
	namespace string
	clock     *clocktesting.FakePassiveClock
	recorder  *events.FakeRecorder
	// writes counts writes; before, if not nil, is called before each of them and before each read
	// of a Secret, and its error fails the call.
	writes int
	before func(verb string, obj client.Object) error
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	api, namespace := apitest.Direct(t)
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: v1alpha1.AccountSpec{
		Host: v1alpha1.Host(namespace + ".example.com"), Namespace: namespace,
	}}
	if err := api.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(context.Background(), account) })
	return &fixture{
		T: t, api: api, namespace: namespace, clock: clocktesting.NewFakePassiveClock(start),
		recorder: events.NewFakeRecorder(20), before: func(string, client.Object) error { return nil },
	}
}

// client counts writes and injects errors.
func (f *fixture) client() client.WithWatch {
	return interceptor.NewClient(f.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := f.before("get", obj); err != nil {
				return err
			}
			return c.Get(ctx, key, obj, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			f.writes++
			if err := f.before("create", obj); err != nil {
				return err
			}
			return c.Create(ctx, obj, opts...)
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("nothing but the status is to be patched")
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			f.writes++
			if err := f.before("patch", obj); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) create(obj client.Object) {
	f.Helper()
	obj.SetNamespace(f.namespace)
	f.must(f.api.Create(f.Context(), obj))
}

// key creates an ApiKey named etl.
func (f *fixture) key(spec v1alpha1.ApiKeySpec) *v1alpha1.ApiKey {
	f.Helper()
	k := &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Name: "etl"}, Spec: spec}
	f.create(k)
	return k
}

// try reconciles etl with a new reconciler.
func (f *fixture) try() (*v1alpha1.ApiKey, ctrl.Result, error) {
	f.Helper()
	c := f.client()
	name := client.ObjectKey{Namespace: f.namespace, Name: "etl"}
	result, err := New(kube.NewClient(c, c, "quoin-test"), f.recorder, f.clock).Reconcile(f.Context(), ctrl.Request{NamespacedName: name})
	k := &v1alpha1.ApiKey{}
	f.must(f.api.Get(f.Context(), name, k))
	return k, result, err
}

func (f *fixture) reconcile() (*v1alpha1.ApiKey, ctrl.Result) {
	f.Helper()
	k, result, err := f.try()
	f.must(err)
	return k, result
}

// expectSettled checks that another reconciliation writes nothing.
func (f *fixture) expectSettled() {
	f.Helper()
	f.writes = 0
	f.reconcile()
	if f.writes != 0 {
		f.Errorf("%d writes without a change", f.writes)
	}
}

func (f *fixture) secret(name string) *corev1.Secret {
	f.Helper()
	s := &corev1.Secret{}
	err := f.api.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: name}, s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	f.must(err)
	return s
}

// expect checks the conditions: Ready, and Stalled if Ready is False.
func (f *fixture) expect(k *v1alpha1.ApiKey, status metav1.ConditionStatus, reason, message string) {
	f.Helper()
	c := meta.FindStatusCondition(k.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
		f.Errorf("Ready is %+v; want %s, %s: %s", c, status, reason, message)
	}
	if stalled := meta.IsStatusConditionTrue(k.Status.Conditions, v1alpha1.ConditionStalled); stalled != (status == metav1.ConditionFalse) {
		f.Errorf("Stalled: %v", stalled)
	}
	if k.Status.ObservedGeneration != k.Generation {
		f.Errorf("observedGeneration is %d of %d", k.Status.ObservedGeneration, k.Generation)
	}
}

func newToken(t *testing.T) apikey.Token {
	t.Helper()
	token, err := apikey.New(strings.NewReader(strings.Repeat(t.Name(), 100)))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (f *fixture) token() apikey.Token {
	f.Helper()
	token, err := apikey.Parse(string(f.secret("etl-token").Data["token"]))
	f.must(err)
	return token
}
