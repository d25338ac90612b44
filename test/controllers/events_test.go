package controllers_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// eventLog records the events of the controllers.
type eventLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *eventLog) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := ""
	if obj, ok := regarding.(client.Object); ok {
		name = obj.GetName()
	}
	l.lines = append(l.lines, fmt.Sprintf("%T %s: %s %s %s", regarding, name, kind, reason, fmt.Sprintf(note, args...)))
}

// of returns the events of an object since the last call, without the object.
func (l *eventLog) of(obj client.Object) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines, rest []string
	for _, line := range l.lines {
		if text, ok := strings.CutPrefix(line, fmt.Sprintf("%T %s: ", obj, obj.GetName())); ok {
			lines = append(lines, text)
			continue
		}
		rest = append(rest, line)
	}
	l.lines = rest
	return lines
}

// TestEventsOfRollouts: a rollout has one event when it starts, with both versions, and one when it
// ends. What does not change what is reported, such as the number of replicas, has none.
func TestEventsOfRollouts(t *testing.T) {
	w := newWorld(t, 1)
	w.populate()
	d := w.deployment("analytics")
	failed := "Warning RolloutFailed Version 1.2.5-broken did not become ready within 1m0s (api: 0 of 1 pods are up to date and ready); rolled back to 1.2.4. " +
		"Retried when the version, the model, variables or resources change, or on request"
	scale := func(n int32) func() {
		return func() { change(w, d, func(d *v1alpha1.Deployment) { d.Spec.Replicas = ptr.To(n) }) }
	}
	for _, step := range []struct {
		name string
		act  func()
		want []string
	}{
		{"install", func() { w.create(d) }, []string{"Normal RolloutStarted Rollout of 1.2.3 started", "Normal Succeeded Production runs 1.2.3"}},
		{"scale", scale(2), nil},
		{"upgrade", func() { w.images.push("v1.2.4") }, []string{"Normal RolloutStarted Rollout from 1.2.3 to 1.2.4 started", "Normal Succeeded Production runs 1.2.4"}},
		{"scale again", scale(1), nil},
		{"broken version", func() { w.images.push("v1.2.5-broken") }, []string{"Normal RolloutStarted Rollout from 1.2.4 to 1.2.5-broken started", failed}},
		{"scale while it has failed", scale(2), nil},
		{"scale back", scale(1), nil},
		{"requested retry", func() {
			change(w, d, func(d *v1alpha1.Deployment) { d.Annotations[v1alpha1.AnnotationRetry] = "1" })
		}, []string{"Normal RolloutStarted Rollout from 1.2.4 to 1.2.5-broken started", failed}},
	} {
		step.act()
		w.settle()
		if diff := cmp.Diff(step.want, w.events.of(d)); diff != "" {
			t.Errorf("events of %s (-want +got):\n%s", step.name, diff)
		}
	}
}
