package controllers_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// every n-th call is let go wrong: all of them unless QUOIN_FAULTS_EVERY says otherwise.
var every = max(1, number(os.Getenv("QUOIN_FAULTS_EVERY")))

func number(text string) int { n, _ := strconv.Atoi(text); return n }

var errUnreachable = errors.New("registry registry.example.com: connection refused")

func contains(text, part string) bool { return strings.Contains(text, part) }

// withoutStorm removes the mark of the other writer.
func withoutStorm(dump string) string {
	dump = regexp.MustCompile(`"labels":\{"storm":"[0-9]+"\},`).ReplaceAllString(dump, "")
	return regexp.MustCompile(`,"storm":"[0-9]+"|"storm":"[0-9]+",`).ReplaceAllString(dump, "")
}

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
