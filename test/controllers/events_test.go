package controllers_test

import (
	"fmt"
	"maps"
	"slices"
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

// TestEventsOfRollouts: a rollout has one event when it ends, and one when it starts if it is not over soon.
// What does not change what is reported, such as the number of replicas, has none.
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
		{"upgrade", func() { w.images.push("v1.2.4") }, []string{"Normal Succeeded Production runs 1.2.4 in place of 1.2.3"}},
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

// TestAccountAppliedAfterItsObjects: a client applies a deployment and a user, and their account a moment later. That is no reason
// for an event; an account that is still missing after the time that a client takes is.
func TestAccountAppliedAfterItsObjects(t *testing.T) {
	for name, follows := range map[string]bool{"an account that follows": true, "no account": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			d, u := w.deployment("analytics"), w.user("ada", "ada@example.com")
			w.create(d)
			w.create(u)
			w.pass()
			if follows {
				w.populate()
			}
			w.settle()
			for _, o := range []client.Object{d, u} {
				isMissing := func(line string) bool { return strings.HasPrefix(line, "Warning "+v1alpha1.ReasonAccountNotFound) }
				if events := w.events.of(o); slices.ContainsFunc(events, isMissing) == follows {
					t.Errorf("events of %T: %q", o, events)
				}
			}
		})
	}
}

// TestWritesOfARollout: a rollout that follows the channel costs a deployment five writes, one of them an
// event. One of several seconds' notice, such as that of a pin, also writes its start.
func TestWritesOfARollout(t *testing.T) {
	fast := map[string]int{
		"apply Environment": 1, "apply Deployment": 1, "patch status *v1alpha1.Environment": 1,
		"patch status *v1alpha1.Deployment": 1, "event": 1,
	}
	slow := map[string]int{
		"apply Environment": 1, "apply Deployment": 1, "patch status *v1alpha1.Environment": 1,
		"patch status *v1alpha1.Deployment": 2, "event": 2,
	}
	const deployments = 5
	w := newWorld(t, 3)
	w.slots = deployments
	w.restart()
	w.populate()
	for i := range deployments {
		w.create(w.deployment(fmt.Sprintf("d%d", i)))
	}
	w.images.push("v1.2.2")
	w.settle()
	pinned := w.deployment("d0")
	for _, step := range []struct {
		name  string
		act   func()
		times int
		want  map[string]int
	}{
		{"new version", func() { w.images.push("v1.2.4") }, deployments, fast},
		{"nothing", func() { w.restart() }, 1, map[string]int{}},
		{"pin", func() { change(w, pinned, func(d *v1alpha1.Deployment) { d.Spec.ReleaseChannelVersion = "1.2.2" }) }, 1, slow},
	} {
		w.takeWrites()
		step.act()
		w.settle()
		want := maps.Clone(step.want)
		for kind := range want {
			want[kind] *= step.times
		}
		if diff := cmp.Diff(want, w.takeWrites()); diff != "" {
			t.Errorf("writes of %s (-want +got):\n%s", step.name, diff)
		}
	}
}

// takeWrites returns the number of writes and events since the last call, without those on release channels.
func (w *world) takeWrites() map[string]int {
	w.faults.mu.Lock()
	defer w.faults.mu.Unlock()
	w.events.mu.Lock()
	defer w.events.mu.Unlock()
	counts := map[string]int{}
	for _, line := range w.faults.log[w.counted:] {
		kind, _, _ := strings.Cut(line, " *client.")
		if !strings.Contains(kind, "ReleaseChannel") {
			counts[kind]++
		}
	}
	for _, line := range w.events.lines {
		if !strings.Contains(line, "ReleaseChannel") {
			counts["event"]++
		}
	}
	w.counted, w.events.lines = len(w.faults.log), nil
	return counts
}
