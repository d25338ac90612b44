// Package channels converts ReleaseChannels and the histories of Deployments to and from the
// types of internal/version.
package channels

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/version"
)

const (
	// defaultFailures applies when spec.rollout.failureThreshold of a channel is not set.
	defaultFailures = 3
	// defaultFirst applies when spec.rollout.firstDeployments of a channel is not set.
	defaultFirst = 10
)

// List returns all release channels with their versions.
func List(ctx context.Context, c client.Reader) ([]version.Channel, error) {
	list := &v1alpha1.ReleaseChannelList{}
	if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list release channels: %w", err)
	}
	all := make([]version.Channel, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, From(&list.Items[i]))
	}
	return all, nil
}

// From returns a release channel with its versions.
func From(c *v1alpha1.ReleaseChannel) version.Channel {
	releases := make([]version.Release, 0, len(c.Status.Versions))
	for _, v := range c.Status.Versions {
		parsed, err := version.Parse(v.Version)
		if err != nil {
			continue // the scanner writes versions only
		}
		releases = append(releases, version.Release{
			Version: parsed, Image: v.Image, Digest: v.Digest, StoreImage: v.StoreImage,
		})
	}
	channel := version.NewChannel(c.Name, c.Spec.ImageRepository, releases)
	channel.StoreRepository = c.Spec.StoreImageRepository
	for i := range c.Status.Rollouts {
		rollout := &c.Status.Rollouts[i]
		parsed, err := version.Parse(rollout.Version)
		switch {
		case err != nil:
		case rollout.State == v1alpha1.VersionStopped:
			channel.Stopped = append(channel.Stopped, parsed)
		case rollout.State == v1alpha1.VersionAccepted:
			channel.Accepted = append(channel.Accepted, parsed)
		}
	}
	if policy := Policy(c); policy.Failures > 0 {
		channel.Places = policy.First
	}
	if parsed, err := version.Parse(c.Status.ProvenVersion); err == nil {
		channel.Proven = &parsed
	}
	return channel
}

// Policy returns when the channel stops a version that fails.
func Policy(c *v1alpha1.ReleaseChannel) version.StopPolicy {
	p := version.StopPolicy{Failures: defaultFailures, First: defaultFirst}
	if r := c.Spec.Rollout; r != nil {
		first := ptr.Deref(r.FirstDeployments, defaultFirst)
		p.First, p.Failures = int(first), int(ptr.Deref(r.FailureThreshold, min(defaultFailures, first)))
	}
	return p
}

// ToRun converts a run for the history in a status.
func ToRun(r version.Run) v1alpha1.VersionRun {
	return v1alpha1.VersionRun{
		Version: r.Version.String(), ReleaseChannel: r.Channel,
		Image: r.Image, Digest: r.Digest, StoreImage: r.StoreImage,
	}
}

// FromRun converts a run of the history in a status.
func FromRun(h v1alpha1.VersionRun) (version.Run, error) {
	parsed, err := version.Parse(h.Version)
	if err != nil {
		return version.Run{}, err
	}
	return version.Run{
		Release: version.Release{Version: parsed, Image: h.Image, Digest: h.Digest, StoreImage: h.StoreImage},
		Channel: h.ReleaseChannel,
	}, nil
}

// Request returns the input of version.Resolve for a Deployment.
func Request(d *v1alpha1.Deployment) version.Request {
	req := version.Request{
		Channel: d.Spec.ReleaseChannel,
		Pin:     d.Spec.ReleaseChannelVersion,
		Hold:    d.Spec.Hold,
		Upgrade: version.UpgradePolicy(d.Spec.UpgradePolicy),
	}
	if len(d.Status.History) > 0 {
		if run, err := FromRun(d.Status.History[0]); err == nil {
			req.Current = &run
		}
	}
	if r := d.Status.Rollout; r != nil && r.StartTime != nil {
		if run, err := FromRun(r.To); err == nil {
			req.Rollout = &run.Release
		}
	}
	if pin := d.Status.Pin; pin != nil {
		req.Observed = &version.ObservedPin{Written: pin.ReleaseChannelVersion, ChannelHead: pin.ChannelHead}
	}
	return req
}
