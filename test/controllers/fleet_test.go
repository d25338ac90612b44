package controllers_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// newFleet returns a world with twelve deployments on 1.2.3. Its channel stops a version that fails
// on 3 of the first 5 deployments.
func newFleet(t *testing.T, seed uint64) *world {
	t.Helper()
	w := newWorld(t, seed)
	w.slots = 8 // more than may try a version
	w.restart()
	w.populate()
	change(w, w.channel(), func(c *v1alpha1.ReleaseChannel) {
		c.Spec.Rollout = &v1alpha1.ChannelRolloutPolicy{FailureThreshold: ptr.To(int32(3)), FirstDeployments: ptr.To(int32(5))}
	})
	for i := range 12 {
		w.create(w.deployment(fmt.Sprintf("d%02d", i)))
	}
	w.settle()
	w.expectVersions("1.2.3", 12)
	return w
}

// deployments returns the deployments of the world.
func (w *world) deployments() []*v1alpha1.Deployment {
	w.t.Helper()
	var all []*v1alpha1.Deployment
	for _, obj := range w.all(&v1alpha1.DeploymentList{}) {
		if d, ok := obj.(*v1alpha1.Deployment); ok {
			all = append(all, d)
		}
	}
	return all
}

// expectVersions checks that n deployments run a version.
func (w *world) expectVersions(version string, n int) {
	w.t.Helper()
	counts := map[string]int{}
	for _, d := range w.deployments() {
		counts[d.Status.CurrentVersion]++
	}
	if counts[version] != n {
		w.t.Errorf("versions that run: %v; want %d of %s", counts, n, version)
	}
}

// tried returns the number of deployments on which a version has failed or runs.
func (w *world) tried(version string) int {
	w.t.Helper()
	n := 0
	for _, d := range w.deployments() {
		failed := slices.ContainsFunc(d.Status.Failures, func(f v1alpha1.FailedVersion) bool { return f.Version == version })
		ran := slices.ContainsFunc(d.Status.History, func(r v1alpha1.VersionRun) bool { return r.Version == version })
		rolling := d.Status.Rollout != nil && d.Status.Rollout.StartTime != nil && d.Status.Rollout.To.Version == version
		if failed || ran || rolling {
			n++
		}
	}
	return n
}

// TestOutageDuringRollout: the controllers stop during the rollout of a version, for longer than its deadline,
// while its pods start or are not created yet. The version has not failed, and is rolled out.
func TestOutageDuringRollout(t *testing.T) {
	forEachSeed(t, []uint64{1, 2, 3, 4}, func(t *testing.T, seed uint64) {
		w := newFleet(t, seed)
		w.images.push("v1.2.4")
		for passes := 0; w.tried("1.2.4") == 0; passes++ {
			if passes == 10 {
				t.Fatal("no rollout has started")
			}
			w.pass()
		}
		w.clock.Step(time.Hour)
		w.restart()
		w.settle()
		w.expectVersions("1.2.4", 12)
		for _, d := range w.deployments() {
			if len(d.Status.Failures) > 0 {
				t.Errorf("%s: a version is counted as failed: %+v", d.Name, d.Status.Failures)
			}
		}
	})
}

// TestBrokenHeadStops: a broken version is rolled out to no more deployments than its channel allows.
// They are rolled back, and new deployments are installed with the previous version. A restart of the
// controllers writes nothing. The version can be pinned, and resumed; neither applies to later versions.
func TestBrokenHeadStops(t *testing.T) {
	forEachSeed(t, []uint64{1, 2}, func(t *testing.T, seed uint64) {
		w := newFleet(t, seed)
		w.images.push("v1.2.4-broken")
		w.settle()
		if n := w.tried("1.2.4-broken"); n < 3 || n > 5 {
			t.Errorf("%d deployments have tried the version, want 3 to 5", n)
		}
		channel := w.channel()
		state, _ := w.condition(channel, v1alpha1.ConditionVersionStopped)
		if state != "True TooManyFailures" || channel.Status.StoppedVersion != "1.2.4-broken" || channel.Status.ProvenVersion != "1.2.3" {
			t.Errorf("condition %s, stopped %q, proven %q", state, channel.Status.StoppedVersion, channel.Status.ProvenVersion)
		}
		for _, d := range w.deployments() {
			w.expectReady(d, "True VersionStopped", `Production runs 1.2.3; release channel "`+w.name+`" has stopped version 1.2.4-broken`)
		}
		w.restart()
		written := w.faults.written()
		w.settle()
		if n := w.faults.written() - written; n != 0 {
			t.Errorf("%d writes after a restart", n)
		}
		w.expectLaterVersions()
	})
}

// expectLaterVersions checks what happens after version 1.2.4-broken was stopped.
func (w *world) expectLaterVersions() {
	w.t.Helper()
	w.create(w.deployment("new"))
	w.settle()
	w.expectVersions("1.2.3", 13)

	w.repaired = true
	change(w, w.deployment("d03"), func(d *v1alpha1.Deployment) { d.Spec.ReleaseChannelVersion = "1.2.4-broken" })
	w.settle()
	w.expectVersions("1.2.4-broken", 1)

	change(w, w.channel(), func(c *v1alpha1.ReleaseChannel) { c.Spec.Rollout.ResumeVersion = "1.2.4-broken" })
	w.settle()
	w.expectVersions("1.2.4-broken", 13)

	w.repaired = false
	change(w, w.deployment("d03"), func(d *v1alpha1.Deployment) { d.Spec.ReleaseChannelVersion = "" })
	w.images.push("v1.2.5-broken")
	w.repaired = false
	w.settle()
	if n := w.tried("1.2.5-broken"); n < 3 || n > 5 {
		w.t.Errorf("%d deployments have tried the version after the resumed one, want 3 to 5", n)
	}
	w.images.push("v1.2.6")
	w.settle()
	w.expectVersions("1.2.6", 13)
}

// TestFirstInstallFallsBack to the proven version, when the head fails on it before the channel has
// stopped the head, and follows the channel from then on.
func TestFirstInstallFallsBack(t *testing.T) {
	w := newWorld(t, 1)
	w.populate()
	held := w.deployment("held")
	held.Spec.Hold = ptr.To(true)
	w.create(held)
	w.settle()
	w.images.push("v1.2.4-broken")
	w.settle()
	d := w.deployment("new")
	w.create(d)
	w.settle()
	w.expectReady(d, "False RolloutFailed", "rolled back to 1.2.3")
	if d.Status.CurrentVersion != "1.2.3" {
		t.Errorf("production runs %q", d.Status.CurrentVersion)
	}
	w.images.push("v1.2.5")
	w.settle()
	w.expectReady(d, "True Succeeded", "1.2.5")
}

// TestVersionsWaitForTheMaintenanceWindow: a new version reaches an account with a window in this window, and the pinned
// deployment at once; a wait writes nothing, also after a restart.
func TestVersionsWaitForTheMaintenanceWindow(t *testing.T) {
	w := newWorld(t, 5)
	w.slots = 2
	w.restart()
	w.populate()
	opens := w.clock.Now().UTC().Add(72 * time.Hour).Truncate(time.Minute)
	change(w, w.account(), func(a *v1alpha1.Account) {
		a.Spec.Settings = &v1alpha1.AccountSettings{MaintenanceWindow: &v1alpha1.MaintenanceWindow{
			Enabled: ptr.To(true), Day: v1alpha1.Weekday(opens.Weekday().String()), Time: opens.Format("15:04"),
		}}
	})
	w.create(w.deployment("one"))
	w.create(w.deployment("two"))
	w.settle()
	w.expectVersions("1.2.3", 2) // first installs do not wait

	w.images.push("v1.2.4")
	w.settle()
	w.expectVersions("1.2.3", 2)
	state, message := w.condition(w.deployment("one"), v1alpha1.ConditionReady)
	if want := "Production runs 1.2.3; version 1.2.4 waits for the maintenance window of the account at " + opens.Format(time.RFC3339); state != "True WaitingForMaintenanceWindow" || message != want {
		t.Errorf("%s: %s\nwant %s", state, message, want)
	}
	written := w.faults.written()
	w.restart()
	w.clock.Step(time.Hour)
	w.pass()
	if got := w.faults.written(); got != written {
		t.Errorf("%d writes while it waits: %v", got-written, w.faults.log[written:])
	}

	change(w, w.deployment("two"), func(d *v1alpha1.Deployment) { d.Spec.ReleaseChannelVersion = "1.2.4" })
	w.settle()
	w.expectVersions("1.2.4", 1)

	w.clock.SetTime(opens)
	w.settle()
	w.expectVersions("1.2.4", 2)
}
