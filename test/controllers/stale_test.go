package controllers_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var errUnreachable = errors.New("registry registry.example.com: connection refused")

func contains(text, part string) bool { return strings.Contains(text, part) }

var storm = regexp.MustCompile(`"labels":\{"storm":"[0-9]+"\},|,"labels":\{"storm":"[0-9]+"\}|,"storm":"[0-9]+"|"storm":"[0-9]+",`)

// withoutStorm removes the mark of the other writer.
func withoutStorm(dump string) string { return storm.ReplaceAllString(dump, "") }

// lagging answers some reads with what it answered the last time: a cache that is behind.
type lagging struct {
	mu     sync.Mutex
	order  *rand.Rand
	last   map[string]client.Object
	served int
}

func newLagging(seed uint64) *lagging {
	return &lagging{order: rand.New(rand.NewPCG(seed, 13)), last: map[string]client.Object{}}
}

func (l *lagging) wrap(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := c.Get(ctx, key, obj, opts...); err != nil {
				return err
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			gvk, err := c.GroupVersionKindFor(obj)
			if err != nil {
				return err
			}
			id := gvk.String() + key.String()
			old, ok := l.last[id]
			l.last[id], _ = obj.DeepCopyObject().(client.Object)
			if ok && old.GetUID() == obj.GetUID() && old.GetResourceVersion() != obj.GetResourceVersion() && l.order.IntN(2) == 0 {
				l.served++
				reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(old.DeepCopyObject()).Elem())
			}
			return nil
		},
	})
}
