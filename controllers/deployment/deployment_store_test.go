package deployment

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/version"
)

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
