package edit

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/kube"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// fixture is a deployment, and the observer of its events.
type fixture struct {
	t       *testing.T
	k       *kube.Client
	observe func(before, after any)
	d       *v1alpha1.Deployment
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	api, namespace := apitest.Direct(t)
	f := &fixture{t: t, k: kube.NewClient(api, api, Manager)}
	f.observe = f.k.Tracker().Observer(f.k.KindOf(&v1alpha1.Deployment{}))
	f.d = &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sales"},
		Spec: v1alpha1.DeploymentSpec{ReleaseChannel: "stable", Model: v1alpha1.ModelSource{
			ConfigMapRef: &v1alpha1.LocalReference{Name: "model"},
		}},
	}
	if err := api.Create(t.Context(), f.d); err != nil {
		t.Fatal(err)
	}
	f.observe(nil, f.d)
	return f
}

// waits checks that a write returns only after its event was observed.
func (f *fixture) waits(write func() error) {
	f.t.Helper()
	done := make(chan error, 1)
	go func() { done <- write() }()
	select {
	case err := <-done:
		f.t.Fatalf("the write did not wait for the cache: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	live := &v1alpha1.Deployment{}
	if err := f.k.Live().Get(f.t.Context(), client.ObjectKeyFromObject(f.d), live); err != nil {
		f.observe(f.d, nil)
	} else {
		f.observe(f.d, live)
	}
	if err := <-done; err != nil {
		f.t.Error(err)
	}
}

func TestWritesWaitForTheCache(t *testing.T) {
	f := newFixture(t)
	f.waits(func() error {
		_, err := Change(t.Context(), f.k, f.d, func(d *v1alpha1.Deployment) error {
			d.Spec.DisplayName = "Sales"
			return nil
		})
		return err
	})
	f.waits(func() error {
		changed, err := Change(t.Context(), f.k, f.d, func(d *v1alpha1.Deployment) error {
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, "example.com/b", "1") // an annotation alone is a change
			return nil
		})
		if changed.Annotations["example.com/b"] != "1" {
			t.Errorf("annotations: %v", changed.Annotations)
		}
		return err
	})
	f.waits(func() error { return Annotate(t.Context(), f.k, f.d, "example.com/a", "1") })
	f.waits(func() error { return Delete(t.Context(), f.k, f.d) })
	if err := Delete(t.Context(), f.k, f.d); err != nil {
		t.Errorf("a second deletion: %v", err)
	}
}

// TestWritesWithoutEffectReturn: writes that change nothing have no event to wait for.
func TestWritesWithoutEffectReturn(t *testing.T) {
	f := newFixture(t)
	begin := time.Now()
	if _, err := Change(t.Context(), f.k, f.d, func(*v1alpha1.Deployment) error { return nil }); err != nil {
		t.Error(err)
	}
	f.waits(func() error { return Annotate(t.Context(), f.k, f.d, "example.com/a", "1") })
	if err := Annotate(t.Context(), f.k, f.d, "example.com/a", "1"); err != nil {
		t.Error(err)
	}
	if time.Since(begin) > Timeout/2 {
		t.Errorf("waited %s", time.Since(begin))
	}
}

func TestChangeIsRejected(t *testing.T) {
	f := newFixture(t)
	rename := func(d *v1alpha1.Deployment) error {
		d.Spec.DisplayName = "Sales"
		return nil
	}
	t.Run("of an object of the same name", func(t *testing.T) {
		other := f.d.DeepCopy()
		other.UID = "other"
		if _, err := Change(t.Context(), f.k, other, rename); !errors.Is(err, ErrDeleted) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("of a field that another manager owns", func(t *testing.T) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"displayName":"From Git"}}`))
		if err := f.k.Client.Patch(t.Context(), f.d.DeepCopy(), patch, client.FieldOwner("argocd-controller")); err != nil {
			t.Fatal(err)
		}
		var owned *OwnedError
		if _, err := Change(t.Context(), f.k, f.d, rename); !errors.As(err, &owned) || owned.Field != "spec.displayName" || owned.Manager != "argocd-controller" {
			t.Errorf("got %v", err)
		}
	})
}
