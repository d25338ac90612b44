package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/channels"
	"github.com/quoin-dev/quoin/internal/version"
)

var (
	runningDesc = prometheus.NewDesc("quoin_releasechannel_deployments",
		"Deployments by release channel and by how their version relates to the newest one that is not stopped: current, behind, held or installing.", []string{"channel", "state"}, nil)
	lagDesc = prometheus.NewDesc("quoin_releasechannel_behind_since_timestamp_seconds",
		"When the channel first listed a version that is newer than the oldest one of the deployments that are behind; absent if none is.", []string{"channel"}, nil)
)

// The relations of a deployment to its channel: values of the label state.
const (
	stateCurrent    = "current"    // runs the newest version
	stateBehind     = "behind"     // follows the channel and runs another version
	stateHeld       = "held"       // runs another version, and nothing newer is due: pinned, held, suspended, upgradePolicy, maintenance window
	stateInstalling = "installing" // has not run a version yet
)

// fleet counts deployments by channel and version.
type fleet struct {
	// running has few keys: there are few versions in use at a time.
	running  map[channels.Follower]int
	channels map[string]*v1alpha1.ReleaseChannel
}

func newFleet() fleet {
	return fleet{running: map[channels.Follower]int{}, channels: map[string]*v1alpha1.ReleaseChannel{}}
}

func (f *fleet) add(obj v1alpha1.Object) {
	switch obj := obj.(type) {
	case *v1alpha1.Deployment:
		f.count(obj, 1)
	case *v1alpha1.ReleaseChannel:
		f.channels[obj.Name] = obj
	}
}

func (f *fleet) remove(obj v1alpha1.Object) {
	switch obj := obj.(type) {
	case *v1alpha1.Deployment:
		f.count(obj, -1)
	case *v1alpha1.ReleaseChannel:
		delete(f.channels, obj.Name)
	}
}

func (f *fleet) count(d *v1alpha1.Deployment, n int) {
	r := channels.FollowerOf(d)
	if f.running[r] += n; f.running[r] == 0 {
		delete(f.running, r)
	}
}

func (f *fleet) collect(metrics chan<- prometheus.Metric) {
	type group struct{ channel, state string }
	counts, since := map[group]int{}, map[string]time.Time{}
	for name := range f.channels {
		counts[group{name, stateCurrent}], counts[group{name, stateBehind}] = 0, 0
	}
	for r, n := range f.running {
		state, newer := relation(r, f.channels[r.Channel])
		counts[group{r.Channel, state}] += n
		if before, ok := since[r.Channel]; state == stateBehind && !newer.IsZero() && (!ok || newer.Before(before)) {
			since[r.Channel] = newer
		}
	}
	for g, n := range counts {
		metrics <- gauge(runningDesc, float64(n), g.channel, g.state)
	}
	for channel, t := range since {
		metrics <- gauge(lagDesc, seconds(t), channel)
	}
}

// relation returns how deployments relate to their channel. If they are behind, it also returns when the
// channel first listed a version that is newer than theirs.
func relation(r channels.Follower, channel *v1alpha1.ReleaseChannel) (state string, newer time.Time) {
	if r.Current == (version.Run{}) {
		return stateInstalling, time.Time{}
	}
	if channel == nil {
		return stateHeld, time.Time{} // no channel, so no newer version
	}
	current := r.Current.Version.String()
	offered := offeredVersions(channel, current)
	if len(offered) == 0 || offered[0].Version == current {
		return stateCurrent, time.Time{}
	}
	if !r.IsBehind(channel) {
		return stateHeld, time.Time{} // nothing newer is due
	}
	newer = offered[len(offered)-1].FirstSeen.Time // of a version that is no longer listed
	for i, v := range offered {
		if v.Version == current {
			newer = offered[i-1].FirstSeen.Time
		}
	}
	return stateBehind, newer
}

// offeredVersions returns the versions of a channel that are not stopped for deployments that run a version, newest first. A
// deployment that runs a stopped version keeps it.
func offeredVersions(channel *v1alpha1.ReleaseChannel, current string) []v1alpha1.ChannelVersion {
	stopped := map[string]bool{}
	for _, r := range channel.Status.Rollouts {
		if r.State == v1alpha1.VersionStopped {
			stopped[r.Version] = true
		}
	}
	var offered []v1alpha1.ChannelVersion
	for _, v := range channel.Status.Versions {
		if !stopped[v.Version] || v.Version == current {
			offered = append(offered, v)
		}
	}
	return offered
}
