package edit

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/channels"
	"github.com/quoin-dev/quoin/internal/version"
)

const repository = "registry.example.com/cube"

func run(text string) v1alpha1.VersionRun {
	return v1alpha1.VersionRun{Version: text, ReleaseChannel: "stable", Image: repository + ":v" + text, Digest: "sha256:" + text}
}

// deployment returns a deployment of the channel stable that has run versions, newest first.
func deployment(name string, ran ...string) *v1alpha1.Deployment {
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}}
	d.Spec.ReleaseChannel = "stable"
	for _, text := range ran {
		d.Status.History = append(d.Status.History, run(text))
	}
	if len(ran) > 0 {
		d.Status.CurrentVersion, d.Status.ReleaseChannelVersion = ran[0], repository+":v"+ran[0]
		d.Status.TargetVersion = ran[0]
	}
	return d
}

func channel(versions ...string) *v1alpha1.ReleaseChannel {
	c := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "stable"}}
	c.Spec.ImageRepository = repository
	for _, text := range versions {
		c.Status.Versions = append(c.Status.Versions, v1alpha1.ChannelVersion{Version: text, Image: repository + ":v" + text, Digest: "sha256:" + text})
	}
	if len(versions) > 0 {
		c.Status.LatestVersion = versions[0]
	}
	return c
}

// TestDecisions: what a change of the spec makes the controller decide.
func TestDecisions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *v1alpha1.Deployment)
		target string
		moves  bool
	}{
		"nothing":          {func(*testing.T, *v1alpha1.Deployment) {}, "1.2.4", true},
		"pin":              {func(_ *testing.T, d *v1alpha1.Deployment) { Pin(d, "v1.2.2", false) }, "1.2.2", true},
		"pin until newer":  {func(_ *testing.T, d *v1alpha1.Deployment) { Pin(d, "1.2.3", true) }, "1.2.3", false},
		"hold":             {func(_ *testing.T, d *v1alpha1.Deployment) { Hold(d) }, "1.2.3", false},
		"follow after pin": {func(_ *testing.T, d *v1alpha1.Deployment) { Pin(d, "1.2.2", false); Follow(d, "") }, "1.2.4", true},
		"rollback":         {func(t *testing.T, d *v1alpha1.Deployment) { rollback(t, d, "", "1.2.1") }, "1.2.1", true},
		"rollback to":      {func(t *testing.T, d *v1alpha1.Deployment) { rollback(t, d, "v1.2.0", "1.2.0") }, "1.2.0", true},
		"suspended":        {func(_ *testing.T, d *v1alpha1.Deployment) { d.Spec.Suspend = ptr.To(true) }, "1.2.4", false},
		"failed here": {func(_ *testing.T, d *v1alpha1.Deployment) {
			d.Status.Failed = &v1alpha1.FailedRollout{Version: run("1.2.4")}
		}, "1.2.4", false},
		"pin overtaken and held": {func(_ *testing.T, d *v1alpha1.Deployment) { Pin(d, "1.2.1", true); Hold(d) }, "1.2.3", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := deployment("sales", "1.2.3", "1.2.3", "1.2.1", "1.2.0")
			c.change(t, d)
			o, err := Decide(d, []version.Channel{channels.From(channel("1.2.4", "1.2.3", "1.2.2"))}, Runs([]v1alpha1.Deployment{*d}))
			if err != nil || o.Target != c.target || o.Moves != c.moves || o.Why == "" {
				t.Errorf("%+v, %v; want %s, moves %v", o, err, c.target, c.moves)
			}
		})
	}
}

func rollback(t *testing.T, d *v1alpha1.Deployment, to, want string) {
	t.Helper()
	if got, err := Rollback(d, to); err != nil || got != want {
		t.Errorf("rollback to %q: %q, %v; want %q", to, got, err, want)
	}
}

func TestRollbackRefused(t *testing.T) {
	for name, c := range map[string]struct {
		d    *v1alpha1.Deployment
		to   string
		want string
	}{
		"nothing has run": {deployment("a"), "", "has not run a version yet"},
		"one version":     {deployment("a", "1.2.3"), "", "has run 1.2.3 only"},
		"another version": {deployment("a", "1.2.3", "1.2.2"), "9.9.9", `has not run "9.9.9"; it has run 1.2.3, 1.2.2`},
	} {
		before := c.d.DeepCopy()
		if _, err := Rollback(c.d, c.to); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(before, c.d); diff != "" {
			t.Errorf("%s: changed: %s", name, diff)
		}
	}
}

func TestUnknownPinIsAnError(t *testing.T) {
	d := deployment("a", "1.2.3")
	Pin(d, "9.9.9", false)
	if _, err := Decide(d, []version.Channel{channels.From(channel("1.2.3"))}, nil); err == nil || !strings.Contains(err.Error(), "available: 1.2.3") {
		t.Errorf("%v", err)
	}
}

func TestRetryIsANewValue(t *testing.T) {
	d := deployment("a")
	Retry(d, time.Unix(1, 5))
	if got := d.Annotations[v1alpha1.AnnotationRetry]; got != "1970-01-01T00:00:01.000000005Z" {
		t.Error(got)
	}
}

func TestPromote(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.ReleaseChannel)
		what   string
		err    string
		check  func(*v1alpha1.ReleaseChannel) bool
	}{
		"offered": {func(c *v1alpha1.ReleaseChannel) { *c = *channel("1.2.4") }, "offers 1.2.4 already", "", func(c *v1alpha1.ReleaseChannel) bool {
			return c.Spec.Rollout == nil && c.Spec.Versions == nil
		}},
		"stopped": {func(c *v1alpha1.ReleaseChannel) {
			*c = *channel("1.2.4")
			c.Status.Rollouts = []v1alpha1.VersionRollout{{Version: "1.2.4", State: v1alpha1.VersionStopped}}
		}, "resumes the stopped version 1.2.4", "", func(c *v1alpha1.ReleaseChannel) bool { return c.Spec.Rollout.ResumeVersion == "1.2.4" }},
		"listed": {func(c *v1alpha1.ReleaseChannel) { c.Spec.Versions = []v1alpha1.ListedVersion{{Version: "1.2.3"}} }, "adds 1.2.4 to spec.versions", "", func(c *v1alpha1.ReleaseChannel) bool {
			return len(c.Spec.Versions) == 2 && c.Spec.Versions[1] == v1alpha1.ListedVersion{Version: "1.2.4", Digest: "sha256:1.2.4"}
		}},
		"listed already": {func(c *v1alpha1.ReleaseChannel) { c.Spec.Versions = []v1alpha1.ListedVersion{{Version: "1.2.4"}} }, "offers 1.2.4 already", "", func(c *v1alpha1.ReleaseChannel) bool {
			return len(c.Spec.Versions) == 1 && len(c.Status.Versions) == 2
		}},
		"range": {func(c *v1alpha1.ReleaseChannel) { c.Spec.Policy = &v1alpha1.VersionPolicy{Range: "<1.2"} }, "", `with the range "<1.2"`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			edited := channel("1.2.3")
			c.change(edited)
			edge := *channel("1.2.4")
			edge.Name = "edge"
			v, _ := version.Parse("1.2.4")
			what, err := Promote(edited, v, []v1alpha1.ReleaseChannel{edge})
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %q", err, c.err)
				}
			case err != nil || what != c.what || !c.check(edited):
				t.Errorf("%q, %v: %+v", what, err, edited.Spec)
			}
		})
	}
}

// TestMoves: the deployments that follow the channel move; those that hold, are suspended or follow
// another channel do not.
func TestMoves(t *testing.T) {
	held, patch, other, pinned := deployment("held", "1.2.3"), deployment("patch", "1.1.0"), deployment("other", "1.2.3"), deployment("pinned", "1.2.3")
	Hold(held)
	patch.Spec.UpgradePolicy = v1alpha1.UpgradePatch
	other.Spec.ReleaseChannel = "edge"
	Pin(pinned, "7.7.7", false)
	var got []string
	for _, m := range Moves(channel("1.2.4", "1.2.3"), nil, []v1alpha1.Deployment{*held, *patch, *other, *pinned, *deployment("follows", "1.2.3"), *deployment("new")}) {
		got = append(got, strings.Join([]string{m.Name, m.Current, m.Target, map[bool]string{true: "moves", false: "stays"}[m.Moves]}, " "))
	}
	want := []string{"follows 1.2.3 1.2.4 moves", "new  1.2.4 moves", "held 1.2.3 1.2.3 stays", "patch 1.1.0 1.1.0 stays", "pinned 1.2.3  stays"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestVersions(t *testing.T) {
	c := channel("1.2.4", "1.2.3")
	c.Status.Rollouts = []v1alpha1.VersionRollout{{Version: "1.2.4", State: v1alpha1.VersionStopped, Tried: 4, Failed: 3}}
	waiting := deployment("waiting", "1.2.3")
	waiting.Status.TargetVersion = "1.2.4"
	held := deployment("held", "1.1.0")
	held.Status.Hold = true
	got := Versions(c, []v1alpha1.Deployment{*waiting, *held})
	want := []Version{
		{Channel: "stable", Version: "1.2.4", State: "Stopped", Tried: 4, Failed: 3, Latest: true, WantedBy: []string{"acme/waiting"}, Digest: "sha256:1.2.4"},
		{Channel: "stable", Version: "1.2.3", RunBy: []string{"acme/waiting"}, Digest: "sha256:1.2.3"},
		{Channel: "stable", Version: "1.1.0", State: "Withdrawn", RunBy: []string{"acme/held"}, HeldBy: []string{"acme/held"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
