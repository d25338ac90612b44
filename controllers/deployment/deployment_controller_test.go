package deployment

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// acme returns an account that has allocated 5 IDs of each kind.
func acme() *v1alpha1.Account {
	return &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: "acme", Annotations: map[string]string{v1alpha1.AnnotationIssuedIDs: "deployments=5,environments=5"}},
		Spec:       v1alpha1.AccountSpec{Namespace: "acme", Host: "acme.example.com"},
	}
}

// carrying returns a deployment that carries IDs.
func carrying(name, id, environment string) *v1alpha1.Deployment {
	d := &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name, UID: types.UID(name), Generation: 1, Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec:       v1alpha1.DeploymentSpec{ReleaseChannel: "none", Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}}},
	}
	if id != "" {
		d.Labels[v1alpha1.LabelID] = id
	}
	if environment != "" {
		d.Annotations[v1alpha1.AnnotationEnvironmentID] = environment
	}
	return d
}

// reconcileOnce reconciles a deployment and returns it.
func reconcileOnce(t *testing.T, api client.WithWatch, name string) *v1alpha1.Deployment {
	t.Helper()
	k := kube.NewClient(api, api, "quoin-test")
	clk := clocktesting.NewFakePassiveClock(time.Now())
	r := New(k, events.NewFakeRecorder(10), clk, Options{IDs: ids.New(k), Fleet: NewFleet(api, 1), Remotes: NewRemotes(api, nil, clk)})
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: keyOf(name)}); err != nil {
		t.Fatal(err)
	}
	d := &v1alpha1.Deployment{}
	if err := api.Get(t.Context(), keyOf(name), d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestIDsAreAllocatedOrKept: a deployment keeps the valid IDs that it carries.
func TestIDsAreAllocatedOrKept(t *testing.T) {
	cases := map[string]struct {
		id, environment         string
		wantID, wantEnvironment string
		ledger                  string
	}{
		"new":             {"", "", "6", "6", "deployments=6,environments=6"},
		"restored":        {"9", "4", "9", "4", "deployments=9,environments=5"},
		"restored partly": {"", "8", "6", "8", "deployments=6,environments=8"},
		"not a number":    {"abc", "x y", "6", "6", "deployments=6,environments=6"},
		"not canonical":   {"007", "+7", "6", "6", "deployments=6,environments=6"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, acme(), carrying("sales", tc.id, tc.environment))
			for range 2 {
				d := reconcileOnce(t, api, "sales")
				id, environment := d.Labels[v1alpha1.LabelID], d.Annotations[v1alpha1.AnnotationEnvironmentID]
				if id != tc.wantID || environment != tc.wantEnvironment || d.Status.ID != tc.wantID {
					t.Errorf("label %q, environment %q, status %q; want %q and %q", id, environment, d.Status.ID, tc.wantID, tc.wantEnvironment)
				}
			}
			if got := apitest.IssuedIDs(t, api, "acme"); got != tc.ledger {
				t.Errorf("issued IDs are %q, want %q", got, tc.ledger)
			}
		})
	}
}

// TestReplacedDeploymentKeepsItsIDs: kubectl replace removes the label and the annotation, and keeps the status. The ID of
// another deployment is rejected.
func TestReplacedDeploymentKeepsItsIDs(t *testing.T) {
	replaced, other := carrying("sales", "", ""), carrying("hr", "2", "2")
	replaced.Status.ID, other.Status.ID = "3", "2"
	env := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "acme", Name: v1alpha1.ProductionName("sales"), Labels: map[string]string{v1alpha1.LabelID: "4"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(replaced, v1alpha1.GroupVersion.WithKind("Deployment"))},
	}}
	api := newAPI(t, acme(), replaced, other, env)
	d := reconcileOnce(t, api, "sales")
	if d.Labels[v1alpha1.LabelID] != "3" || d.Annotations[v1alpha1.AnnotationEnvironmentID] != "4" || d.Status.ID != "3" {
		t.Errorf("label %q, environment %q, status %q", d.Labels[v1alpha1.LabelID], d.Annotations[v1alpha1.AnnotationEnvironmentID], d.Status.ID)
	}
	if got := apitest.IssuedIDs(t, api, "acme"); got != "deployments=5,environments=5" {
		t.Errorf("issued IDs are %q", got)
	}

	copied := carrying("sales", "", "")
	copied.Status.ID = "2"
	d = reconcileOnce(t, newAPI(t, acme(), copied, other.DeepCopy()), "sales")
	c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Reason != v1alpha1.ReasonInvalidSpec || d.Labels[v1alpha1.LabelID] != "" {
		t.Errorf("the ID of another deployment: condition %+v, label %q", c, d.Labels[v1alpha1.LabelID])
	}
}

func TestCopiedIDsAreRejected(t *testing.T) {
	first := carrying("sales", "3", "3")
	first.Status.ID = "3"
	for name, copied := range map[string]*v1alpha1.Deployment{
		"both": carrying("copy", "3", "3"), "label": carrying("copy", "3", ""), "annotation": carrying("copy", "", "3"),
	} {
		t.Run(name, func(t *testing.T) { expectCopyRejected(t, newAPI(t, acme(), first.DeepCopy(), copied)) })
	}
}

func expectCopyRejected(t *testing.T, api client.WithWatch) {
	t.Helper()
	d := reconcileOnce(t, api, "copy")
	c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Reason != v1alpha1.ReasonInvalidSpec || !strings.Contains(c.Message, `has an ID of deployment "sales"; remove both`) || d.Status.ID != "" {
		t.Errorf("condition %+v, ID %q", c, d.Status.ID)
	}
}

// TestMissingStoreImageIsNamed: a Dedicated deployment needs an image of the store. The message says
// what is missing: the channel's repository, or the tag of one version in it.
func TestMissingStoreImageIsNamed(t *testing.T) {
	cases := map[string]struct {
		repository, image string
		want              string
	}{
		"no repository": {"", "", `spec.size: Dedicated needs a store image; set spec.storeImageRepository of release channel "latest"`},
		"no tag": {"registry/store", "", `spec.size: Dedicated needs a store image, and no image registry/store:v1.2.4 is known; ` +
			`push the tag, or choose a version that has one`},
		"both": {"registry/store", "registry/store:v1.2.4@sha256:1", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := carrying("sales", "", "")
			d.Spec.ReleaseChannel, d.Spec.Size = "latest", v1alpha1.SizeDedicated
			c := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "latest"}}
			c.Spec.ImageRepository, c.Spec.StoreImageRepository = "registry/cube", tc.repository
			c.Status.Versions = []v1alpha1.ChannelVersion{{Version: "1.2.4", Image: "registry/cube:v1.2.4", StoreImage: tc.image}}
			got := reconcileOnce(t, newAPI(t, acme(), d, c), "sales")
			stalled := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionStalled)
			if tc.want == "" {
				if stalled != nil {
					t.Errorf("stalled: %+v", stalled)
				}
				return
			}
			if stalled == nil || stalled.Reason != "StoreImageMissing" || stalled.Message != tc.want {
				t.Errorf("stalled: %+v; want %s", stalled, tc.want)
			}
		})
	}
}

// outdated returns a deployment that runs 1.2.3, and its channel, whose newest version is 1.2.4.
func outdated() (*v1alpha1.Deployment, *v1alpha1.ReleaseChannel) {
	d := carrying("sales", "", "")
	d.Spec.ReleaseChannel = "latest"
	d.Status.History = []v1alpha1.VersionRun{run("1.2.3")}
	c := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "latest"}}
	c.Spec.ImageRepository = "registry/cube"
	head := run("1.2.4")
	c.Status.Versions = []v1alpha1.ChannelVersion{{Version: head.Version, Image: head.Image, Digest: head.Digest}}
	return d, c
}

// changes returns a function that changes the spec of an outdated deployment after a time, reconciles it, and returns its status.
func changes(t *testing.T) func(time.Duration, func(*v1alpha1.DeploymentSpec)) v1alpha1.DeploymentStatus {
	t.Helper()
	d, c := outdated()
	api := newAPI(t, acme(), c, d)
	k, clk := kube.NewClient(api, api, "quoin-test"), clocktesting.NewFakePassiveClock(time.Now())
	r := New(k, events.NewFakeRecorder(100), clk, Options{IDs: ids.New(k), Fleet: NewFleet(api, 1), Remotes: NewRemotes(api, nil, clk)})
	return func(pass time.Duration, change func(*v1alpha1.DeploymentSpec)) v1alpha1.DeploymentStatus {
		t.Helper()
		clk.SetTime(clk.Now().Add(pass))
		got := &v1alpha1.Deployment{}
		if err := api.Get(t.Context(), keyOf("sales"), got); err != nil {
			t.Fatal(err)
		}
		change(&got.Spec)
		got.Generation++
		if err := api.Update(t.Context(), got); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: keyOf("sales")}); err != nil {
			t.Fatal(err)
		}
		if err := api.Get(t.Context(), keyOf("sales"), got); err != nil {
			t.Fatal(err)
		}
		return got.Status
	}
}

// TestPausedRolloutDoesNotFail: during a rollout, a deployment is suspended, or its spec has a mistake, for
// longer than the deadline. The version has not failed.
func TestPausedRolloutDoesNotFail(t *testing.T) {
	cases := map[string]struct {
		pause, resume func(*v1alpha1.DeploymentSpec)
	}{
		"suspended": {
			func(s *v1alpha1.DeploymentSpec) { s.Suspend = ptr.To(true) },
			func(s *v1alpha1.DeploymentSpec) { s.Suspend = nil },
		},
		"unknown version": {
			func(s *v1alpha1.DeploymentSpec) { s.ReleaseChannelVersion = "9.9.9" },
			func(s *v1alpha1.DeploymentSpec) { s.ReleaseChannelVersion = "" },
		},
		"unknown channel": {
			func(s *v1alpha1.DeploymentSpec) { s.ReleaseChannel = "typo" },
			func(s *v1alpha1.DeploymentSpec) { s.ReleaseChannel = "latest" },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			after := changes(t)
			if started := after(0, func(*v1alpha1.DeploymentSpec) {}); started.Rollout == nil || started.Rollout.StartTime == nil {
				t.Fatalf("the rollout has not started: %+v", started)
			}
			after(time.Minute, tc.pause)
			resumed := after(time.Hour, tc.resume)
			if resumed.Failed != nil || len(resumed.Failures) > 0 {
				t.Errorf("counted as failed: %+v", resumed.Failures)
			}
			if resumed.Rollout == nil || resumed.Rollout.To.Version != "1.2.4" || resumed.Rollout.StartTime == nil {
				t.Errorf("the rollout does not continue: %+v", resumed.Rollout)
			}
			if late := after(time.Hour, func(*v1alpha1.DeploymentSpec) {}); late.Failed == nil {
				t.Error("the deadline does not apply after the pause")
			}
		})
	}
}

// TestRequestsAreHandledWhileARolloutWaits: a client waits for the status to show that its reconcile request is
// handled. That a deployment waits for a rollout slot must not delay it.
func TestRequestsAreHandledWhileARolloutWaits(t *testing.T) {
	d := carrying("sales", "", "")
	d.Spec.ReleaseChannel = "latest"
	d.Status.History = []v1alpha1.VersionRun{run("1.2.3")}
	c := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "latest"}}
	c.Spec.ImageRepository = "registry/cube"
	release := func(version string) v1alpha1.ChannelVersion {
		return v1alpha1.ChannelVersion{Version: version, Image: run(version).Image, Digest: run(version).Digest}
	}
	c.Status.Versions = []v1alpha1.ChannelVersion{release("1.2.3")}
	env := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: v1alpha1.ProductionName("sales")}}
	env.Spec.Image, env.Spec.DeploymentGeneration = run("1.2.3").Pinned(), 1
	env.Status.Image = env.Spec.Image
	reconciler.Summarise(env, reconciler.Done("All pods run version 1.2.3"))
	api := newAPI(t, acme(), c, d, env)
	k, clk := kube.NewClient(api, api, "quoin-test"), clocktesting.NewFakePassiveClock(time.Now())
	fleet := NewFleet(api, 1)
	r := New(k, events.NewFakeRecorder(100), clk, Options{IDs: ids.New(k), Fleet: fleet, Remotes: NewRemotes(api, nil, clk)})
	reconcile := func() *v1alpha1.Deployment {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: keyOf("sales")}); err != nil {
			t.Fatal(err)
		}
		got := &v1alpha1.Deployment{}
		if err := api.Get(t.Context(), keyOf("sales"), got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := reconcile(); got.Status.ObservedGeneration != 1 {
		t.Fatalf("is not Ready: %+v", got.Status.Conditions)
	}

	if fleet.AcquireSlot(t.Context(), keyOf("other"), slotOf("")) != "" {
		t.Fatal("no slot for the other deployment")
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		t.Fatal(err)
	}
	c.Status.Versions = []v1alpha1.ChannelVersion{release("1.2.4"), release("1.2.3")}
	if err := api.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	got := reconcile()
	if got.Status.TargetVersion != "1.2.3" {
		t.Errorf("the status shows at once that %s waits", got.Status.TargetVersion)
	}
	metav1.SetMetaDataAnnotation(&got.ObjectMeta, v1alpha1.AnnotationReconcile, "now")
	if err := api.Update(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	if got = reconcile(); got.Status.LastHandledReconcileAt != "now" || got.Status.CurrentVersion != "1.2.3" {
		t.Errorf("handled %q, runs %s", got.Status.LastHandledReconcileAt, got.Status.CurrentVersion)
	}
}

// TestOnlyWaits: a new commit is applied, and another change of the status is written, while a rollout waits.
func TestOnlyWaits(t *testing.T) {
	cases := map[string]struct {
		change func(*observation)
		want   bool
	}{
		"nothing else":  {func(*observation) {}, true},
		"commit":        {func(o *observation) { o.commit = "c2" }, false},
		"status":        {func(o *observation) { o.deployment.Status.LastHandledReconcileAt = "now" }, false},
		"no production": {func(o *observation) { o.production = nil }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.target, w.commit = "1.2.3", "c1"
			for range 3 {
				w.plan()
				w.environment()
			}
			initial := w.deployment.DeepCopy()
			w.target = "1.2.4"
			o := w.observe()
			tc.change(&o)
			if got := onlyWaits(initial, o, waitForSlot(o, noSlot)); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
