package deployments

import (
	"context"
	"net/http"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/channels"
	"github.com/quoin-dev/quoin/internal/version"
)

var versions = family{"Versions", "Versions of the data plane that a deployment can be switched to.", []route{
	on(http.MethodGet, deploymentPath+"/versions", "listDeploymentVersions", mayRead, "List the versions of a deployment", (*API).listVersions),
}}

// Version is an entry of the documented list.
type Version struct {
	ReleaseChannelVersion string `json:"releaseChannelVersion" doc:"Image reference: <image_repo>:v<version>."`
	Version               string `json:"version" doc:"Number without a prefix."`
	ReleaseChannel        string `json:"releaseChannel"`
	IsLatestInChannel     bool   `json:"isLatestInChannel"`
	IsCurrent             bool   `json:"isCurrent" doc:"True for what production runs now: it changes when a rollout has finished."`

	place int // in the list, which has an order of its own
}

// ListVersionsInput are the parameters of the list.
type ListVersionsInput struct {
	InDeployment
	CursorPage
}

func (a *API) listVersions(ctx context.Context, in *ListVersionsInput) (*List[Version], error) {
	entries, _, err := a.versionsFor(ctx, scopeOf(ctx).deployment)
	if err != nil {
		return nil, err
	}
	all := make([]Version, len(entries))
	for i, e := range entries {
		all[i] = Version{e.ReleaseChannelVersion, e.Version.String(), e.ReleaseChannel, e.IsLatestInChannel, e.IsCurrent, i}
	}
	return listOf(in.CursorPage, all, func(v Version) int { return v.place })
}

// versionsFor is the documented list for a deployment, and the channels it comes from. What
// deployments out of the principal's scope have run is on it: the list is the account's.
func (a *API) versionsFor(ctx context.Context, d *v1alpha1.Deployment) ([]version.Entry, []version.Channel, error) {
	offered, err := channels.List(ctx, a.Kube)
	if err != nil {
		return nil, nil, err
	}
	list := &v1alpha1.DeploymentList{}
	if err := a.Kube.List(ctx, list, client.InNamespace(d.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, err
	}
	var runs []version.Run
	for i := range list.Items {
		runs = append(runs, runsOf(&list.Items[i])...)
	}
	var current *version.Run
	if own := runsOf(d); len(own) > 0 {
		current = &own[0]
	}
	return version.List(offered, runs, current), offered, nil
}

// runsOf are the versions that a deployment has run, newest first.
func runsOf(d *v1alpha1.Deployment) []version.Run {
	runs := make([]version.Run, 0, len(d.Status.History))
	for _, h := range d.Status.History {
		if run, err := channels.FromRun(h); err == nil {
			runs = append(runs, run)
		}
	}
	return runs
}

// channelNamed finds a channel, or says which there are.
func channelNamed(all []version.Channel, name, field string) (version.Channel, error) {
	i := slices.IndexFunc(all, func(c version.Channel) bool { return c.Name == name })
	if i >= 0 {
		return all[i], nil
	}
	var known []string
	for _, c := range all {
		known = append(known, c.Name)
	}
	slices.Sort(known)
	return version.Channel{}, badRequest("%s: %q does not exist; existing: %s", field, clip(name), joined(known))
}
