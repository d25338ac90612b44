package certificates

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
)

// countingSource is a source that counts its loads.
type countingSource struct{ loads int }

func (c *countingSource) load(context.Context) (*keyPair, error) {
	c.loads++
	return nil, errors.New("none")
}

// The certificate is refreshed when names may have been added, once for concurrent changes.
func TestFollowRefreshesForNewNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &countingSource{}
		c := &Certificates{source: s, log: slog.New(slog.DiscardHandler)}
		informers := &informertest.FakeInformers{Scheme: scheme.Scheme}
		nodes, err := informers.FakeInformerFor(t.Context(), &corev1.Node{})
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- c.Follow(ctx, informers, func(o any) []string {
				node, ok := o.(*corev1.Node)
				if !ok {
					t.Errorf("names called with a %T", o)
					return nil
				}
				return []string{node.Spec.ProviderID}
			}, &corev1.Node{})
		}()
		synctest.Wait()
		newNode := func(name string) *corev1.Node { return &corev1.Node{Spec: corev1.NodeSpec{ProviderID: name}} }
		changed := newNode("a")
		changed.Spec.Unschedulable = true
		for _, step := range []struct {
			name  string
			do    func()
			loads int
		}{
			{"no change", func() {}, 0},
			{"added", func() { nodes.Add(newNode("a")) }, 1},
			{"changed, same names", func() { nodes.Update(newNode("a"), changed) }, 1},
			{"changed names", func() { nodes.Update(changed, newNode("b")) }, 2},
			{"deleted", func() { nodes.Delete(newNode("b")) }, 2},
		} {
			step.do()
			synctest.Wait()
			if s.loads != step.loads {
				t.Errorf("%s: loaded %d times, want %d", step.name, s.loads, step.loads)
			}
			time.Sleep(2 * followInterval)
		}
		for range 3 {
			nodes.Add(newNode("c"))
			synctest.Wait()
		}
		time.Sleep(2 * followInterval)
		synctest.Wait()
		if s.loads != 4 {
			t.Errorf("three concurrent changes: loaded %d times, want 2 more than 2", s.loads)
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("Follow returns %v", err)
		}
	})
}
