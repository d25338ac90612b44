package controllers_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/git"
)

// scenarios take a world through something that users do. Each act changes something and is
// followed by everything coming to rest.
var scenarios = map[string][]func(w *world){
	"deployment follows its channel": {
		func(w *world) { w.furnished(); w.create(w.deployment("analytics")) },
		func(w *world) { w.images.push("v1.2.4") },
	},
	"broken version goes back": {
		func(w *world) { w.furnished(); w.create(w.deployment("analytics")) },
		func(w *world) { w.images.push("v1.2.5-broken") },
	},
	"dedicated deployment shrinks to shared": {
		func(w *world) {
			w.furnished()
			d := w.deployment("analytics")
			d.Spec.Size = v1alpha1.SizeDedicated
			w.create(d)
		},
		func(w *world) {
			change(w, w.deployment("analytics"), func(d *v1alpha1.Deployment) { d.Spec.Size = v1alpha1.SizeShared })
		},
	},
	"branches follow the remote and staging is switched": {
		func(w *world) {
			w.furnished()
			w.refs = []git.Ref{ref("main", "a"), ref("feature", "b"), ref("dev-ada", "c")}
			w.create(w.gitDeployment("analytics"))
		},
		func(w *world) { w.staging("feature", true) },
		func(w *world) { w.refs = []git.Ref{ref("main", "d"), ref("feature", "e")} },
		func(w *world) { w.staging("feature", false) },
	},
	"commit that does not compile goes back": {
		func(w *world) {
			w.isWarm, w.uncompiled = true, map[string]bool{ref("", "b").Commit: true}
			w.restart()
			w.furnished()
			w.refs = []git.Ref{ref("main", "a")}
			w.create(w.gitDeployment("analytics"))
		},
		func(w *world) { w.refs = []git.Ref{ref("main", "b")} },
		func(w *world) { w.refs = []git.Ref{ref("main", "c")} },
	},
	"environments are woken by use and sleep": {
		func(w *world) {
			w.furnished()
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
	},
	"deployment is deleted and its name is taken": {
		func(w *world) {
			w.furnished()
			for _, name := range []string{"one", "two"} {
				d := w.deployment(name)
				d.Spec.DisplayName = "Analytics"
				w.create(d)
				w.settle() // so that the first one has the name in every run
			}
		},
		func(w *world) { w.delete(w.deployment("one")) },
	},
	"users and groups come, are renamed and go": {
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
	},
	"account is deleted": {
		func(w *world) { w.furnished(); w.create(w.deployment("analytics")) },
		func(w *world) { w.delete(w.account()) },
	},
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

// wake has the environment of a type wanted awake, as the gateway does.
func (w *world) wake(kind v1alpha1.EnvironmentType) {
	w.t.Helper()
	change(w, w.environmentOf(kind), func(e *v1alpha1.Environment) {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, v1alpha1.AnnotationWakeRequested, w.clock.Now().Format(time.RFC3339))
	})
}

// environmentOf is the environment of a type.
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

// play plays a scenario and writes down how each act ends.
func play(t *testing.T, acts []func(*world), seed uint64, prepare func(w *world)) (*world, []string) {
	t.Helper()
	w := newWorld(t, seed)
	if prepare != nil {
		prepare(w)
	}
	var ends []string
	for _, act := range acts {
		act(w)
		w.settle()
		ends = append(ends, w.dump())
	}
	w.checkNumbers()
	return w, ends
}

func TestScenariosEndAlikeInAnyOrder(t *testing.T) {
	for name, acts := range scenarios {
		t.Run(name, func(t *testing.T) {
			_, want := play(t, acts, 1, impatient)
			for seed := uint64(2); seed <= 4; seed++ {
				_, got := play(t, acts, seed, impatient)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("seed %d ends elsewhere than seed 1 (-want +got):\n%s", seed, diff)
				}
			}
		})
	}
}

// TestFaultAtEveryCall lets each API call that the controllers make go wrong, one at a time
// and in each way: the world ends as if nothing had happened, with no child twice and
// nothing half-made. A call is one by controller, verb and kind; QUOIN_FAULTS=all (make
// chaos) takes each repetition too, which takes hours.
func TestFaultAtEveryCall(t *testing.T) {
	apitest.Server(t) // skips all of it, where there is none
	tried := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		t.Run(name, func(t *testing.T) {
			acts := scenarios[name]
			undisturbed, want := play(t, acts, 1, impatient)
			for site, at := range calls(undisturbed.faults) {
				if tried[site] && os.Getenv("QUOIN_FAULTS") != "all" {
					continue
				}
				tried[site] = true
				for _, what := range ways(site) {
					w, got := play(t, acts, 1, func(w *world) {
						impatient(w)
						w.faults.at, w.faults.what = at, what
					})
					if w.faults.where == "" {
						t.Errorf("call %d (%s) was not made again", at, site)
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s (call %d), %s: ends elsewhere (-want +got):\n%s", site, at, what, diff)
					}
				}
			}
			t.Logf("%d calls, %d of them different", undisturbed.faults.calls, len(undisturbed.faults.sites))
		})
	}
	if len(tried) < 40 {
		t.Errorf("only %d different calls were seen: the faults are not between the controllers and the API server", len(tried))
	}
}

// ways in which a call can go wrong. A read that is carried out changes nothing, so dying
// before it and after it are the same, and so is its failing.
func ways(site string) []fault {
	if strings.Contains(site, ": get ") || strings.Contains(site, ": list ") {
		return []fault{failing}
	}
	return []fault{lost, killedBefore, killedAfter}
}

// impatient takes two quiet passes for rest: enough where no deadline has to pass.
func impatient(w *world) {
	if !strings.Contains(w.t.Name(), "broken") {
		w.patience = 2
	}
}

// calls are the numbers of the calls that go wrong, by what they are.
func calls(f *faults) map[string]int {
	if os.Getenv("QUOIN_FAULTS") != "all" {
		return f.sites
	}
	every := map[string]int{}
	for i := 1; i <= f.calls; i++ {
		every[fmt.Sprint("call ", i)] = i
	}
	return every
}

func TestConflictStorm(t *testing.T) {
	for name, acts := range scenarios {
		t.Run(name, func(t *testing.T) {
			_, want := play(t, acts, 1, impatient)
			_, got := play(t, acts, 1, func(w *world) {
				impatient(w)
				n, storm := 0, rand.New(rand.NewPCG(5, 17))
				w.faults.rival = func(ctx context.Context, obj client.Object) {
					if n++; storm.IntN(2) == 0 {
						return
					}
					u := &metav1.PartialObjectMetadata{}
					gvk, err := w.api.GroupVersionKindFor(obj)
					if err != nil {
						return
					}
					u.SetGroupVersionKind(gvk)
					patch := fmt.Appendf(nil, `{"metadata":{"labels":{"storm":"%d"}}}`, n)
					u.SetNamespace(obj.GetNamespace())
					u.SetName(obj.GetName())
					_ = w.api.Patch(ctx, u, client.RawPatch("application/merge-patch+json", patch))
				}
			})
			for i := range got {
				got[i] = withoutStorm(got[i])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("ends elsewhere (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStaleCache(t *testing.T) {
	for name, acts := range scenarios {
		t.Run(name, func(t *testing.T) {
			_, want := play(t, acts, 1, impatient)
			for seed := range uint64(3) {
				w, got := play(t, acts, 1, func(w *world) { impatient(w); w.stale = newLagging(seed); w.restart() })
				if w.stale.served == 0 {
					t.Fatal("nothing stale was served")
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("seed %d ends elsewhere (-want +got):\n%s", seed, diff)
				}
			}
		})
	}
}

// TestWhatUsersSee holds the words of the status against what a user may rely on.
func TestWhatUsersSee(t *testing.T) {
	ready := func(t *testing.T, w *world, obj v1alpha1.Object, want, says string) {
		t.Helper()
		state, message := w.condition(obj, v1alpha1.ConditionReady)
		if state != want || !contains(message, says) {
			t.Errorf("%T is %s: %q; want %s and a message with %q", obj, state, message, want, says)
		}
	}
	t.Run("a channel that does not exist is named, and heals when it appears", func(t *testing.T) {
		w := newWorld(t, 1)
		w.images.push("v1.2.3")
		w.create(w.account())
		w.create(w.model())
		d := w.deployment("analytics")
		w.create(d)
		w.settle()
		ready(t, w, d, "False ReleaseChannelNotFound", w.name)
		w.create(w.channel())
		w.settle()
		ready(t, w, d, "True Succeeded", "1.2.3")
	})
	t.Run("an unknown version is refused with the list of what is allowed", func(t *testing.T) {
		w := newWorld(t, 1).furnished()
		d := w.deployment("analytics")
		w.create(d)
		w.settle()
		change(w, d, func(d *v1alpha1.Deployment) { d.Spec.ReleaseChannelVersion = "9.9.9" })
		w.settle()
		ready(t, w, d, "False UnknownVersion", "1.2.3")
		if d.Status.CurrentVersion != "1.2.3" {
			t.Errorf("production runs %q meanwhile", d.Status.CurrentVersion)
		}
	})
	t.Run("pin, hold and release", func(t *testing.T) {
		w := newWorld(t, 1).furnished()
		w.images.push("v1.2.2")
		d := w.deployment("analytics")
		w.create(d)
		w.settle()
		change(w, d, func(d *v1alpha1.Deployment) { d.Spec.ReleaseChannelVersion = "v1.2.2" })
		w.settle()
		w.get(d)
		if d.Status.CurrentVersion != "1.2.2" || !d.Status.Hold {
			t.Errorf("after the pin: %s, hold %v", d.Status.CurrentVersion, d.Status.Hold)
		}
		w.images.push("v1.2.4")
		w.settle()
		w.get(d)
		if d.Status.CurrentVersion != "1.2.2" {
			t.Errorf("a held deployment went to %s", d.Status.CurrentVersion)
		}
		change(w, d, func(d *v1alpha1.Deployment) { d.Spec.ReleaseChannelVersion, d.Spec.Hold = "", ptr.To(true) })
		w.settle()
		w.get(d)
		if d.Status.CurrentVersion != "1.2.2" {
			t.Errorf("hold without a pin went to %s", d.Status.CurrentVersion)
		}
		change(w, d, func(d *v1alpha1.Deployment) { d.Spec.Hold = nil })
		w.settle()
		w.get(d)
		if d.Status.CurrentVersion != "1.2.4" || d.Status.Hold {
			t.Errorf("after the release: %s, hold %v", d.Status.CurrentVersion, d.Status.Hold)
		}
	})
	t.Run("a broken version goes back, is Stalled, and stays there", func(t *testing.T) {
		w := newWorld(t, 1).furnished()
		d := w.deployment("analytics")
		w.create(d)
		w.settle()
		w.images.push("v1.2.4-broken")
		w.settle()
		ready(t, w, d, "False RolloutFailed", "1.2.4-broken")
		if d.Status.CurrentVersion != "1.2.3" || d.Status.TargetVersion != "1.2.4-broken" {
			t.Errorf("current %s, target %s", d.Status.CurrentVersion, d.Status.TargetVersion)
		}
		env := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "analytics-production"}}
		ready(t, w, env, "True Succeeded", "1.2.3")
		for range 3 {
			w.clock.Step(time.Hour)
			w.settle()
		}
		ready(t, w, d, "False RolloutFailed", "1.2.3")
		w.images.push("v1.2.5")
		w.settle()
		ready(t, w, d, "True Succeeded", "1.2.5")
	})
	t.Run("a commit that does not compile goes back at once, is Stalled, and stays there", func(t *testing.T) {
		w := newWorld(t, 1)
		w.isWarm, w.uncompiled = true, map[string]bool{ref("", "b").Commit: true}
		w.restart()
		w.furnished()
		w.refs = []git.Ref{ref("main", "a")}
		d := w.gitDeployment("analytics")
		d.Spec.Rollout.ProgressDeadlineSeconds = ptr.To(int32(86400)) // nothing waits for it
		w.create(d)
		w.settle()
		env := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "analytics-production"}}
		ready(t, w, env, "True Succeeded", "1.2.3")
		w.refs = []git.Ref{ref("main", "b")}
		w.settle()
		ready(t, w, d, "False ModelBroken", "Compile errors: | orders.yml: bad); production serves commit aaaaaaaaaaaa")
		ready(t, w, env, "True Succeeded", "1.2.3")
		if env.Status.ModelCommit != ref("", "a").Commit || d.Status.FailedModel.Commit != ref("", "b").Commit {
			t.Errorf("serves %s, failed: %+v", env.Status.ModelCommit, d.Status.FailedModel)
		}
		generation := env.Generation
		for range 3 {
			w.clock.Step(time.Hour)
			w.settle()
		}
		if ready(t, w, env, "True Succeeded", ""); env.Generation != generation {
			t.Errorf("the commit was tried again: generation %d, was %d", env.Generation, generation)
		}
		w.images.push("v1.2.4") // a new version may read what the old one could not
		w.settle()
		ready(t, w, d, "False ModelBroken", "production serves commit aaaaaaaaaaaa")
		if ready(t, w, env, "True Succeeded", "1.2.4"); d.Status.CurrentVersion != "1.2.4" || env.Generation != generation+2 {
			t.Errorf("runs %s; generation %d, was %d", d.Status.CurrentVersion, env.Generation, generation)
		}
		w.refs = []git.Ref{ref("main", "c")}
		w.settle()
		ready(t, w, d, "True Succeeded", "1.2.4")
		if ready(t, w, env, "True Succeeded", ""); env.Status.ModelCommit != ref("", "c").Commit || d.Status.FailedModel != nil {
			t.Errorf("serves %s, failed: %+v", env.Status.ModelCommit, d.Status.FailedModel)
		}
	})
	t.Run("an environment sleeps until it is used, and makes nothing before", func(t *testing.T) {
		w := newWorld(t, 1).furnished()
		w.refs = []git.Ref{ref("main", "a"), ref("feature", "b")}
		d := w.gitDeployment("analytics")
		d.Spec.OnDemand = &v1alpha1.OnDemand{Roles: []v1alpha1.OnDemandRole{"shared"}, IdleSeconds: ptr.To(int32(600))}
		w.create(d)
		w.settle()
		env := w.environmentOf(v1alpha1.EnvironmentStaging)
		ready(t, w, env, "True Asleep", "the next request wakes it")
		if env.Status.Active || env.Status.ID == "" || env.Status.APICredentials == nil || len(w.all(&appsv1.DeploymentList{})) != 1 {
			t.Errorf("asleep from the beginning: %+v", env.Status)
		}
		w.wake(v1alpha1.EnvironmentStaging)
		w.settle()
		if ready(t, w, env, "True Succeeded", "1.2.3"); !env.Status.Active || len(w.all(&appsv1.DeploymentList{})) != 2 {
			t.Errorf("woken: %+v", env.Status)
		}
		w.clock.Step(11 * time.Minute)
		w.settle()
		if ready(t, w, env, "True Asleep", ""); env.Status.Active || env.Status.Replicas != 0 {
			t.Errorf("asleep again: %+v", env.Status)
		}
		branch := w.all(&v1alpha1.BranchList{})
		for _, obj := range branch {
			if b, ok := obj.(*v1alpha1.Branch); ok && b.Spec.Name == "feature" {
				ready(t, w, b, "True Asleep", "asleep")
			}
		}
	})
	t.Run("two deployments of one name", func(t *testing.T) {
		w := newWorld(t, 1).furnished()
		first, second := w.deployment("one"), w.deployment("two")
		first.Spec.DisplayName, second.Spec.DisplayName = "Analytics", "Analytics"
		w.create(first)
		w.settle()
		w.create(second)
		w.settle()
		ready(t, w, first, "True Succeeded", "")
		ready(t, w, second, "False NameTaken", `"one"`)
		change(w, first, func(d *v1alpha1.Deployment) { d.Spec.DisplayName = "Other" })
		w.settle()
		ready(t, w, second, "True Succeeded", "")
	})
	t.Run("a model that is missing, and a registry that does not answer", func(t *testing.T) {
		w := newWorld(t, 1)
		w.images.push("v1.2.3")
		w.create(w.account())
		w.create(w.channel())
		d := w.deployment("analytics")
		w.create(d)
		w.settle()
		ready(t, w, d, "False ModelNotFound", `"model"`)
		w.create(w.model())
		w.settle()
		ready(t, w, d, "True Succeeded", "")
		w.images.err = errUnreachable
		w.settle()
		channel := w.channel()
		ready(t, w, channel, "False ScanFailed", "last good scan is kept")
		if channel.Status.LatestVersion != "1.2.3" {
			t.Errorf("the list was lost: %q", channel.Status.LatestVersion)
		}
		ready(t, w, d, "True Succeeded", "")
	})
	t.Run("a Git secret that cannot be read is named", func(t *testing.T) {
		w := newWorld(t, 1).furnished()
		w.refs = []git.Ref{ref("main", "a")}
		d := w.gitDeployment("analytics")
		d.Spec.Model.Git.SecretRef = &v1alpha1.LocalReference{Name: "git"}
		w.create(d)
		w.settle()
		ready(t, w, d, "False GitSecretUnreadable", `"git" does not exist`)
		w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "git"}, Data: map[string][]byte{"username": []byte("ada")}})
		w.settle()
		ready(t, w, d, "False GitSecretUnreadable", `key "password" is missing`)
	})
	t.Run("a reserved variable is named and nothing is made", func(t *testing.T) {
		w := newWorld(t, 1).furnished()
		d := w.deployment("analytics")
		d.Spec.Env = []v1alpha1.EnvVar{{Name: "CUBEJS_API_SECRET", Value: ptr.To("x")}}
		w.create(d)
		w.settle()
		ready(t, w, d, "False InvalidSpec", "CUBEJS_API_SECRET")
	})
	t.Run("a number keeps with its branch's environment", func(t *testing.T) {
		w := newWorld(t, 1).furnished()
		w.refs = []git.Ref{ref("main", "a"), ref("feature", "b")}
		w.create(w.gitDeployment("analytics"))
		w.settle()
		number := func() string {
			for _, obj := range w.all(&v1alpha1.EnvironmentList{}) {
				if e, ok := obj.(*v1alpha1.Environment); ok && e.Spec.Type == v1alpha1.EnvironmentStaging {
					return e.Status.ID
				}
			}
			return ""
		}
		w.staging("feature", true)
		w.settle()
		before := number()
		w.staging("feature", false)
		w.settle()
		if number() != "" {
			t.Error("the staging environment is still there")
		}
		w.staging("feature", true)
		w.settle()
		if before == "" || number() != before {
			t.Errorf("the environment's number was %q and is %q", before, number())
		}
	})
	t.Run("an account without a namespace, and two that want the same", func(t *testing.T) {
		w := newWorld(t, 1)
		acct := w.account()
		acct.Spec.Namespace = w.name + "-missing"
		w.create(acct)
		w.settle()
		ready(t, w, acct, "False NamespaceNotFound", w.name+"-missing")
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-missing"}})
		w.settle()
		ready(t, w, acct, "True Succeeded", "")
		time.Sleep(time.Second) // ages of accounts count in seconds
		rival := w.account()
		rival.Name = w.name + "-rival"
		rival.Spec.Namespace = w.name + "-other"
		w.create(rival)
		w.settle()
		ready(t, w, rival, "False HostTaken", acct.Name)
	})
}
