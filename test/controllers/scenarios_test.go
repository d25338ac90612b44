package controllers_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/git"
)

// scenario is a sequence of user actions.
type scenario struct {
	name string
	// acts change something; after each of them the controllers run until nothing changes.
	acts []func(w *world)
	// quietPasses is the number of passes without a write after which a world has settled: more
	// where a deadline has to expire.
	quietPasses int
	// everyWrite is a kind of which each repetition of a write is disturbed, not only the first of all
	// scenarios; empty for none.
	everyWrite string
}

var scenarios = []*scenario{
	{name: "account is deleted", quietPasses: 2, acts: []func(w *world){
		func(w *world) { w.populate(); w.create(w.deployment("analytics")) },
		func(w *world) { w.delete(w.account()) },
	}},
	{name: "branches follow the remote and staging is switched", quietPasses: 2, acts: []func(w *world){
		func(w *world) {
			w.populate()
			w.refs = []git.Ref{ref("main", "a"), ref("feature", "b"), ref("dev-ada", "c")}
			w.create(w.gitDeployment("analytics"))
		},
		func(w *world) { w.staging("feature", true) },
		func(w *world) { w.refs = []git.Ref{ref("main", "d"), ref("feature", "e")} },
		func(w *world) { w.staging("feature", false) },
	}},
	{name: "broken version goes back", quietPasses: 4, acts: []func(w *world){
		func(w *world) { w.populate(); w.create(w.deployment("analytics")) },
		func(w *world) { w.images.push("v1.2.5-broken") },
	}},
	{name: "broken version is stopped, and the next one is not", quietPasses: 4, acts: []func(w *world){
		func(w *world) {
			w.slots = 2
			w.restart()
			w.populate()
			change(w, w.channel(), func(c *v1alpha1.ReleaseChannel) {
				c.Spec.Rollout = &v1alpha1.ChannelRolloutPolicy{FailureThreshold: ptr.To(int32(2)), FirstDeployments: ptr.To(int32(2))}
			})
			for _, name := range []string{"one", "two", "three"} {
				w.create(w.deployment(name))
			}
		},
		func(w *world) {
			// The order of slots must not decide which deployments try the version.
			change(w, w.deployment("three"), func(d *v1alpha1.Deployment) { d.Spec.Hold = ptr.To(true) })
			w.settle()
			w.images.push("v1.2.5-broken")
			w.settle()
			change(w, w.deployment("three"), func(d *v1alpha1.Deployment) { d.Spec.Hold = nil })
		},
		func(w *world) { w.create(w.deployment("four")) },
		func(w *world) { w.images.push("v1.2.6") },
	}},
	{name: "commit that does not compile goes back", quietPasses: 2, acts: []func(w *world){
		func(w *world) {
			w.warmUp, w.uncompiled = true, map[string]bool{ref("", "b").Commit: true}
			w.restart()
			w.populate()
			w.refs = []git.Ref{ref("main", "a")}
			w.create(w.gitDeployment("analytics"))
		},
		func(w *world) { w.refs = []git.Ref{ref("main", "b")} },
		func(w *world) { w.refs = []git.Ref{ref("main", "c")} },
	}},
	{name: "custom domain goes to another deployment", quietPasses: 2, everyWrite: "v1alpha1.Claim", acts: []func(w *world){
		func(w *world) {
			w.populate()
			w.create(w.withDomain("one", w.name+".example.org"))
			w.settle() // so that the first one has the domain in every run
			w.create(w.withDomain("two", w.name+".example.org"))
		},
		func(w *world) {
			change(w, w.deployment("one"), func(d *v1alpha1.Deployment) { d.Spec.DataAPI.CustomDomain = v1alpha1.Host("new." + w.name + ".org") })
		},
		func(w *world) { w.delete(w.deployment("two")) },
	}},
	{name: "dedicated deployment shrinks to shared", quietPasses: 2, acts: []func(w *world){
		func(w *world) {
			w.populate()
			d := w.deployment("analytics")
			d.Spec.Size = v1alpha1.SizeDedicated
			w.create(d)
		},
		func(w *world) {
			change(w, w.deployment("analytics"), func(d *v1alpha1.Deployment) { d.Spec.Size = v1alpha1.SizeShared })
		},
	}},
	{name: "deployment follows its channel", quietPasses: 2, acts: []func(w *world){
		func(w *world) { w.populate(); w.create(w.deployment("analytics")) },
		func(w *world) { w.images.push("v1.2.4") },
	}},
	{name: "deployment is deleted and its name is taken", quietPasses: 2, acts: []func(w *world){
		func(w *world) {
			w.populate()
			for _, name := range []string{"one", "two"} {
				d := w.deployment(name)
				d.Spec.DisplayName = "Analytics"
				w.create(d)
				w.settle() // so that the first one has the name in every run
			}
		},
		func(w *world) { w.delete(w.deployment("one")) },
	}},
	{name: "environments are woken by use and sleep", quietPasses: 2, acts: []func(w *world){
		func(w *world) {
			w.populate()
			w.refs = []git.Ref{ref("main", "a"), ref("feature", "b"), ref("dev-ada", "c")}
			d := w.gitDeployment("analytics")
			d.Spec.OnDemand = &v1alpha1.OnDemand{Roles: []v1alpha1.OnDemandRole{"shared", "personal"}}
			w.create(d)
		},
		func(w *world) { w.wake(v1alpha1.EnvironmentStaging); w.wake(v1alpha1.EnvironmentDevelopment) },
		func(w *world) { w.staging("feature", true); w.clock.Step(time.Hour) },
		func(w *world) {
			change(w, w.deployment("analytics"), func(d *v1alpha1.Deployment) { d.Spec.OnDemand = nil })
		},
	}},
	{name: "users and groups come, are renamed and go", quietPasses: 3, acts: []func(w *world){
		func(w *world) {
			w.create(w.account())
			w.create(w.user("ada", "ada@example.com"))
			w.settle() // so that she has the name in every run
			w.create(w.user("eve", "ADA@example.com"))
			w.create(w.user("bob", "bob@example.com"))
			w.create(w.chunk("c1", "ada", "joe"))
			w.create(w.group("staff", "bob"))
		},
		func(w *world) {
			change(w, w.user("ada", ""), func(u *v1alpha1.ScimUser) { u.Spec.UserName = "lovelace@example.com" })
		},
		func(w *world) {
			change(w, w.group("staff"), func(g *v1alpha1.ScimGroup) {
				g.Spec.MemberChunks = []v1alpha1.ScimMemberChunkReference{{Name: "c1", Count: 2}}
			})
		},
		func(w *world) { w.create(w.user("joe", "joe@example.com")); w.delete(w.user("bob", "")) },
	}},
}

func (w *world) staging(name string, enabled bool) {
	w.t.Helper()
	for _, obj := range w.all(&v1alpha1.BranchList{}) {
		if b, ok := obj.(*v1alpha1.Branch); ok && b.Spec.Name == name {
			change(w, b, func(b *v1alpha1.Branch) { b.Spec.StagingEnvironmentEnabled = &enabled })
			return
		}
	}
	w.t.Fatalf("there is no branch %q", name)
}

// wake requests that the environment of a type wakes, as the gateway does.
func (w *world) wake(kind v1alpha1.EnvironmentType) {
	w.t.Helper()
	change(w, w.environmentOf(kind), func(e *v1alpha1.Environment) {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, v1alpha1.AnnotationWakeRequested, w.clock.Now().Format(time.RFC3339))
	})
}

// environmentOf returns the environment of a type.
func (w *world) environmentOf(kind v1alpha1.EnvironmentType) *v1alpha1.Environment {
	w.t.Helper()
	for _, obj := range w.all(&v1alpha1.EnvironmentList{}) {
		if e, ok := obj.(*v1alpha1.Environment); ok && e.Spec.Type == kind {
			return e
		}
	}
	w.t.Fatalf("there is no %s environment", kind)
	return nil
}

// play runs the scenario in a new world and returns the state after each act.
func (s *scenario) play(t *testing.T, seed uint64, prepare func(w *world)) (*world, []string) {
	t.Helper()
	w := newWorld(t, seed)
	w.quietPasses = s.quietPasses
	if prepare != nil {
		prepare(w)
	}
	var states []string
	for _, act := range s.acts {
		act(w)
		w.settle()
		states = append(states, w.dump())
	}
	w.checkIDs()
	return w, states
}

// baseline is an undisturbed run of a scenario, with which the others are compared.
type baseline struct {
	once   sync.Once
	faults *faults
	states []string
}

var baselines = map[*scenario]*baseline{}

func init() {
	for _, s := range scenarios {
		baselines[s] = &baseline{}
	}
}

// baseline returns the undisturbed run of the scenario, which all tests of the package share.
func (s *scenario) baseline(t *testing.T) *baseline {
	t.Helper()
	b := baselines[s]
	b.once.Do(func() {
		w, states := s.play(t, 1, nil)
		b.faults, b.states = w.faults, states
	})
	if b.states == nil {
		t.Fatal("the undisturbed run failed")
	}
	return b
}

// forEachScenario runs a test with the baseline of each scenario, all at the same time.
func forEachScenario(t *testing.T, test func(t *testing.T, s *scenario, base *baseline)) {
	t.Helper()
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, s, s.baseline(t))
		})
	}
}

// forEachSeed runs a test for each of some seeds, all at the same time.
func forEachSeed(t *testing.T, seeds []uint64, test func(t *testing.T, seed uint64)) {
	t.Helper()
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			test(t, seed)
		})
	}
}

func TestScenariosEndAlikeInAnyOrder(t *testing.T) {
	forEachScenario(t, func(t *testing.T, s *scenario, base *baseline) {
		forEachSeed(t, []uint64{2, 3, 4}, func(t *testing.T, seed uint64) {
			_, got := s.play(t, seed, nil)
			if diff := cmp.Diff(base.states, got); diff != "" {
				t.Fatalf("ends in another state than seed 1 (-want +got):\n%s", diff)
			}
		})
	})
}
