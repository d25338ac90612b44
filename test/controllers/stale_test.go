package controllers_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"regexp"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var errUnreachable = errors.New("registry registry.example.com: connection refused")

var storm = regexp.MustCompile(`"labels":\{"storm":"[0-9]+"\},|,"labels":\{"storm":"[0-9]+"\}|,"storm":"[0-9]+"|"storm":"[0-9]+",`)

// withoutStorm removes the label of the conflicting writer.
func withoutStorm(dump string) string { return storm.ReplaceAllString(dump, "") }

// staleReads answers some reads with the previous version of the object, as a stale cache does.
type staleReads struct {
	mu     sync.Mutex
	order  *rand.Rand
	last   map[string]client.Object
	served int
}

func newStaleReads(seed uint64) *staleReads {
	return &staleReads{order: rand.New(rand.NewPCG(seed, 13)), last: map[string]client.Object{}}
}

func (r *staleReads) wrap(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := c.Get(ctx, key, obj, opts...); err != nil {
				return err
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			gvk, err := c.GroupVersionKindFor(obj)
			if err != nil {
				return err
			}
			id := gvk.String() + key.String()
			old, ok := r.last[id]
			r.last[id], _ = obj.DeepCopyObject().(client.Object)
			if ok && old.GetUID() == obj.GetUID() && old.GetResourceVersion() != obj.GetResourceVersion() && r.order.IntN(2) == 0 {
				r.served++
				reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(old.DeepCopyObject()).Elem())
			}
			return nil
		},
	})
}
