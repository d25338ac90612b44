package controllers_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// readCache answers repeated reads of a world. A write to a kind through the client removes the
// results of that kind, so they are always current: nothing else writes to a world's objects.
type readCache struct {
	mu      sync.Mutex
	results map[string]map[string]readResult // by kind and request
	writes  map[string]int                   // by kind
}

type readResult struct {
	obj runtime.Object
	err error
}

func newReadCache() *readCache {
	return &readCache{results: map[string]map[string]readResult{}, writes: map[string]int{}}
}

// read answers a request from the cache, or else with do.
func (r *readCache) read(c client.Client, request string, obj runtime.Object, do func() error) error {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	kind := strings.TrimSuffix(gvk.Kind, "List")
	request = fmt.Sprintf("%s %T %s", gvk, obj, request)
	r.mu.Lock()
	result, ok := r.results[kind][request]
	writes := r.writes[kind]
	r.mu.Unlock()
	if ok {
		if result.err == nil {
			reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(result.obj.DeepCopyObject()).Elem())
		}
		return result.err
	}
	err = do()
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writes[kind] == writes {
		if r.results[kind] == nil {
			r.results[kind] = map[string]readResult{}
		}
		r.results[kind][request] = readResult{obj.DeepCopyObject(), err}
	}
	return err
}

// write makes a write to a kind.
func (r *readCache) write(kind string, do func() error) error {
	forget := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.writes[kind]++
		delete(r.results, kind)
	}
	forget()
	defer forget()
	return do()
}

// wrap returns a client that reads through the cache.
func (r *readCache) wrap(c client.WithWatch) client.WithWatch {
	write := func(obj client.Object, do func() error) error {
		gvk, err := c.GroupVersionKindFor(obj)
		if err != nil {
			return err
		}
		return r.write(gvk.Kind, do)
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return r.read(c, key.String(), obj, func() error { return c.Get(ctx, key, obj, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			o := (&client.ListOptions{}).ApplyOptions(opts)
			request := fmt.Sprint(o.Namespace, " ", o.AsListOptions())
			return r.read(c, request, list, func() error { return c.List(ctx, list, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return write(obj, func() error { return c.Create(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return write(obj, func() error { return c.Delete(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return write(obj, func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return write(obj, func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return r.write(kindOf(obj), func() error { return c.Apply(ctx, obj, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return write(obj, func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
	})
}
