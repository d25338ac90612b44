package edit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/channels"
	"github.com/quoin-dev/quoin/internal/version"
)

// Promote changes a channel so that it offers a version: a stopped version is resumed, and a version is
// added to an explicit list. It changes nothing if the channel offers the version already. The version
// is also in the status of the changed channel, as it will be after the next scan. others may have the
// digest.
func Promote(c *v1alpha1.ReleaseChannel, v version.Version, others []v1alpha1.ReleaseChannel) (what string, err error) {
	text := v.String()
	for i := range c.Status.Rollouts {
		if r := &c.Status.Rollouts[i]; r.Version == text && r.State == v1alpha1.VersionStopped {
			if c.Spec.Rollout == nil {
				c.Spec.Rollout = &v1alpha1.ChannelRolloutPolicy{}
			}
			c.Spec.Rollout.ResumeVersion, r.State = text, v1alpha1.VersionAccepted
			return "resumes the stopped version " + text, nil
		}
	}
	if offers(c, text) {
		return "offers " + text + " already", nil
	}
	i := slices.IndexFunc(c.Spec.Versions, func(l v1alpha1.ListedVersion) bool { return l.Version == text })
	if i >= 0 { // the next scan offers it
		c.Status.Versions = append(c.Status.Versions, v1alpha1.ChannelVersion{Version: text, Image: v.Image(c.Spec.ImageRepository), Digest: c.Spec.Versions[i].Digest})
		return "offers " + text + " already", nil
	}
	if len(c.Spec.Versions) == 0 {
		return "", fmt.Errorf("release channel %q takes its versions from %s%s, and %s is not among them: push the tag %s, or extend the range",
			c.Name, c.Spec.ImageRepository, rangeOf(c), text, v.Tag())
	}
	listed := v1alpha1.ListedVersion{Version: text}
	for _, other := range others {
		for _, o := range other.Status.Versions {
			if o.Version == text && other.Spec.ImageRepository == c.Spec.ImageRepository {
				listed.Digest = o.Digest
			}
		}
	}
	c.Spec.Versions = append(c.Spec.Versions, listed)
	c.Status.Versions = append(c.Status.Versions, v1alpha1.ChannelVersion{Version: text, Image: v.Image(c.Spec.ImageRepository), Digest: listed.Digest})
	return "adds " + text + " to spec.versions", nil
}

func rangeOf(c *v1alpha1.ReleaseChannel) string {
	if c.Spec.Policy == nil || c.Spec.Policy.Range == "" {
		return ""
	}
	return fmt.Sprintf(" with the range %q", c.Spec.Policy.Range)
}

// Moves returns what the controllers will decide for the deployments of a channel, those that move
// first.
func Moves(c *v1alpha1.ReleaseChannel, all []v1alpha1.ReleaseChannel, deployments []v1alpha1.Deployment) []Outcome {
	offered := []version.Channel{channels.From(c)}
	for i := range all {
		if all[i].Name != c.Name {
			offered = append(offered, channels.From(&all[i]))
		}
	}
	byNamespace := map[string][]v1alpha1.Deployment{}
	for i := range deployments {
		byNamespace[deployments[i].Namespace] = append(byNamespace[deployments[i].Namespace], deployments[i])
	}
	var moves []Outcome
	for i := range deployments {
		d := &deployments[i]
		if d.Spec.ReleaseChannel != c.Name {
			continue
		}
		o, err := Decide(d, offered, Runs(byNamespace[d.Namespace]))
		if err != nil {
			o.Why = err.Error()
		}
		moves = append(moves, o)
	}
	slices.SortFunc(moves, func(a, b Outcome) int {
		return cmp.Or(version.TrueFirst(a.Moves, b.Moves), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return moves
}

// Version is a version of a channel, and the deployments that run it.
type Version struct {
	Channel string `json:"channel"`
	Version string `json:"version"`
	// State is Candidate, Accepted or Stopped; empty if no deployment has tried the version.
	State  string `json:"state,omitempty"`
	Tried  int32  `json:"tried"`
	Failed int32  `json:"failed"`
	// Latest reports whether it is the newest version of the channel.
	Latest bool `json:"latest"`
	// RunBy are the deployments that run it; HeldBy those of them that do not follow the channel;
	// WantedBy those that are to run it and do not yet. Each is <namespace>/<name>.
	RunBy    []string `json:"runBy,omitempty"`
	HeldBy   []string `json:"heldBy,omitempty"`
	WantedBy []string `json:"wantedBy,omitempty"`
	Digest   string   `json:"digest,omitempty"`
}

// Versions returns the versions of a channel, newest first, and those that deployments of the channel
// run although it does not offer them any more.
func Versions(c *v1alpha1.ReleaseChannel, deployments []v1alpha1.Deployment) []Version {
	var list []*Version
	byVersion := map[string]*Version{}
	entry := func(text string) *Version {
		if byVersion[text] == nil {
			byVersion[text] = &Version{Channel: c.Name, Version: text}
			list = append(list, byVersion[text])
		}
		return byVersion[text]
	}
	for _, o := range c.Status.Versions {
		e := entry(o.Version)
		e.Digest, e.Latest = o.Digest, o.Version == c.Status.LatestVersion
	}
	for _, r := range c.Status.Rollouts {
		if e := byVersion[r.Version]; e != nil {
			e.State, e.Tried, e.Failed = string(r.State), r.Tried, r.Failed
		}
	}
	for i := range deployments {
		d := &deployments[i]
		if d.Spec.ReleaseChannel != c.Name {
			continue
		}
		name := d.Namespace + "/" + d.Name
		if s := &d.Status; s.CurrentVersion != "" {
			e := entry(s.CurrentVersion)
			e.RunBy = append(e.RunBy, name)
			if s.Hold {
				e.HeldBy = append(e.HeldBy, name)
			}
		}
		if s := &d.Status; s.TargetVersion != "" && s.TargetVersion != s.CurrentVersion {
			e := entry(s.TargetVersion)
			e.WantedBy = append(e.WantedBy, name)
		}
	}
	sorted := make([]Version, 0, len(list))
	for _, e := range list {
		if e.State == "" && len(e.RunBy)+len(e.WantedBy) > 0 && e.Digest == "" && !offers(c, e.Version) {
			e.State = "Withdrawn"
		}
		sorted = append(sorted, *e)
	}
	slices.SortStableFunc(sorted, func(a, b Version) int {
		x, errX := version.Parse(a.Version)
		y, errY := version.Parse(b.Version)
		if errX != nil || errY != nil {
			return strings.Compare(b.Version, a.Version)
		}
		return y.Compare(x)
	})
	return sorted
}

func offers(c *v1alpha1.ReleaseChannel, text string) bool {
	return slices.ContainsFunc(c.Status.Versions, func(o v1alpha1.ChannelVersion) bool { return o.Version == text })
}
