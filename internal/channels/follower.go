package channels

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/version"
)

// Follower is what decides whether a Deployment is behind its channel. It is comparable: many Deployments have the same.
type Follower struct {
	Channel string
	// Current is what production runs; zero before the first install.
	Current version.Run
	upgrade version.UpgradePolicy
	held    bool
}

// FollowerOf returns the Follower of a Deployment.
func FollowerOf(d *v1alpha1.Deployment) Follower {
	req := Request(d)
	return Follower{
		Channel: req.Channel, Current: ptr.Deref(req.Current, version.Run{}), upgrade: req.Upgrade,
		held: req.Pin != "" || ptr.Deref(req.Hold, false) || ptr.Deref(d.Spec.Suspend, false) || waitsForWindow(d),
	}
}

// waitsForWindow reports whether a newer version waits for the maintenance window of the account.
func waitsForWindow(d *v1alpha1.Deployment) bool {
	ready := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == v1alpha1.ReasonWaitingForWindow
}

// IsBehind reports whether another version of the channel is due. None is for a Deployment that has not run a version, is
// pinned, held or suspended, or waits for the maintenance window.
func (f Follower) IsBehind(channel *v1alpha1.ReleaseChannel) bool {
	if f.held || f.Current == (version.Run{}) {
		return false
	}
	decision, err := version.Resolve(version.Request{Channel: f.Channel, Upgrade: f.upgrade, Current: &f.Current}, []version.Channel{From(channel)}, nil)
	return err != nil || decision.Target.Version != f.Current.Version
}
