package deployments

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/channels"
	"github.com/quoin-dev/quoin/internal/version"
)

func (a *api) versionsFamily() rest.Family {
	return rest.Family{Tag: "Versions", Description: "Versions of the data plane that a deployment can run.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, deploymentPath+"/versions", "listDeploymentVersions", v1alpha1.PermissionDeploymentRead, "List the versions of a deployment", a.listVersions),
	}}
}

// Version is an entry of the documented list of versions.
type Version struct {
	ReleaseChannelVersion string `json:"releaseChannelVersion" doc:"Image reference: <image_repo>:v<version>."`
	Version               string `json:"version" doc:"Number without a prefix."`
	ReleaseChannel        string `json:"releaseChannel"`
	IsLatestInChannel     bool   `json:"isLatestInChannel"`
	IsCurrent             bool   `json:"isCurrent" doc:"Whether production runs it: changes when a rollout has completed."`
}

// ListVersionsInput has the parameters of the list.
type ListVersionsInput struct {
	rest.InDeployment
	rest.CursorPage
}

func (a *api) listVersions(ctx context.Context, in *ListVersionsInput) (*rest.List[Version], error) {
	entries, _, err := a.versionsFor(ctx, rest.ScopeFrom(ctx).Deployment)
	if err != nil {
		return nil, err
	}
	all := make([]Version, len(entries))
	for i, e := range entries {
		all[i] = Version{e.ReleaseChannelVersion, e.Version.String(), e.ReleaseChannel, e.IsLatestInChannel, e.IsCurrent}
	}
	fetch := func(_ context.Context, after *versionKey, limit int) (rest.StoredPage[Version], error) {
		begin, end := 0, len(all)
		if after != nil {
			begin = slices.IndexFunc(entries, after.isBefore)
			if begin < 0 {
				begin = end
			}
		}
		if in.First.IsSet { // without it, the list is complete
			end = min(end, begin+limit)
		}
		return rest.StoredPage[Version]{Items: all[begin:end], HasNext: end < len(all), HasPrevious: begin > 0}, nil
	}
	return rest.PaginateStored(ctx, in.CursorPage, fetch, func(v Version) versionKey {
		return versionKey{v.ReleaseChannel, v.Version, v.IsLatestInChannel}
	})
}

// versionKey is the position of an entry in the list, in cursors. The list may change between two pages: a channel that
// gets a newer version has another first entry, and the previous one is the next or gone.
type versionKey struct {
	Channel string `json:"c"`
	Version string `json:"v"`
	IsHead  bool   `json:"h,omitempty"`
}

// isBefore reports whether an entry follows the position.
func (k versionKey) isBefore(e version.Entry) bool {
	switch {
	case e.ReleaseChannel != k.Channel:
		return e.ReleaseChannel > k.Channel
	case e.IsLatestInChannel:
		return false
	case k.IsHead:
		return e.Version.String() != k.Version
	}
	at, err := version.Parse(k.Version)
	return err == nil && e.Version.Compare(at) < 0
}

// versionsFor returns the documented list for a deployment, and the channels of its entries. The list
// is that of the account: it includes versions of deployments outside of the principal's scope.
func (a *api) versionsFor(ctx context.Context, d *v1alpha1.Deployment) ([]version.Entry, []version.Channel, error) {
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

// runsOf returns the versions that a deployment has run, newest first.
func runsOf(d *v1alpha1.Deployment) []version.Run {
	runs := make([]version.Run, 0, len(d.Status.History))
	for _, h := range d.Status.History {
		if run, err := channels.FromRun(h); err == nil {
			runs = append(runs, run)
		}
	}
	return runs
}

// channelNamed returns the channel with a name. The error lists the existing names.
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
	existing := "none"
	if len(known) > 0 {
		existing = strings.Join(known, ", ")
	}
	return version.Channel{}, rest.BadRequest("%s: %q does not exist; existing: %s", field, rest.Clip(name), existing)
}
