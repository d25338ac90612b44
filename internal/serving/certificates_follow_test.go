package serving

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

// counted is a source that counts how often it is read.
type counted struct{ reads int }

func (c *counted) load(context.Context) (*keyPair, error) {
	c.reads++
	return nil, errors.New("none")
}

// The certificate is read again when there may be another name, once for all that come together.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counted{}
		c := &Certificates{source: s, log: slog.New(slog.DiscardHandler)}
		informers := &informertest.FakeInformers{Scheme: scheme.Scheme}
		nodes, err := informers.FakeInformerFor(t.Context(), &corev1.Node{})
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- c.Follow(ctx, informers, func(o any) []string {
				node, ok := o.(*corev1.Node)
				if !ok {
					t.Errorf("asked for the names of a %T", o)
					return nil
				}
				return []string{node.Spec.ProviderID}
			}, &corev1.Node{})
		}()
		synctest.Wait()
		named := func(name string) *corev1.Node { return &corev1.Node{Spec: corev1.NodeSpec{ProviderID: name}} }
		busy := named("a")
		busy.Spec.Unschedulable = true
		for _, step := range []struct {
			name  string
			do    func()
			reads int
		}{
			{"nothing", func() {}, 0},
			{"made", func() { nodes.Add(named("a")) }, 1},
			{"changed otherwise", func() { nodes.Update(named("a"), busy) }, 1},
			{"renamed", func() { nodes.Update(busy, named("b")) }, 2},
			{"gone", func() { nodes.Delete(named("b")) }, 2},
		} {
			step.do()
			synctest.Wait()
			if s.reads != step.reads {
				t.Errorf("%s: read %d times, want %d", step.name, s.reads, step.reads)
			}
			time.Sleep(2 * settle) // in the clock of the bubble
		}
		for range 3 {
			nodes.Add(named("c"))
			synctest.Wait()
		}
		time.Sleep(2 * settle)
		synctest.Wait()
		if s.reads != 4 {
			t.Errorf("three that came together: read %d times, want 2 more than 2", s.reads)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("ends with %v", err)
		}
	})
}
