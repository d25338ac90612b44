package releasechannel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
)

// channelOf returns a channel with versions, newest first, that stops one that fails on 2 of 3.
func channelOf(versions ...string) *v1alpha1.ReleaseChannel {
	c := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "latest"}}
	c.Spec.Rollout = &v1alpha1.ChannelRolloutPolicy{FailureThreshold: ptr.To(int32(2)), FirstDeployments: ptr.To(int32(3))}
	for _, v := range versions {
		c.Status.Versions = append(c.Status.Versions, v1alpha1.ChannelVersion{Version: v, Image: "cube:v" + v, Digest: "sha256:" + v})
	}
	return c
}

// followerOf returns a deployment that has run versions, newest first, and on which others failed.
func followerOf(i int, ran, failed []string) v1alpha1.Deployment {
	d := v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: fmt.Sprint("d", i)}}
	d.Spec.ReleaseChannel = "latest"
	at := metav1.NewTime(time.Unix(int64(1000+i), 0))
	for _, v := range ran {
		d.Status.History = append(d.Status.History, v1alpha1.VersionRun{Version: v, Image: "cube:v" + v, Digest: "sha256:" + v, CompletionTime: at})
	}
	for _, v := range failed {
		d.Status.Failures = append(d.Status.Failures, v1alpha1.FailedVersion{Version: v, Image: "cube:v" + v + "@sha256:" + v, Time: at})
	}
	return d
}

// fleetOf returns deployments that run 1.2.3, on the first n of which 1.2.4 has failed.
func fleetOf(size, n int) []v1alpha1.Deployment {
	var all []v1alpha1.Deployment
	for i := range size {
		var failed []string
		if i < n {
			failed = []string{"1.2.4"}
		}
		all = append(all, followerOf(i, []string{"1.2.3"}, failed))
	}
	return all
}

func verdict(c *v1alpha1.ReleaseChannel) []string {
	lines := []string{"proven " + c.Status.ProvenVersion + ", stopped " + c.Status.StoppedVersion}
	for _, r := range c.Status.Rollouts {
		lines = append(lines, fmt.Sprintf("%s %s %d of %d", r.Version, r.State, r.Failed, r.Tried))
	}
	for _, cond := range c.Status.Conditions {
		lines = append(lines, cond.Type+" "+cond.Reason+" "+cond.Message)
	}
	return lines
}

const stopMessage = "VersionStopped TooManyFailures Version 1.2.4 failed on 2 of the first 2 deployments that tried it; no other deployment is upgraded to it. " +
	"Release a newer version, or set spec.rollout.resumeVersion to 1.2.4"

func TestJudgeChannel(t *testing.T) {
	cases := map[string]struct {
		channel     *v1alpha1.ReleaseChannel
		deployments []v1alpha1.Deployment
		want        []string
	}{
		"no deployments":   {channelOf("1.2.3"), nil, []string{"proven , stopped "}},
		"all run it":       {channelOf("1.2.3"), fleetOf(4, 0), []string{"proven 1.2.3, stopped ", "1.2.3 Accepted 0 of 3"}},
		"one failure":      {channelOf("1.2.4", "1.2.3"), fleetOf(4, 1), []string{"proven 1.2.3, stopped ", "1.2.4 Candidate 1 of 1", "1.2.3 Accepted 0 of 3"}},
		"too many":         {channelOf("1.2.4", "1.2.3"), fleetOf(4, 2), []string{"proven 1.2.3, stopped 1.2.4", "1.2.4 Stopped 2 of 2", "1.2.3 Accepted 0 of 3", stopMessage}},
		"there is a newer": {channelOf("1.2.5", "1.2.4", "1.2.3"), fleetOf(4, 2), []string{"proven 1.2.3, stopped ", "1.2.4 Stopped 2 of 2", "1.2.3 Accepted 0 of 3"}},
		"withdrawn":        {channelOf("1.2.3"), fleetOf(4, 2), []string{"proven 1.2.3, stopped ", "1.2.3 Accepted 0 of 3"}},
		"one deployment":   {channelOf("1.2.3"), []v1alpha1.Deployment{followerOf(0, []string{"1.2.3"}, nil)}, []string{"proven 1.2.3, stopped ", "1.2.3 Candidate 0 of 1"}},
		"other content of the tag": {channelOf("1.2.3"), func() []v1alpha1.Deployment {
			d := followerOf(0, []string{"1.2.3"}, nil)
			d.Status.History[0].Digest = "sha256:other"
			return []v1alpha1.Deployment{d}
		}(), []string{"proven , stopped "}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(10) {
				c, all := tc.channel.DeepCopy(), slices.Clone(tc.deployments)
				rand.New(rand.NewPCG(seed, 3)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				judge(c, all)
				if diff := cmp.Diff(tc.want, verdict(c)); diff != "" {
					t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
				}
				again := c.DeepCopy()
				judge(again, all)
				if diff := cmp.Diff(c.Status, again.Status); diff != "" {
					t.Fatalf("a second time:\n%s", diff)
				}
			}
		})
	}
}

// TestVerdictsRemain when the deployments that they are based on are deleted, until the version is
// resumed; a resumed version remains accepted.
func TestVerdictsRemain(t *testing.T) {
	c := channelOf("1.2.4", "1.2.3")
	judge(c, fleetOf(4, 2))
	stopped := verdict(c)
	judge(c, nil)
	if diff := cmp.Diff(stopped, verdict(c)); diff != "" {
		t.Errorf("without deployments (-want +got):\n%s", diff)
	}
	c.Spec.Rollout.ResumeVersion = "1.2.3"
	judge(c, nil)
	if c.Status.StoppedVersion != "1.2.4" {
		t.Error("another version was resumed, and 1.2.4 too")
	}
	c.Spec.Rollout.ResumeVersion = "1.2.4"
	judge(c, fleetOf(4, 2))
	c.Spec.Rollout.ResumeVersion = ""
	judge(c, fleetOf(4, 4))
	want := []string{"proven 1.2.3, stopped ", "1.2.4 Accepted 2 of 2", "1.2.3 Accepted 0 of 3"}
	if diff := cmp.Diff(want, verdict(c)); diff != "" {
		t.Errorf("resumed (-want +got):\n%s", diff)
	}
}

// TestRolloutsWriteOnce: one write and one event when a version is stopped, none after that, and none
// by a controller that has just started.
func TestRolloutsWriteOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.ReleaseChannel{}).WithObjects(channelOf("1.2.4", "1.2.3")).
		WithIndex(&v1alpha1.Deployment{}, IndexChannel, func(o client.Object) []string { return []string{o.(*v1alpha1.Deployment).Spec.ReleaseChannel} })
	for _, d := range fleetOf(4, 2) {
		builder = builder.WithObjects(&d)
	}
	api, writes := builder.Build(), 0
	counted := interceptor.NewClient(api, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
	recorder := events.NewFakeRecorder(10)
	for range 3 {
		r := NewRollouts(kube.NewClient(counted, counted, "quoin-test"), recorder)
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "latest"}}); err != nil {
			t.Fatal(err)
		}
	}
	if writes != 1 || len(recorder.Events) != 1 || stoppedVersions.total() != 1 {
		t.Errorf("%d writes, %d events, %v stopped versions; want one of each", writes, len(recorder.Events), stoppedVersions.total())
	}
	want := "Warning VersionStopped Version 1.2.4 failed on 2 of the first 2 deployments that tried it; no other deployment is upgraded to it"
	if got := <-recorder.Events; got != want {
		t.Errorf("event %q", got)
	}
	if err := api.Delete(t.Context(), channelOf()); err != nil {
		t.Fatal(err)
	}
	if _, err := NewRollouts(kube.NewClient(api, api, "quoin-test"), recorder).Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "latest"}}); err != nil || stoppedVersions.total() != 0 {
		t.Errorf("after the deletion: %v stopped versions, %v", stoppedVersions.total(), err)
	}
}

// TestLargeFleetsAreCountedAtIntervals: results that follow one another are counted together; those of a small fleet at once.
func TestLargeFleetsAreCountedAtIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tc := range map[string]struct {
			size int
			want time.Duration
		}{
			"small": {largeFleet - 1, 0},
			"large": {largeFleet, largeFleet * countPause},
		} {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			channel, counts := channelOf("1.2.4", "1.2.3"), 0
			api := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(channel).WithObjects(channel).Build(), interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
					counts++
					list.(*v1alpha1.DeploymentList).Items = fleetOf(tc.size, 0)
					return nil
				},
			})
			r := NewRollouts(kube.NewClient(api, api, "quoin-test"), events.NewFakeRecorder(10))
			reconcile := func() time.Duration {
				result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(channel)})
				if err != nil {
					t.Fatal(err)
				}
				return result.RequeueAfter
			}
			reconcile()
			for range 3 {
				if got := reconcile(); got != tc.want {
					t.Errorf("%s: reconciled again after %s, want %s", name, got, tc.want)
				}
			}
			before := counts
			time.Sleep(tc.want)
			if reconcile(); counts != before+1 || tc.want > 0 && before != 1 {
				t.Errorf("%s: counted %d times at once, and %d times after the pause", name, before, counts-before)
			}
			if err := api.Delete(t.Context(), channel); err != nil {
				t.Fatal(err)
			}
			if reconcile(); len(r.next) != 0 {
				t.Errorf("%s: the pause of a channel that is deleted remains", name)
			}
		}
	})
}

// TestOnlyResultsAreCounted: the statuses of deployments change all the time, their results do not.
func TestOnlyResultsAreCounted(t *testing.T) {
	before := followerOf(0, []string{"1.2.3"}, nil)
	for name, tc := range map[string]struct {
		change func(d *v1alpha1.Deployment)
		want   bool
	}{
		"nothing":  {func(*v1alpha1.Deployment) {}, false},
		"replicas": {func(d *v1alpha1.Deployment) { d.Status.ReadyReplicas = 2 }, false},
		"rollout":  {func(d *v1alpha1.Deployment) { d.Status.Rollout = &v1alpha1.RolloutStatus{} }, false},
		"history":  {func(d *v1alpha1.Deployment) { d.Status.History[0].Version = "1.2.4" }, true},
		"failures": {func(d *v1alpha1.Deployment) {
			d.Status.Failures = followerOf(0, nil, []string{"1.2.4"}).Status.Failures
		}, true},
		"channel": {func(d *v1alpha1.Deployment) { d.Spec.ReleaseChannel = "stable" }, true},
	} {
		after := before.DeepCopy()
		tc.change(after)
		if got := resultsChanged.Update(event.UpdateEvent{ObjectOld: &before, ObjectNew: after}); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
