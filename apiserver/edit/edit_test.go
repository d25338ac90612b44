package edit

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/fieldowner"
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
		if err := Annotate(t.Context(), f.k, other.DeepCopy(), "example.com/a", "1"); !errors.Is(err, ErrDeleted) {
			t.Errorf("an annotation: %v", err)
		}
		live := &v1alpha1.Deployment{}
		if err := f.k.Live().Get(t.Context(), client.ObjectKeyFromObject(f.d), live); err != nil || live.Annotations["example.com/a"] != "" {
			t.Errorf("annotations: %v, %v", live.Annotations, err)
		}
	})
	t.Run("of a field that another manager owns", func(t *testing.T) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"displayName":"From Git"}}`))
		if err := f.k.Client.Patch(t.Context(), f.d.DeepCopy(), patch, client.FieldOwner("argocd-controller")); err != nil {
			t.Fatal(err)
		}
		var owned *fieldowner.OwnedError
		if _, err := Change(t.Context(), f.k, f.d, rename); !errors.As(err, &owned) || owned.Field != "spec.displayName" || owned.Manager != "argocd-controller" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("of an object that no longer exists", func(t *testing.T) {
		if err := f.k.Client.Delete(t.Context(), f.d.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		if _, err := Change(t.Context(), f.k, f.d, rename); !errors.Is(err, ErrDeleted) {
			t.Errorf("a change: %v", err)
		}
		if err := Annotate(t.Context(), f.k, f.d.DeepCopy(), "example.com/a", "1"); !errors.Is(err, ErrDeleted) {
			t.Errorf("an annotation: %v", err)
		}
	})
}

// reads counts reads.
type reads struct {
	client.Reader
	n int
}

// Get implements client.Reader.
func (r *reads) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	r.n++
	return r.Reader.Get(ctx, key, o, opts...)
}

// TestSpecOf: an edit of a copy reads the object only if the copy is not current, and never decides on an outdated one.
func TestSpecOf(t *testing.T) {
	f := newFixture(t)
	live := &reads{Reader: f.k.Live()}
	f.k = kube.NewClient(f.k.Client, live, Manager)
	errTaken := errors.New("the name is taken")
	title := func(from, to string) func(live, edited *v1alpha1.Deployment) error {
		return func(live, edited *v1alpha1.Deployment) error {
			if live.Spec.DisplayName != from && from != "any" {
				return errTaken
			}
			edited.Spec.DisplayName = to
			return nil
		}
	}
	outdated := f.d.DeepCopy()
	for _, step := range []struct {
		name     string
		known    *v1alpha1.Deployment
		from, to string
		reads    int
		written  bool
		want     error
	}{
		{"a current copy", outdated, "", "One", 0, true, nil},
		{"an outdated copy with which the edit fails", outdated, "One", "Two", 1, true, nil},
		{"an outdated copy with which the edit would not fail", outdated, "", "Three", 1, false, errTaken},
		{"an outdated copy that the edit would not change", outdated, "any", "", 1, true, nil},
		{"a write with a conflict", outdated, "", "Four", 1, true, nil},
	} {
		live.n = 0
		d, written, err := SpecOf(t.Context(), f.k, step.known, title(step.from, step.to))
		if !errors.Is(err, step.want) || written != step.written || live.n != step.reads {
			t.Errorf("%s: written %v after %d reads, %v", step.name, written, live.n, err)
		}
		if err == nil && d.Spec.DisplayName != step.to {
			t.Errorf("%s: the name is %q", step.name, d.Spec.DisplayName)
		}
	}
	if err := f.k.Delete(t.Context(), f.d); err != nil {
		t.Fatal(err)
	}
	if _, _, err := SpecOf(t.Context(), f.k, outdated, title("", "Five")); !apierrors.IsNotFound(err) {
		t.Errorf("a deleted object: %v", err)
	}
}
