package deployment

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
)

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
			d := carrying("sales", "", "")
			d.Spec.ReleaseChannel = "latest"
			d.Status.History = []v1alpha1.VersionRun{run("1.2.3")}
			c := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "latest"}}
			c.Spec.ImageRepository = "registry/cube"
			head := run("1.2.4")
			c.Status.Versions = []v1alpha1.ChannelVersion{{Version: head.Version, Image: head.Image, Digest: head.Digest}}
			api := newAPI(t, acme(), c, d)
			k, clk := kube.NewClient(api, api, "quoin-test"), clocktesting.NewFakePassiveClock(time.Now())
			r := New(k, events.NewFakeRecorder(100), clk, Options{IDs: ids.New(k), Fleet: NewFleet(api, 1), Remotes: NewRemotes(api, nil, clk)})
			// after changes the spec at a time, and returns the status after a reconciliation.
			after := func(pass time.Duration, change func(*v1alpha1.DeploymentSpec)) v1alpha1.DeploymentStatus {
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
