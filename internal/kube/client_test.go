package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/freshness"
)

func newDeployment(namespace, name string) *v1alpha1.Deployment {
	return &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.DeploymentSpec{
			DisplayName: "Sales", ReleaseChannel: "stable", ReleaseChannelVersion: "1.2.3",
			Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}},
		},
	}
}

// fixture is a client with a cache that can be frozen, and its API server.
type fixture struct {
	t     *testing.T
	api   client.WithWatch
	cache *cache
	live  *traffic // reads of the API server
	sent  *traffic // writes
	k     *Client
	key   client.ObjectKey
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	api, namespace := apitest.Direct(t)
	f := &fixture{t: t, api: api, cache: &cache{}, live: &traffic{}, sent: &traffic{}, key: client.ObjectKey{Namespace: namespace, Name: "sales"}}
	f.k = NewClient(f.cache.wrap(f.sent.wrap(api)), f.live.wrap(api), "quoin-test")
	return f
}

// created returns a deployment that another client has created.
func (f *fixture) created() *v1alpha1.Deployment {
	f.t.Helper()
	d := newDeployment(f.key.Namespace, f.key.Name)
	if err := f.api.Create(f.t.Context(), d); err != nil {
		f.t.Fatal(err)
	}
	return d
}

// get reads through the client under test.
func (f *fixture) get() (*v1alpha1.Deployment, error) {
	d := &v1alpha1.Deployment{}
	return d, f.k.Get(f.t.Context(), f.key, d)
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// merge patches the deployment with another client.
func (f *fixture) merge(c client.Client, patch string) *v1alpha1.Deployment {
	f.t.Helper()
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.key.Namespace, Name: f.key.Name}}
	if err := c.Patch(f.t.Context(), d, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		f.t.Errorf("patch %s: %v", patch, err) // not Fatal: called by other goroutines
	}
	return d
}

// writeMethods returns functions that write an object, one for each method, and return the resource version.
func writeMethods() map[string]func(f *fixture, d *v1alpha1.Deployment) (resourceVersion string) {
	return map[string]func(f *fixture, d *v1alpha1.Deployment) (resourceVersion string){
		"update": func(f *fixture, d *v1alpha1.Deployment) string {
			d.Spec.DisplayName = "Marketing"
			f.must(f.k.Update(f.t.Context(), d))
			return d.ResourceVersion
		},
		"patch": func(f *fixture, _ *v1alpha1.Deployment) string {
			return f.merge(f.k, `{"spec":{"displayName":"Marketing"}}`).ResourceVersion
		},
		"patch of metadata": func(f *fixture, d *v1alpha1.Deployment) string {
			before := d.DeepCopy()
			d.Labels = map[string]string{v1alpha1.LabelID: "1"}
			f.must(PatchMetadata(f.t.Context(), f.k, before, d))
			return d.ResourceVersion
		},
		"patch of the status": func(f *fixture, d *v1alpha1.Deployment) string {
			before := d.DeepCopy()
			d.Status.ID = "1"
			_, err := PatchStatus(f.t.Context(), f.k, before, d)
			f.must(err)
			return d.ResourceVersion
		},
		"update of the status": func(f *fixture, d *v1alpha1.Deployment) string {
			d.Status.ID = "1"
			f.must(f.k.Status().Update(f.t.Context(), d))
			return d.ResourceVersion
		},
		"apply": func(f *fixture, _ *v1alpha1.Deployment) string {
			live, _, err := Apply(f.t.Context(), f.k, newDeployment(f.key.Namespace, f.key.Name))
			f.must(err)
			return live.ResourceVersion
		},
		"write under another field manager": func(f *fixture, _ *v1alpha1.Deployment) string {
			return f.merge(f.k.As("quoin-other"), `{"spec":{"displayName":"Marketing"}}`).ResourceVersion
		},
	}
}

// TestGetReadsOwnWrites: after a write with any method, Get reads the API server until the cache has
// caught up.
func TestGetReadsOwnWrites(t *testing.T) {
	for name, write := range writeMethods() {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			d := f.created()
			f.cache.freeze(f.key, d)
			want := write(f, d)
			f.live.reads = 0

			got, err := f.get()
			f.must(err)
			if got.ResourceVersion != want || f.live.reads != 1 {
				t.Errorf("got version %s with %d reads of the API server; %s was written", got.ResourceVersion, f.live.reads, want)
			}
			f.cache.catchUp()
			for range 2 {
				got, err = f.get()
				f.must(err)
			}
			if got.ResourceVersion != want || f.live.reads != 1 {
				t.Errorf("the cache has caught up: got version %s, want %s, with %d reads of the API server, want 1", got.ResourceVersion, want, f.live.reads)
			}
		})
	}
}

func TestGetSeesOwnCreation(t *testing.T) {
	f := newFixture(t)
	f.cache.freeze(f.key, nil)
	if _, err := f.get(); !apierrors.IsNotFound(err) || f.live.reads != 0 {
		t.Fatalf("got %v with %d reads of the API server; want not found from the cache", err, f.live.reads)
	}
	f.must(f.k.Create(t.Context(), newDeployment(f.key.Namespace, f.key.Name)))
	if _, err := f.get(); err != nil || f.live.reads != 1 {
		t.Errorf("got %v with %d reads of the API server; want the created object", err, f.live.reads)
	}
}

// TestLiveReadReplacesCachedFields: fields of the cached copy that were removed since are not retained.
func TestLiveReadReplacesCachedFields(t *testing.T) {
	f := newFixture(t)
	f.created()
	old := f.merge(f.api, `{"metadata":{"labels":{"old":"x"}},"spec":{"upgradePolicy":"Patch","env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]}}`)
	f.cache.freeze(f.key, old)
	f.merge(f.k, `{"metadata":{"labels":{"own":"y"}}}`)
	f.merge(f.api, `{"metadata":{"labels":{"old":null}},"spec":{"releaseChannelVersion":null,"upgradePolicy":null,"env":[{"name":"B","value":"2"}]}}`)

	got, err := f.get()
	f.must(err)
	want := &v1alpha1.Deployment{}
	f.must(f.api.Get(t.Context(), f.key, want))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("differs from the object of the API server (-want +got):\n%s", diff)
	}
}

// TestGetOfMetadataKeepsItsKind: metadata is read for the kind of the object.
func TestGetOfMetadataKeepsItsKind(t *testing.T) {
	f := newFixture(t)
	f.created()
	f.merge(f.k, `{"spec":{"displayName":"Marketing"}}`)
	got := &metav1.PartialObjectMetadata{}
	got.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Deployment"))
	f.cache.freeze(f.key, newDeployment(f.key.Namespace, f.key.Name))
	f.must(f.k.Get(t.Context(), f.key, got))
	if got.Kind != "Deployment" || got.Name != f.key.Name {
		t.Errorf("got %s %q", got.Kind, got.Name)
	}
}

func TestGetOfDeletedObject(t *testing.T) {
	f := newFixture(t)
	d := f.created()
	f.cache.freeze(f.key, d)
	f.merge(f.k, `{"spec":{"displayName":"Marketing"}}`)
	f.must(f.api.Delete(t.Context(), d))
	if _, err := f.get(); !apierrors.IsNotFound(err) {
		t.Fatalf("got %v, want not found: the object is deleted, although it is cached", err)
	}
	f.cache.freeze(f.key, nil)
	f.live.reads = 0
	if _, err := f.get(); !apierrors.IsNotFound(err) || f.live.reads != 0 {
		t.Errorf("got %v with %d reads of the API server; want not found from the cache: the record of the write ends with the object", err, f.live.reads)
	}
	again := f.created()
	f.cache.catchUp()
	if got, err := f.get(); err != nil || got.UID != again.UID {
		t.Errorf("got %s, %v; want the object that was created again", got.UID, err)
	}
}

// TestGetTrustsNewerCache: a cached copy with a later write of another client is not stale.
func TestGetTrustsNewerCache(t *testing.T) {
	f := newFixture(t)
	f.created()
	f.merge(f.k, `{"spec":{"displayName":"Marketing"}}`)
	newer := f.merge(f.api, `{"spec":{"displayName":"Finance"}}`)
	f.cache.freeze(f.key, newer)
	got, err := f.get()
	f.must(err)
	if got.Spec.DisplayName != "Finance" || f.live.reads != 0 {
		t.Errorf("got %q with %d reads of the API server", got.Spec.DisplayName, f.live.reads)
	}
}

// TestGetReturnsErrorsOfTheCache: Get does not read the API server after other errors than not found.
func TestGetReturnsErrorsOfTheCache(t *testing.T) {
	broken := errors.New("cache is not started")
	f := newFixture(t)
	f.k.Client = interceptor.NewClient(f.api, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return broken
		},
	})
	if _, err := f.get(); !errors.Is(err, broken) || f.live.reads != 0 {
		t.Errorf("got %v with %d reads of the API server", err, f.live.reads)
	}
}

// TestFailedWritesAreNotRecorded: a rejected write does not cause live reads.
func TestFailedWritesAreNotRecorded(t *testing.T) {
	f := newFixture(t)
	d := f.created()
	stale := d.DeepCopy()
	newer := f.merge(f.api, `{"spec":{"displayName":"Marketing"}}`)
	stale.Spec.DisplayName = "Finance"
	if err := f.k.Update(t.Context(), stale); !apierrors.IsConflict(err) {
		t.Fatalf("got %v, want a conflict", err)
	}
	f.cache.freeze(f.key, newer)
	if _, err := f.get(); err != nil || f.live.reads != 0 {
		t.Errorf("got %v with %d reads of the API server", err, f.live.reads)
	}
}

// TestConcurrentGetsReadOwnWrites: with concurrent workers, Get never returns an object older than a
// write that had completed before.
func TestConcurrentGetsReadOwnWrites(t *testing.T) {
	f := newFixture(t)
	d := f.created()
	f.cache.freeze(f.key, d)
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 5 {
				written := f.merge(f.k, fmt.Sprintf(`{"metadata":{"labels":{"w%d":"%d"}}}`, worker, i))
				got, err := f.get()
				if err != nil || freshness.Older(got.ResourceVersion, written.ResourceVersion) {
					t.Errorf("got version %s (%v) after %s was written", got.ResourceVersion, err, written.ResourceVersion)
				}
			}
		})
	}
	group.Go(func() {
		for range 10 {
			seen := &v1alpha1.Deployment{}
			if err := f.api.Get(t.Context(), f.key, seen); err != nil {
				t.Error(err)
				return
			}
			f.cache.freeze(f.key, seen)
		}
	})
	group.Wait()
}
