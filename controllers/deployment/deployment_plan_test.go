package deployment

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/maintenance"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/version"
)

var update = flag.Bool("update", false, "update the golden transcripts")

// world simulates a deployment, its environment and their two controllers without an API
// server, which is possible because makePlan is pure.
type world struct {
	now        time.Time
	since      time.Time // when the controller started
	deployment *v1alpha1.Deployment
	production *v1alpha1.Environment
	target     string
	manual     bool
	fallback   string // the proven version of the channel
	skipped    string // the version that the channel has stopped
	newPin     bool   // the user has pinned the target since the last plan
	window     bool   // the account has a maintenance window, untilWindow after the start
	byHand     bool   // a user has requested the target
	slow       bool   // pods do not become ready yet
	slots      int
	broken     map[string]bool // versions whose pods never become ready
	blocked    bool            // the environment waits for a change by a user
	asleep     bool            // the deployment is scaled to zero
	commit     string          // the head of the branch
	uncompiled map[string]bool // "version commit" or "commit": versions and commits that do not compile
	compiling  bool            // pods compile their data model
	transcript []string
	last       map[string]string // the last line of each controller
}

func newWorld() *world {
	return &world{
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		deployment: &v1alpha1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "analytics", Generation: 1},
			Spec:       v1alpha1.DeploymentSpec{Model: v1alpha1.ModelSource{Git: &v1alpha1.GitSource{URL: "https://git.example.com/model.git"}}, Rollout: &v1alpha1.RolloutPolicy{ProgressDeadlineSeconds: ptr.To(int32(60))}},
		},
		slots: 1, broken: map[string]bool{}, uncompiled: map[string]bool{}, last: map[string]string{},
	}
}

func run(version string) v1alpha1.VersionRun {
	return v1alpha1.VersionRun{Version: version, ReleaseChannel: "latest", Image: "registry/cube:v" + version, Digest: "sha256:" + version}
}

// observe returns what the controller of deployments observes.
func (w *world) observe() observation {
	chosen := choice{target: run(w.target), manual: w.manual, newPin: w.newPin, skipped: w.skipped, byHand: w.byHand}
	if w.window {
		chosen.window = sundays()
	}
	if w.fallback != "" && len(w.deployment.Status.History) == 0 {
		chosen.fallback = ptr.To(run(w.fallback))
	}
	return observation{
		deployment: w.deployment, choice: chosen,
		commit: w.commit, production: w.production, now: w.now, since: w.since,
	}
}

// untilWindow is the time from the start, a Thursday, until Sunday, 02:00.
const untilWindow = 74 * time.Hour

func sundays() *maintenance.Window {
	account := &v1alpha1.Account{}
	account.Spec.Settings = &v1alpha1.AccountSettings{MaintenanceWindow: &v1alpha1.MaintenanceWindow{Enabled: ptr.To(true)}}
	w, err := maintenance.Of(account)
	if err != nil {
		panic(err)
	}
	return w
}

// plan simulates a reconciliation of the deployment.
func (w *world) plan() {
	observed := w.observe()
	w.newPin = false
	p := makePlan(observed)
	if p.start != nil && p.start.slot && w.slots == 0 {
		p = waitForSlot(observed, noSlot)
	}
	w.deployment.Status = p.status
	reconciler.Summarise(w.deployment, p.outcome)
	if w.production == nil {
		w.production = &v1alpha1.Environment{}
		w.production.Status.ObservedGeneration = -1
	}
	before := w.production.Spec
	w.production.Spec.Image, w.production.Spec.Version = p.run.Pinned(), p.run.Version
	w.production.Spec.DeploymentGeneration, w.production.Spec.ModelCommit = w.deployment.Generation, p.commit
	if before != w.production.Spec {
		w.production.Generation++
	}
	w.note("plan")
}

// environment simulates a reconciliation of the environment, whose pods become ready or do not.
func (w *world) environment() {
	env := w.production
	if env == nil {
		return
	}
	outcome := reconciler.Done("All pods run " + env.Spec.Version)
	switch {
	case w.asleep:
		outcome = reconciler.Done("Scaled to zero").WithReason(v1alpha1.ReasonAsleep)
		env.Status.Image = env.Spec.Image
	case w.blocked:
		outcome = reconciler.Stalled(v1alpha1.ReasonInvalidSpec, "spec.env[X]: is set by the platform")
	case w.uncompiled[env.Spec.ModelCommit] || w.uncompiled[env.Spec.Version+" "+env.Spec.ModelCommit]:
		outcome = reconciler.Stalled(v1alpha1.ReasonModelBroken, "The data model does not compile: orders.yml: bad")
	case w.compiling:
		outcome = reconciler.Progressing(v1alpha1.ReasonWarmingUp, "api: 0 of 2 pods are ready (the data model is being compiled)")
	case w.broken[env.Spec.Version] || w.slow && env.Status.Image != env.Spec.Image:
		outcome = reconciler.Progressing(v1alpha1.ReasonWorkloadsNotReady, "api: 0 of 2 pods are ready")
	default:
		env.Status.Image, env.Status.ModelCommit = env.Spec.Image, env.Spec.ModelCommit
	}
	reconciler.Summarise(env, outcome)
	w.note("pods")
}

func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

func (w *world) note(controller string) {
	d := w.deployment
	ready := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady)
	state := ""
	for _, kind := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		if meta.IsStatusConditionTrue(d.Status.Conditions, kind) {
			state += " " + kind
		}
	}
	var history []string
	for _, h := range d.Status.History {
		history = append(history, h.Version)
	}
	line := fmt.Sprintf("%-5s production=%s history=%v ready=%s/%s%s", controller,
		w.production.Spec.Version, history, ready.Status, ready.Reason, state)
	if d.Status.ModelCommit != "" {
		line = strings.Replace(line, " history", fmt.Sprintf(" commit=%s served=%s history", w.production.Spec.ModelCommit, d.Status.ModelCommit), 1)
	}
	if controller == "plan" {
		line += ": " + ready.Message
	} else {
		line = fmt.Sprintf("%-5s production=%s image=%s", controller, w.production.Spec.Version, w.production.Status.Image)
		if commit := w.production.Status.ModelCommit; commit != "" {
			line += " commit=" + commit
		}
	}
	if w.last[controller] != line {
		w.last[controller] = line
		w.transcript = append(w.transcript, fmt.Sprintf("%4ds %s", int(w.now.Sub(newWorld().now).Seconds()), line))
	}
}

// summary returns the state of the deployment in one line.
func (w *world) summary() string { return w.last["plan"] }

// settle runs both controllers in a random order until nothing changes.
func (w *world) settle(order *rand.Rand) {
	for range 12 {
		if order.IntN(2) == 0 {
			w.plan()
		} else {
			w.environment()
		}
	}
	for range 4 {
		w.environment()
		w.plan()
	}
}

// TestTranscripts compares the decisions of the planner with golden files.
func TestTranscripts(t *testing.T) {
	for name, steps := range scenarios {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			order := rand.New(rand.NewPCG(1, 2))
			for i, step := range steps {
				step(w)
				w.transcript = append(w.transcript, fmt.Sprintf("-- step %d", i+1))
				w.settle(order)
			}
			compare(t, filepath.Join("testdata", name+".txt"), strings.Join(w.transcript, "\n")+"\n")
		})
	}
}

// TestOrderDoesNotMatter runs every scenario with many orders of the two controllers: each
// step ends in the same state.
func TestOrderDoesNotMatter(t *testing.T) {
	for name, steps := range scenarios {
		t.Run(name, func(t *testing.T) {
			var want []string
			for seed := range uint64(200) {
				w := newWorld()
				order := rand.New(rand.NewPCG(seed, 7))
				var summaries []string
				for _, step := range steps {
					step(w)
					w.settle(order)
					summaries = append(summaries, w.summary())
				}
				if seed == 0 {
					want = summaries
				}
				if diff := cmp.Diff(want, summaries); diff != "" {
					t.Fatalf("seed %d ends in another state than seed 0 (-want +got):\n%s", seed, diff)
				}
			}
		})
	}
}

// TestPlanIsIdempotent: a plan from unchanged observations changes nothing.
func TestPlanIsIdempotent(t *testing.T) {
	for name, steps := range scenarios {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			for _, step := range steps {
				step(w)
				w.settle(rand.New(rand.NewPCG(3, 4)))
				deployment, production := w.deployment.DeepCopy(), w.production.DeepCopy()
				w.plan()
				if diff := cmp.Diff(deployment, w.deployment); diff != "" {
					t.Errorf("the deployment is changed:\n%s", diff)
				}
				if diff := cmp.Diff(production, w.production); diff != "" {
					t.Errorf("the environment is changed:\n%s", diff)
				}
			}
		})
	}
}

// TestPlanIsPure: makePlan changes none of its input, and the same input gives the same plan.
func TestPlanIsPure(t *testing.T) {
	for name, steps := range scenarios {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			for _, step := range steps {
				step(w)
				o := w.observe()
				deployment, production := w.deployment.DeepCopy(), w.production.DeepCopy()
				first := makePlan(o)
				waitForSlot(o, noSlot)
				if diff := cmp.Diff(first, makePlan(o), cmp.AllowUnexported(plan{}, startRequest{}, reconciler.Outcome{})); diff != "" {
					t.Errorf("the second plan differs:\n%s", diff)
				}
				if diff := cmp.Diff(deployment, w.deployment) + cmp.Diff(production, w.production); diff != "" {
					t.Errorf("the input is changed:\n%s", diff)
				}
				w.settle(rand.New(rand.NewPCG(3, 4)))
			}
		})
	}
}

func TestHistoryIsBoundedAndUnique(t *testing.T) {
	now := time.Now()
	var history []v1alpha1.VersionRun
	for i := range maxHistory + 5 {
		history = prepend(history, run(fmt.Sprintf("1.0.%d", i)), now)
	}
	history = prepend(history, run("1.0.20"), now)
	if len(history) != maxHistory {
		t.Errorf("history holds %d versions, want %d", len(history), maxHistory)
	}
	if history[0].Version != "1.0.20" || history[1].Version != "1.0.24" {
		t.Errorf("history begins %s, %s; want the latest run first and each version once", history[0].Version, history[1].Version)
	}
}

func compare(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("no transcript: %v; create it with -update and review it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("other decisions (-want +got); if they are intended, run with -update:\n%s", diff)
	}
}

// dedicated returns the observation of a deployment that ran 1.2.3 as Shared, is Dedicated now, and rolls out
// 1.2.4 since a time. storeImage is the image of the store for 1.2.3.
func dedicated(storeImage string, since time.Duration) (*v1alpha1.Environment, observation) {
	w := newWorld()
	d, target := w.deployment, run("1.2.4")
	target.StoreImage = "registry/store:v1.2.4"
	d.Spec.Size = v1alpha1.SizeDedicated
	d.Status.History = []v1alpha1.VersionRun{run("1.2.3")}
	d.Status.Rollout = &v1alpha1.RolloutStatus{To: target, StartTime: &metav1.Time{Time: w.now.Add(-since)}}
	env := &v1alpha1.Environment{}
	env.Spec.Image, env.Spec.StoreImage, env.Spec.DeploymentGeneration = target.Pinned(), target.StoreImage, d.Generation
	reconciler.Summarise(env, reconciler.Progressing(v1alpha1.ReasonWorkloadsNotReady, "api: 0 of 2 pods are ready"))
	return env, observation{deployment: d, choice: choice{target: target, storeImage: storeImage}, production: env, now: w.now}
}

// TestRollBackAfterAChangeOfSize: the previous version gets the image of the store that the size needs. If none is
// known, the environment is blocked, and the deployment says so.
func TestRollBackAfterAChangeOfSize(t *testing.T) {
	for storeImage, reason := range map[string]string{
		"registry/store:v1.2.3": v1alpha1.ReasonRolloutFailed, "": v1alpha1.ReasonInvalidSpec,
	} {
		env, o := dedicated(storeImage, time.Hour)
		p := makePlan(o)
		if p.status.Failed == nil || p.run.Version != "1.2.3" || p.run.StoreImage != storeImage {
			t.Fatalf("failed %+v, rolled back to %s with the store %q, want %q", p.status.Failed, p.run.Version, p.run.StoreImage, storeImage)
		}
		o.deployment.Status = p.status
		env.Spec.Image, env.Spec.StoreImage = p.run.Pinned(), p.run.StoreImage
		outcome := reconciler.Stalled(v1alpha1.ReasonInvalidSpec, "spec.size: Dedicated needs a store image")
		if storeImage != "" {
			env.Status.Image, outcome = env.Spec.Image, reconciler.Done("All pods run version 1.2.3")
		}
		reconciler.Summarise(env, outcome)
		p = makePlan(o)
		if got := p.status.History[0]; got.Version != "1.2.3" || got.StoreImage != storeImage {
			t.Errorf("the history has %s with the store %q, want %q", got.Version, got.StoreImage, storeImage)
		}
		reconciler.Summarise(o.deployment, p.outcome)
		if got := stalledReason(o.deployment); got != reason {
			t.Errorf("store %q: stalled for %q, want %q", storeImage, got, reason)
		}
	}
}

// TestSizeChangesOutsideOfTheMaintenanceWindow: the store is installed at once, and the new version waits.
func TestSizeChangesOutsideOfTheMaintenanceWindow(t *testing.T) {
	env, o := dedicated("registry/store:v1.2.3", 0)
	o.deployment.Status.Rollout, o.window = nil, sundays()
	env.Spec.Image, env.Spec.StoreImage = run("1.2.3").Pinned(), ""
	if p := makePlan(o); p.run.Version != "1.2.3" || p.run.StoreImage != "registry/store:v1.2.3" {
		t.Errorf("production runs %s with the store %q", p.run.Version, p.run.StoreImage)
	}
}

// TestPausedRolloutContinuesOutsideOfTheMaintenanceWindow: a deployment is resumed after the window has closed.
// Production is not returned to the previous version until the next one.
func TestPausedRolloutContinuesOutsideOfTheMaintenanceWindow(t *testing.T) {
	w := newWorld()
	w.target, w.window = "1.2.3", true
	for range 3 {
		w.plan()
		w.environment()
	}
	w.target = "1.2.4"
	w.deployment.Status.Rollout = &v1alpha1.RolloutStatus{To: run("1.2.4")}
	w.production.Spec.Version, w.production.Spec.Image = "1.2.4", run("1.2.4").Pinned()
	w.deployment.Generation++
	if p := makePlan(w.observe()); p.run.Version != "1.2.4" || p.status.Rollout == nil || p.status.Rollout.StartTime == nil {
		t.Errorf("production runs %s, rollout %+v", p.run.Version, p.status.Rollout)
	}
}

// TestStoreDoesNotRejectACommit: while the store is unavailable for longer than the deadline, a new commit is served by
// all API pods. It is not rejected, because it would remain so when the store is available again.
func TestStoreDoesNotRejectACommit(t *testing.T) {
	w := newWorld()
	w.target, w.commit = "1.2.3", "c1"
	for range 3 {
		w.plan()
		w.environment()
	}
	w.commit = "c2"
	w.plan()
	env := w.production
	env.Status.Replicas, env.Status.UpdatedReplicas, env.Status.ReadyReplicas = 2, 2, 2
	reconciler.Summarise(env, reconciler.Stalled(v1alpha1.ReasonDeadlineExceeded, "store-router: 0 of 1 pods are up to date and ready"))
	if p := makePlan(w.observe()); p.status.FailedModel != nil || p.commit != "c2" {
		t.Errorf("commit %s, rejected %+v", p.commit, p.status.FailedModel)
	}
	env.Status.ReadyReplicas = 1
	if p := makePlan(w.observe()); p.status.FailedModel == nil || p.commit != "c1" {
		t.Errorf("commit %s, want that before the one that exceeds the deadline", p.commit)
	}
}

func TestMissingStoreImage(t *testing.T) {
	offered := []version.Channel{
		{Name: "edge", Releases: []version.Release{{Image: run("1.2.3").Image, StoreImage: "edge"}}},
		{Name: "latest", Releases: []version.Release{{Image: run("1.2.4").Image, StoreImage: "1.2.4"}, {Image: run("1.2.3").Image, StoreImage: "1.2.3"}}},
	}
	cases := map[string]struct {
		change func(*v1alpha1.Deployment)
		want   string
	}{
		"of the channel": {func(*v1alpha1.Deployment) {}, "1.2.3"},
		"Shared":         {func(d *v1alpha1.Deployment) { d.Spec.Size = v1alpha1.SizeShared }, ""},
		"not missing":    {func(d *v1alpha1.Deployment) { d.Status.History[0].StoreImage = "own" }, ""},
		"withdrawn":      {func(d *v1alpha1.Deployment) { d.Status.History[0].Image = "registry/cube:v1.2.2" }, ""},
		"first install":  {func(d *v1alpha1.Deployment) { d.Status.History = nil }, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, o := dedicated("", 0)
			tc.change(o.deployment)
			if got := missingStoreImage(o.deployment, offered); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
