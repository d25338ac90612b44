package kube

import (
	"context"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// traffic counts the requests of a client.
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

// cache is an informer cache that can be frozen for single objects.
type cache struct {
	mu     sync.Mutex
	frozen map[client.ObjectKey]*v1alpha1.Deployment
}

// freeze makes the cache return d until catchUp, or not found if d is nil.
func (s *cache) freeze(key client.ObjectKey, d *v1alpha1.Deployment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen == nil {
		s.frozen = map[client.ObjectKey]*v1alpha1.Deployment{}
	}
	s.frozen[key] = d.DeepCopy()
}

func (s *cache) catchUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = nil
}

func (s *cache) wrap(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			old, isFrozen := s.frozen[key]
			out, isDeployment := obj.(*v1alpha1.Deployment)
			switch {
			case !isFrozen || !isDeployment:
				return c.Get(ctx, key, obj, opts...)
			case old == nil:
				return apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.Group, Resource: "deployments"}, key.Name)
			}
			*out = *old.DeepCopy()
			return nil
		},
	})
}
