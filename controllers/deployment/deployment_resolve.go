package deployment

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/channels"
	"github.com/quoin-dev/quoin/internal/maintenance"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/version"
)

// choice is what spec and channel select.
type choice struct {
	// target is the version that production should run.
	target v1alpha1.VersionRun
	// manual reports whether a user requested the target. Manual rollouts need no slot.
	manual bool
	// newPin reports whether a user pinned the target since the last plan, which retries it.
	newPin bool
	// fallback is the version to run if the first install of the target fails; nil if there is none.
	fallback *v1alpha1.VersionRun
	// storeImage is the image of the store for the version that ran last, if the deployment needs one and the
	// version ran without it; empty if it is not known.
	storeImage string
	// skipped is the version that would be the target if the channel had not stopped it.
	skipped string
	// window outside of which versions are not rolled out, unless byHand; nil if there is none.
	window *maintenance.Window
	// byHand reports whether a user requested the version: pinned it, or changed the channel.
	byHand bool
	// places is the number of deployments that may try the target until it is accepted; 0 if there is
	// no limit.
	places int
}

// resolve returns the version that spec and channel select.
func (r *deploymentReconciler) resolve(ctx context.Context, s *scope, account *v1alpha1.Account) (choice, *reconciler.Outcome) {
	d := s.Object
	offered, err := channels.List(ctx, s.Client)
	if err != nil {
		return choice{}, failed(err)
	}
	var runs []version.Run
	if d.Spec.ReleaseChannelVersion != "" {
		// Only a pin may name a version that another deployment has run.
		if runs, err = accountRuns(ctx, s, d.Namespace); err != nil {
			return choice{}, failed(err)
		}
	}
	decision, err := version.Resolve(channels.Request(d), offered, runs)
	if err != nil {
		return choice{}, unresolved(err)
	}
	c := choice{target: channels.ToRun(version.Run{Release: decision.Target, Channel: decision.Channel})}
	c.places = decision.Places
	if decision.Skipped != nil {
		c.skipped = decision.Skipped.Version.String()
	}
	if decision.Fallback != nil {
		fallback := channels.ToRun(version.Run{Release: *decision.Fallback, Channel: decision.Channel})
		c.fallback = forSize(d, fallback)
	}
	c.storeImage = missingStoreImage(d, offered)
	pinned := decision.Reason == version.ReasonPinned
	c.manual = pinned || d.Status.ObservedGeneration != d.Generation
	c.byHand = pinned || len(d.Status.History) > 0 && d.Status.History[0].ReleaseChannel != decision.Channel
	if c.window, err = maintenance.Of(account); err != nil {
		return choice{}, failed(err)
	}
	c.newPin = pinned && d.Status.Pin != nil && d.Status.Pin.ReleaseChannelVersion != decision.Observed.Written
	d.Status.Hold = decision.Hold
	d.Status.Pin = &v1alpha1.ObservedPin{
		ReleaseChannelVersion: decision.Observed.Written, ChannelHead: decision.Observed.ChannelHead,
	}
	target := forSize(d, c.target)
	if target == nil {
		return choice{}, withoutStoreImage(decision, offered)
	}
	c.target = *target
	return c, nil
}

// forSize returns a version with the images that the deployment's size needs; nil if it has no image
// of the store and needs one.
func forSize(d *v1alpha1.Deployment, run v1alpha1.VersionRun) *v1alpha1.VersionRun {
	if d.Spec.Size != v1alpha1.SizeDedicated {
		run.StoreImage = ""
	} else if run.StoreImage == "" {
		return nil
	}
	return &run
}

// missingStoreImage returns the image of the store for the version that ran last, from its channel, if the
// deployment needs one and the version ran without it; empty if it is not known.
func missingStoreImage(d *v1alpha1.Deployment, offered []version.Channel) string {
	if d.Spec.Size != v1alpha1.SizeDedicated || len(d.Status.History) == 0 || d.Status.History[0].StoreImage != "" {
		return ""
	}
	last := d.Status.History[0]
	for i := range offered {
		for _, release := range offered[i].Releases {
			if offered[i].Name == last.ReleaseChannel && release.Image == last.Image {
				return release.StoreImage
			}
		}
	}
	return ""
}

// withoutStoreImage returns the outcome of a Dedicated deployment whose target has no image of the
// store. It names what is missing. Production keeps its version.
func withoutStoreImage(decision version.Decision, offered []version.Channel) *reconciler.Outcome {
	missing := fmt.Sprintf("; set spec.storeImageRepository of release channel %q", decision.Channel)
	for _, channel := range offered {
		if channel.Name == decision.Channel && channel.StoreRepository != "" {
			missing = fmt.Sprintf(", and no image %s:%s is known; push the tag, or choose a version that has one",
				channel.StoreRepository, decision.Target.Version.Tag())
		}
	}
	o := reconciler.Stalled(v1alpha1.ReasonStoreImageMissing, "spec.size: Dedicated needs a store image"+missing)
	return &o
}

// accountRuns returns the versions that any deployment of the account has run.
func accountRuns(ctx context.Context, c client.Reader, namespace string) ([]version.Run, error) {
	list := &v1alpha1.DeploymentList{}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list deployments: %w", err)
	}
	var runs []version.Run
	for i := range list.Items {
		for _, h := range list.Items[i].Status.History {
			if run, err := channels.FromRun(h); err == nil {
				runs = append(runs, run)
			}
		}
	}
	return runs, nil
}

// unresolved returns the outcome of a failed version.Resolve. Production keeps its version.
func unresolved(err error) *reconciler.Outcome {
	var unknownVersion *version.UnknownVersionError
	var unknownChannel *version.UnknownChannelError
	var empty *version.EmptyChannelError
	var stopped *version.StoppedError
	reason, field := v1alpha1.ReasonInvalidSpec, "spec"
	switch {
	case errors.As(err, &unknownVersion):
		reason, field = v1alpha1.ReasonUnknownVersion, "spec.releaseChannelVersion"
	case errors.As(err, &unknownChannel):
		reason, field = v1alpha1.ReasonChannelNotFound, "spec.releaseChannel"
	case errors.As(err, &stopped):
		reason, field = v1alpha1.ReasonVersionStopped, "spec.releaseChannel"
	case errors.As(err, &empty):
		reason, field = v1alpha1.ReasonChannelEmpty, "spec.releaseChannel"
	}
	o := reconciler.Stalled(reason, field+": "+err.Error())
	if unknownChannel != nil {
		o = reconciler.NotFound(reason, field+": "+err.Error())
	}
	return &o
}
