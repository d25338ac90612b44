package kube

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// apiServer is the API server of all tests in the package, nil where there is none; each
// test has a namespace of its own.
var apiServer *rest.Config

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return m.Run()
	}
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
	}
	config, err := env.Start()
	if err != nil {
		fmt.Println("start the API server:", err)
		return 1
	}
	defer func() {
		if err := env.Stop(); err != nil {
			fmt.Println("stop the API server:", err)
		}
	}()
	config.QPS = -1
	apiServer = config
	return m.Run()
}

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// direct returns a client of the API server itself and a namespace of the test's own.
func direct(t *testing.T) (c client.WithWatch, namespace string) {
	t.Helper()
	if apiServer == nil {
		if os.Getenv("CI") != "" {
			t.Fatal("KUBEBUILDER_ASSETS is not set")
		}
		t.Skip("SKIPPED LOUDLY: KUBEBUILDER_ASSETS is not set; run make test-unit, which builds an API server")
	}
	c, err := client.NewWithWatch(apiServer, client.Options{Scheme: testScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kube-"}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return c, ns.Name
}

// traffic counts what goes over a client.
type traffic struct {
	mu            sync.Mutex
	reads, writes int
}

func (f *traffic) count(n *int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*n++
}

// wrap counts the requests of a client.
func (f *traffic) wrap(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			f.count(&f.reads)
			return c.Get(ctx, key, obj, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			f.count(&f.writes)
			return c.Create(ctx, obj, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			f.count(&f.writes)
			return c.Update(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			f.count(&f.writes)
			return c.Patch(ctx, obj, patch, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			f.count(&f.writes)
			return c.Apply(ctx, obj, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			f.count(&f.writes)
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
}

// cache answers reads as an informer's cache does that has stopped at some moment: with
// what was there then. Objects that it was not stopped for are read as they are.
type cache struct {
	mu   sync.Mutex
	then map[client.ObjectKey]*v1alpha1.Deployment
}

// stop makes the cache answer with d from now on, and with not found for nil.
func (s *cache) stop(key client.ObjectKey, d *v1alpha1.Deployment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.then == nil {
		s.then = map[client.ObjectKey]*v1alpha1.Deployment{}
	}
	s.then[key] = d.DeepCopy()
}

func (s *cache) catchUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.then = nil
}

func (s *cache) wrap(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			old, stopped := s.then[key]
			out, isDeployment := obj.(*v1alpha1.Deployment)
			switch {
			case !stopped || !isDeployment:
				return c.Get(ctx, key, obj, opts...)
			case old == nil:
				return apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.Group, Resource: "deployments"}, key.Name)
			}
			*out = *old.DeepCopy()
			return nil
		},
	})
}
