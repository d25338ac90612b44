package metrics

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// deployment returns a deployment of channel latest with a condition Ready, unless the reason is empty.
func deployment(name string, ready metav1.ConditionStatus, reason string) *v1alpha1.Deployment {
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name, CreationTimestamp: metav1.NewTime(start)}}
	d.Spec.ReleaseChannel = "latest"
	runs(d, "1.2.3")
	if reason != "" {
		d.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready, Reason: reason, LastTransitionTime: metav1.NewTime(start.Add(time.Minute))}}
	}
	return d
}

// runs makes production run a version of the channel latest; none if it is empty.
func runs(d *v1alpha1.Deployment, version string) {
	d.Status.History = []v1alpha1.VersionRun{{Version: version, ReleaseChannel: "latest", Image: "cube:v" + version}}
}

// expect compares series of a metric, without its description.
func expect(t *testing.T, o *Objects, name string, want ...string) {
	t.Helper()
	for i, line := range want {
		want[i] = name + line + "\n"
	}
	text := ""
	if len(want) > 0 {
		text = fmt.Sprintf("# HELP %s %s\n# TYPE %s gauge\n%s", name, help[name], name, strings.Join(want, ""))
	}
	if err := testutil.CollectAndCompare(o, strings.NewReader(text), name); err != nil {
		t.Error(err)
	}
}

const (
	objectsMetric  = "quoin_objects"
	notReadyMetric = "quoin_object_not_ready_since_timestamp_seconds"
	omittedMetric  = "quoin_objects_not_ready_omitted"
	channelMetric  = "quoin_releasechannel_deployments"
	lagMetric      = "quoin_releasechannel_behind_since_timestamp_seconds"
)

// help are the descriptions of the metrics, from their Descs.
var help = func() map[string]string {
	texts := map[string]string{}
	for _, d := range []fmt.Stringer{objectsDesc, notReadyDesc, omittedDesc, runningDesc, lagDesc} {
		var name, text string
		if _, err := fmt.Sscanf(d.String(), "Desc{fqName: %q, help: %q", &name, &text); err != nil {
			panic(err)
		}
		texts[name] = text
	}
	return texts
}()

// TestObjectsFollowEvents: objects are counted by their state, those that are not ready have a series of their own, and none
// is left after they are ready or deleted.
func TestObjectsFollowEvents(t *testing.T) {
	o := newObjects()
	h := o.handler("Deployment")
	created, waiting := deployment("sales", "", ""), deployment("sales", metav1.ConditionUnknown, v1alpha1.ReasonProgressing)
	ready, stalled := deployment("sales", metav1.ConditionTrue, v1alpha1.ReasonSucceeded), deployment("sales", metav1.ConditionFalse, v1alpha1.ReasonModelNotFound)

	h.OnAdd(created, true)
	expect(t, o, objectsMetric, `{kind="Deployment",ready="Unknown",reason="NotReconciled"} 1`)
	expect(t, o, notReadyMetric, fmt.Sprintf(`{kind="Deployment",name="sales",namespace="acme",ready="Unknown",reason="NotReconciled"} %d`, start.Unix()))

	h.OnUpdate(created, waiting)
	h.OnAdd(deployment("other", metav1.ConditionTrue, v1alpha1.ReasonSucceeded), false)
	expect(t, o, objectsMetric, `{kind="Deployment",ready="True",reason="Succeeded"} 1`, `{kind="Deployment",ready="Unknown",reason="Progressing"} 1`)

	h.OnUpdate(waiting, stalled)
	expect(t, o, notReadyMetric, fmt.Sprintf(`{kind="Deployment",name="sales",namespace="acme",ready="False",reason="ModelNotFound"} %d`, start.Add(time.Minute).Unix()))

	h.OnUpdate(stalled, ready)
	expect(t, o, objectsMetric, `{kind="Deployment",ready="True",reason="Succeeded"} 2`)
	expect(t, o, notReadyMetric)
	expect(t, o, omittedMetric, ` 0`)

	h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "acme/sales", Obj: ready})
	h.OnDelete(deployment("other", metav1.ConditionTrue, v1alpha1.ReasonSucceeded))
	expect(t, o, objectsMetric)
	if len(o.counts) != 0 || len(o.notReady) != 0 || len(o.fleet.running) != 0 {
		t.Errorf("after the deletion: %v, %v, %v", o.counts, o.notReady, o.fleet.running)
	}
}

// TestUsersHaveNoSeriesOfTheirOwn: names of users are not exported.
func TestUsersHaveNoSeriesOfTheirOwn(t *testing.T) {
	o := newObjects()
	user := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "jane.doe"}}
	o.handler("ScimUser").OnAdd(user, true)
	expect(t, o, objectsMetric, `{kind="ScimUser",ready="Unknown",reason="NotReconciled"} 1`)
	expect(t, o, notReadyMetric)
}

// TestRunsHaveNoSeriesOfTheirOwn: a sync that has failed is at its end and does not become ready.
func TestRunsHaveNoSeriesOfTheirOwn(t *testing.T) {
	o := newObjects()
	run := &v1alpha1.DbtSync{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "warehouse-1"}}
	run.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDbtSyncFailed, LastTransitionTime: metav1.NewTime(start)}}
	o.handler("DbtSync").OnAdd(run, true)
	expect(t, o, objectsMetric, `{kind="DbtSync",ready="False",reason="DbtSyncFailed"} 1`)
	expect(t, o, notReadyMetric)
}

// TestSeriesOfObjectsAreLimited: of 10,000 deployments that are not ready, the 1,000 that have been so for the longest time
// have a series, whatever the order of the scrapes.
func TestSeriesOfObjectsAreLimited(t *testing.T) {
	o := newObjects()
	h := o.handler("Deployment")
	for i := range 10_000 {
		d := deployment(fmt.Sprintf("d%d", i), metav1.ConditionFalse, v1alpha1.ReasonGitFailed)
		d.Status.Conditions[0].LastTransitionTime = metav1.NewTime(start.Add(time.Duration(10_000-i) * time.Second))
		h.OnAdd(d, true)
	}
	expect(t, o, objectsMetric, `{kind="Deployment",ready="False",reason="GitFailed"} 10000`)
	expect(t, o, omittedMetric, ` 9000`)
	if n := testutil.CollectAndCount(o, notReadyMetric); n != maxNotReady {
		t.Errorf("%d series, want %d", n, maxNotReady)
	}
	for _, k := range o.longestNotReady() {
		if since := o.notReady[k].since; since.After(start.Add(maxNotReady * time.Second)) {
			t.Errorf("%s, not ready since %s, has a series", k.name, since)
		}
	}
	if n := testutil.CollectAndCount(o); n > maxNotReady+10 {
		t.Errorf("a scrape returns %d series", n)
	}
}

// TestChannelLag: deployments are compared with the newest version that is not stopped; the lag begins when the first version
// was listed that a deployment does not run.
func TestChannelLag(t *testing.T) {
	seen := func(version string, hours int) v1alpha1.ChannelVersion {
		return v1alpha1.ChannelVersion{Version: version, FirstSeen: metav1.NewTime(start.Add(time.Duration(hours) * time.Hour))}
	}
	channel := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "latest"}}
	channel.Status.Versions = []v1alpha1.ChannelVersion{seen("1.2.6", 4), seen("1.2.5", 3), seen("1.2.4", 2), seen("1.2.3", 1)}
	channel.Status.Rollouts = []v1alpha1.VersionRollout{{Version: "1.2.6", State: v1alpha1.VersionStopped}}
	o := newObjects()
	o.handler("ReleaseChannel").OnAdd(channel, true)
	deployments := o.handler("Deployment")
	add := func(name, version string, change func(*v1alpha1.Deployment)) *v1alpha1.Deployment {
		d := deployment(name, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
		runs(d, version)
		if change != nil {
			change(d)
		}
		deployments.OnAdd(d, true)
		return d
	}
	none := func(*v1alpha1.Deployment) {}
	add("current", "1.2.5", none)
	old := add("old", "1.2.3", none)
	add("newer", "1.2.4", func(d *v1alpha1.Deployment) {
		d.Status.Rollout = &v1alpha1.RolloutStatus{StartTime: &metav1.Time{Time: start}}
	})
	add("held", "1.2.3", func(d *v1alpha1.Deployment) { d.Spec.Hold = ptr.To(true) })
	add("pinned", "1.1.0", func(d *v1alpha1.Deployment) { d.Spec.ReleaseChannelVersion = "cube:v1.1.0" })
	add("new", "", func(d *v1alpha1.Deployment) { d.Status.Rollout = &v1alpha1.RolloutStatus{} })
	expect(t, o, channelMetric,
		`{channel="latest",state="behind"} 2`, `{channel="latest",state="current"} 1`, `{channel="latest",state="held"} 2`, `{channel="latest",state="installing"} 1`)
	expect(t, o, lagMetric, fmt.Sprintf(`{channel="latest"} %d`, start.Add(2*time.Hour).Unix()))

	deployments.OnDelete(old)
	expect(t, o, lagMetric, fmt.Sprintf(`{channel="latest"} %d`, start.Add(3*time.Hour).Unix()))
	resumed := channel.DeepCopy()
	resumed.Status.Versions = resumed.Status.Versions[2:]
	o.handler("ReleaseChannel").OnUpdate(channel, resumed)
	expect(t, o, lagMetric, fmt.Sprintf(`{channel="latest"} %d`, start.Add(time.Hour).Unix())) // 1.2.5 is no longer listed
}

// TestDeploymentsThatAreNotDueAreNotBehind: a deployment whose upgrade policy allows no newer version, that waits for the
// maintenance window of its account, or that keeps a stopped version is not behind: it would be so for days or forever.
func TestDeploymentsThatAreNotDueAreNotBehind(t *testing.T) {
	seen := func(version string, hours int) v1alpha1.ChannelVersion {
		return v1alpha1.ChannelVersion{Version: version, FirstSeen: metav1.NewTime(start.Add(time.Duration(hours) * time.Hour))}
	}
	channel := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "latest"}}
	channel.Status.Versions = []v1alpha1.ChannelVersion{seen("2.0.1", 6), seen("2.0.0", 5), seen("1.3.0", 4), seen("1.2.4", 3), seen("1.2.3", 1)}
	channel.Status.Rollouts = []v1alpha1.VersionRollout{{Version: "2.0.1", State: v1alpha1.VersionStopped}}
	const held, behind = "held", "behind"
	for name, test := range map[string]struct {
		version string
		change  func(*v1alpha1.Deployment)
		state   string
		since   int // hours; for deployments that are behind
	}{
		"no policy":                 {"1.3.0", func(*v1alpha1.Deployment) {}, behind, 5},
		"minor":                     {"1.3.0", func(d *v1alpha1.Deployment) { d.Spec.UpgradePolicy = v1alpha1.UpgradeMinor }, held, 0},
		"minor, not the newest":     {"1.2.4", func(d *v1alpha1.Deployment) { d.Spec.UpgradePolicy = v1alpha1.UpgradeMinor }, behind, 4},
		"patch":                     {"1.2.4", func(d *v1alpha1.Deployment) { d.Spec.UpgradePolicy = v1alpha1.UpgradePatch }, held, 0},
		"patch, not the newest":     {"1.2.3", func(d *v1alpha1.Deployment) { d.Spec.UpgradePolicy = v1alpha1.UpgradePatch }, behind, 3},
		"patch, no longer listed":   {"1.1.0", func(d *v1alpha1.Deployment) { d.Spec.UpgradePolicy = v1alpha1.UpgradePatch }, held, 0},
		"patch, newer is withdrawn": {"2.1.0", func(d *v1alpha1.Deployment) { d.Spec.UpgradePolicy = v1alpha1.UpgradePatch }, behind, 1},
		"patch, another channel": {"1.2.4", func(d *v1alpha1.Deployment) {
			d.Spec.UpgradePolicy = v1alpha1.UpgradePatch
			d.Status.History = []v1alpha1.VersionRun{{Version: "1.2.4", ReleaseChannel: "stable"}}
		}, behind, 4},
		"maintenance window": {"1.2.3", func(d *v1alpha1.Deployment) { d.Status.Conditions[0].Reason = v1alpha1.ReasonWaitingForWindow }, held, 0},
		"stopped version":    {"2.0.1", func(*v1alpha1.Deployment) {}, "current", 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := newObjects()
			o.handler("ReleaseChannel").OnAdd(channel, true)
			d := deployment("sales", metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
			runs(d, test.version)
			test.change(d)
			o.handler("Deployment").OnAdd(d, true)
			counts := map[string]int{behind: 0, "current": 0}
			counts[test.state]++
			var want []string
			for _, state := range slices.Sorted(maps.Keys(counts)) {
				want = append(want, fmt.Sprintf(`{channel="latest",state=%q} %d`, state, counts[state]))
			}
			expect(t, o, channelMetric, want...)
			if test.state != behind {
				expect(t, o, lagMetric)
				return
			}
			expect(t, o, lagMetric, fmt.Sprintf(`{channel="latest"} %d`, start.Add(time.Duration(test.since)*time.Hour).Unix()))
		})
	}
}
