// Package edit changes the version of Deployments and ReleaseChannels: pure functions on copies of the
// objects, which the commands write.
package edit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/channels"
	"github.com/quoin-dev/quoin/internal/version"
)

// Pin makes a deployment run a version, and keep it. With untilNewer the channel's next version replaces
// it.
func Pin(d *v1alpha1.Deployment, written string, untilNewer bool) {
	d.Spec.ReleaseChannelVersion, d.Spec.Hold = written, nil
	if untilNewer {
		d.Spec.Hold = ptr.To(false)
	}
}

// Hold makes a deployment keep the version that it runs. A pin to another version, which the channel has
// overtaken, would take effect again: it is replaced by the version that runs.
func Hold(d *v1alpha1.Deployment) {
	d.Spec.Hold = ptr.To(true)
	if d.Spec.ReleaseChannelVersion != "" && d.Status.ReleaseChannelVersion != "" {
		d.Spec.ReleaseChannelVersion = d.Status.ReleaseChannelVersion
	}
}

// Follow makes a deployment follow its channel, or another one.
func Follow(d *v1alpha1.Deployment, channel string) {
	d.Spec.ReleaseChannelVersion, d.Spec.Hold = "", nil
	if channel != "" {
		d.Spec.ReleaseChannel = channel
	}
}

// Rollback pins the version that a deployment ran before, or the given one of those that it has run. It
// returns the version.
func Rollback(d *v1alpha1.Deployment, to string) (string, error) {
	if len(d.Status.History) == 0 {
		return "", errors.New("the deployment has not run a version yet")
	}
	current := d.Status.History[0]
	var ran []string
	for _, run := range d.Status.History {
		if run.Image == current.Image && to == "" {
			continue
		}
		if to == "" || run.Version == strings.TrimPrefix(to, "v") || run.Image == to {
			Pin(d, run.Image, false)
			return run.Version, nil
		}
		ran = append(ran, run.Version)
	}
	if to == "" {
		return "", fmt.Errorf("the deployment has run %s only: pin another version instead", current.Version)
	}
	return "", fmt.Errorf("the deployment has not run %q; it has run %s", to, strings.Join(slices.Compact(ran), ", "))
}

// Retry makes the controller retry what failed.
func Retry(d *v1alpha1.Deployment, now time.Time) {
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[v1alpha1.AnnotationRetry] = now.UTC().Format(time.RFC3339Nano)
}

// Outcome is what the controller will decide for a deployment.
type Outcome struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Current is the version that production runs, Target the one that it will run.
	Current string `json:"current,omitempty"`
	Target  string `json:"target,omitempty"`
	// Moves reports whether the version changes.
	Moves bool `json:"moves"`
	// Why the target was chosen, or the error.
	Why string `json:"why"`
}

// reasons are the reasons of decisions as text.
var reasons = map[version.Reason]string{
	version.ReasonPinned:       "pinned",
	version.ReasonPinOvertaken: "the channel has passed the pin",
	version.ReasonHeld:         "held",
	version.ReasonChannelHead:  "newest of the channel",
	version.ReasonPolicyHead:   "newest that the upgrade policy allows",
	version.ReasonProven:       "newest that has run",
	version.ReasonKeptByPolicy: "the upgrade policy allows no newer one",
	version.ReasonChannelEmpty: "the channel is empty",
}

// Decide returns what the controller will decide for a deployment.
func Decide(d *v1alpha1.Deployment, offered []version.Channel, runs []version.Run) (Outcome, error) {
	o := Outcome{Namespace: d.Namespace, Name: d.Name, Current: d.Status.CurrentVersion}
	decision, err := version.Resolve(channels.Request(d), offered, runs)
	if err != nil {
		return o, err
	}
	o.Target, o.Why = decision.Target.Version.String(), reasons[decision.Reason]
	o.Moves = o.Target != o.Current
	switch {
	case ptr.Deref(d.Spec.Suspend, false):
		o.Moves, o.Why = false, "suspended"
	case decision.Skipped != nil:
		o.Why = decision.Skipped.Version.String() + " is stopped"
	case o.Moves && d.Status.Failed != nil && d.Status.Failed.Version.Version == o.Target && !decision.Hold:
		o.Moves, o.Why = false, "failed here; not retried until something changes"
	}
	return o, nil
}

// Runs returns the versions that deployments have run.
func Runs(deployments []v1alpha1.Deployment) []version.Run {
	var runs []version.Run
	for i := range deployments {
		for _, h := range deployments[i].Status.History {
			if run, err := channels.FromRun(h); err == nil {
				runs = append(runs, run)
			}
		}
	}
	return runs
}
