package deployments

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/catalog"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/tenant"
	"github.com/quoin-dev/quoin/internal/version"
)

func (a *api) settingsFamily() rest.Family {
	return rest.Family{Tag: "Settings", Description: "Settings of a deployment.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, deploymentPath+"/settings", "getDeploymentSettings", v1alpha1.PermissionDeploymentRead, "Get the settings of a deployment", a.getSettings),
	}}
}

// Settings are the documented settings of a deployment.
type Settings struct {
	ID                        string         `json:"id" pattern:"^[1-9][0-9]*$"`
	Name                      string         `json:"name"`
	DeploymentURL             string         `json:"deploymentUrl"`
	AutoDomain                *string        `json:"autoDomain,omitempty" nullable:"true" doc:"Host of the data API below the account's domain."`
	CustomDomain              *string        `json:"customDomain,omitempty" nullable:"true" doc:"Custom host of the data API."`
	CreationStep              string         `json:"creationStep"`
	CreationMethod            *string        `json:"creationMethod,omitempty" nullable:"true"`
	CloudProvider             string         `json:"cloudProvider"`
	TargetPlatform            *string        `json:"targetPlatform,omitempty" nullable:"true"`
	Region                    string         `json:"region"`
	Template                  string         `json:"template" enum:"single,simpleCluster" doc:"single is size Shared, simpleCluster is Dedicated."`
	TemplateVariables         map[string]any `json:"templateVariables" doc:"replicas: number of API pods of production."`
	IsManaged                 bool           `json:"isManaged"`
	IsCold                    bool           `json:"isCold" doc:"Scaled to nothing."`
	IsCubeSQLEnabled          bool           `json:"isCubeSqlEnabled"`
	IsSupportPreAggregations  bool           `json:"isSupportPreAggregations"`
	DeployMode                string         `json:"deployMode" enum:"git,cli"`
	RepoType                  *string        `json:"repoType,omitempty" nullable:"true"`
	DeployBranchName          string         `json:"deployBranchName"`
	DeployBranchReadOnly      bool           `json:"deployBranchReadOnly"`
	DeployBranchMergeAllowed  bool           `json:"deployBranchMergeAllowed"`
	DeployProjectRoot         string         `json:"deployProjectRoot"`
	ReleaseChannel            string         `json:"releaseChannel"`
	ReleaseChannelVersion     *string        `json:"releaseChannelVersion,omitempty" nullable:"true" doc:"The pinned version, or else the running one, as <image_repo>:v<version>."`
	ReleaseChannelVersionHold bool           `json:"releaseChannelVersionHold"`
	CubeImageVersion          *string        `json:"cubeImageVersion,omitempty" nullable:"true" doc:"Version that production runs."`
	CubeImageCloud            *string        `json:"cubeImageCloud,omitempty" nullable:"true" doc:"Image that production runs, by digest."`
}

// SettingsOutput is the response.
type SettingsOutput struct{ Body Settings }

func (a *api) getSettings(ctx context.Context, _ *rest.InDeployment) (*SettingsOutput, error) {
	return a.settingsOf(ctx, rest.ScopeFrom(ctx).Deployment)
}

func (a *api) settingsOf(ctx context.Context, d *v1alpha1.Deployment) (*SettingsOutput, error) {
	branches, err := a.Catalog.Branches(d)
	if err != nil {
		return nil, err
	}
	shown := deploymentOf(d)
	out := Settings{
		ID: shown.ID, Name: shown.Name, DeploymentURL: shown.DeploymentURL, CreationStep: shown.CreationStep,
		CreationMethod: rest.NilIfEmpty(d.Annotations[v1alpha1.AnnotationCreationMethod]),
		CloudProvider:  "cubecloud", TargetPlatform: rest.NilIfEmpty(d.Annotations[v1alpha1.AnnotationTargetPlatform]), Region: a.Region.Name,
		AutoDomain: rest.NilIfEmpty(d.Name + "." + tenant.DataDomain(rest.ScopeFrom(ctx).Account)),
		Template:   "single", TemplateVariables: map[string]any{},
		IsManaged: true, IsCold: d.Spec.Replicas != nil && *d.Spec.Replicas == 0, IsCubeSQLEnabled: true,
		DeployBranchReadOnly: true, DeployBranchName: catalog.ProductionBranch(d, branches),
		ReleaseChannel: d.Spec.ReleaseChannel, ReleaseChannelVersionHold: holdOf(d),
		CubeImageVersion: rest.NilIfEmpty(d.Status.CurrentVersion), CubeImageCloud: rest.NilIfEmpty(d.Status.CurrentImage),
	}
	if out.ReleaseChannelVersion = rest.NilIfEmpty(d.Spec.ReleaseChannelVersion); out.ReleaseChannelVersion == nil {
		out.ReleaseChannelVersion = rest.NilIfEmpty(d.Status.ReleaseChannelVersion)
	}
	if d.Spec.DataAPI != nil {
		out.CustomDomain = rest.NilIfEmpty(string(d.Spec.DataAPI.CustomDomain))
	}
	if d.Spec.Size == v1alpha1.SizeDedicated {
		out.Template, out.IsSupportPreAggregations = "simpleCluster", true
	}
	if d.Spec.Replicas != nil {
		out.TemplateVariables["replicas"] = *d.Spec.Replicas
	}
	mode, repository := deployModeOf(d)
	out.DeployMode, out.RepoType = mode, rest.NilIfEmpty(repository)
	switch model := d.Spec.Model; {
	case model.Git != nil:
		out.DeployProjectRoot = model.Git.Path
	case model.Repository != nil:
		out.DeployBranchName, out.DeployProjectRoot = model.Repository.BranchName(), model.Repository.Path
		out.DeployBranchReadOnly, out.DeployBranchMergeAllowed = false, true
	}
	return &SettingsOutput{out}, nil
}

// holdOf returns the hold that the spec requests.
func holdOf(d *v1alpha1.Deployment) bool {
	return ptr.Deref(d.Spec.Hold, d.Spec.ReleaseChannelVersion != "")
}

// UpdateDeploymentInput has the settings to change. Those that are absent or null keep their value.
type UpdateDeploymentInput struct {
	rest.InDeployment
	Body *UpdateDeployment
}

// UpdateDeployment is the body of a change: the documented fields that Quoin supports.
type UpdateDeployment struct {
	Name                      *rest.DisplayName      `json:"name,omitempty" nullable:"true" minLength:"1" maxLength:"128"`
	ReleaseChannel            *string                `json:"releaseChannel,omitempty" nullable:"true" minLength:"1" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$" patternDescription:"a valid name of a release channel" doc:"Without a version: switches to the newest version of that channel and follows it."`
	ReleaseChannelVersion     *string                `json:"releaseChannelVersion,omitempty" nullable:"true" minLength:"1" maxLength:"400" doc:"A version of the versions list: <version>, v<version> or <image_repo>:v<version>."`
	ReleaseChannelVersionHold *bool                  `json:"releaseChannelVersionHold,omitempty" nullable:"true" doc:"When absent, a version that is not its channel's newest is held."`
	CustomDomain              *string                `json:"customDomain,omitempty" nullable:"true" maxLength:"259" doc:"The empty string removes it."`
	DeployBranchName          *string                `json:"deployBranchName,omitempty" nullable:"true" minLength:"1" maxLength:"244" doc:"Branch that production runs. Needs a model in Git."`
	DeployProjectRoot         *string                `json:"deployProjectRoot,omitempty" nullable:"true" maxLength:"512" doc:"Folder of the model in the repository; empty is its root. Needs a model in Git."`
	Template                  *string                `json:"template,omitempty" nullable:"true" enum:"single,simpleCluster"`
	TemplateVariables         *UpdateTemplateOptions `json:"templateVariables,omitempty" doc:"Merged key by key."`
	CreationMethod            *string                `json:"creationMethod,omitempty" nullable:"true" enum:"upload,cubecloud,github,ssh"`
	Region                    *string                `json:"region,omitempty" nullable:"true" maxLength:"128" doc:"Cannot be changed: only the current value is accepted."`
	CloudProvider             *string                `json:"cloudProvider,omitempty" nullable:"true" enum:"cubecloud" doc:"Cannot be changed: only the current value is accepted."`
	DeployMode                *string                `json:"deployMode,omitempty" nullable:"true" enum:"git,cli" doc:"Cannot be changed here: only the current value is accepted. It follows spec.model of the Deployment."`
}

// UpdateTemplateOptions are the supported template variables.
type UpdateTemplateOptions struct {
	Replicas *int32 `json:"replicas,omitempty" nullable:"true" minimum:"0" maximum:"100"`
}

// TransformSchema implements huma.SchemaTransformer.
func (UpdateTemplateOptions) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return rest.OrNull(s)
}

func (a *api) updateDeployment(ctx context.Context, in *UpdateDeploymentInput) (*SettingsOutput, error) {
	d := rest.ScopeFrom(ctx).Deployment
	body := in.Body
	if body == nil {
		body = &UpdateDeployment{}
	}
	if body.Name != nil {
		if err := a.checkName(ctx, string(*body.Name), d.Name); err != nil {
			return nil, err
		}
	}
	if body.CustomDomain != nil {
		if err := a.checkDomain(ctx, d, strings.ToLower(*body.CustomDomain)); err != nil {
			return nil, err
		}
	}
	if err := body.checkImmutable(d, a.Region.Name); err != nil {
		return nil, err
	}
	entries, offered, err := a.versionsFor(ctx, d)
	if err != nil {
		return nil, err
	}
	renaming, err := a.rename(ctx, d, body.Name)
	if err != nil {
		return nil, err
	}
	changed, err := edit.Change(ctx, a.Kube, d, func(d *v1alpha1.Deployment) error {
		if err := body.applyVersion(&d.Spec, entries, offered); err != nil {
			return err
		}
		return body.applySettings(d)
	})
	if err := renaming.end(ctx, err); err != nil {
		return nil, err
	}
	return a.settingsOf(ctx, changed)
}

// checkImmutable rejects other values for settings that cannot be changed. The current values are
// accepted, so that a client can write back what it has read.
func (u *UpdateDeployment) checkImmutable(d *v1alpha1.Deployment, region string) error {
	mode, _ := deployModeOf(d)
	for _, f := range []struct {
		name      string
		requested *string
		current   string
	}{{"region", u.Region, region}, {"cloudProvider", u.CloudProvider, "cubecloud"}, {"deployMode", u.DeployMode, mode}} {
		if f.requested != nil && *f.requested != f.current {
			return rest.BadRequest("%s: %q: it cannot be changed; allowed: %s", f.name, rest.Clip(*f.requested), f.current)
		}
	}
	return nil
}

// applyVersion sets the requested channel, version and hold.
func (u *UpdateDeployment) applyVersion(spec *v1alpha1.DeploymentSpec, entries []version.Entry, offered []version.Channel) error {
	if u.ReleaseChannel != nil {
		if _, err := channelNamed(offered, *u.ReleaseChannel, "releaseChannel"); err != nil {
			return err
		}
		spec.ReleaseChannel, spec.ReleaseChannelVersion, spec.Hold = *u.ReleaseChannel, "", nil
	}
	if u.ReleaseChannelVersion != nil {
		channel, err := channelNamed(offered, spec.ReleaseChannel, "releaseChannel")
		if err != nil {
			return err
		}
		entry, err := version.Listed(*u.ReleaseChannelVersion, entries, channel)
		if err != nil {
			return rest.BadRequest("releaseChannelVersion: %s", err)
		}
		spec.ReleaseChannelVersion = entry.ReleaseChannelVersion
		spec.Hold = ptr.To(version.HoldForChoice(entry.Version, channel, u.ReleaseChannelVersionHold))
	} else if u.ReleaseChannelVersionHold != nil {
		spec.Hold = u.ReleaseChannelVersionHold
	}
	return nil
}

func (u *UpdateDeployment) applySettings(d *v1alpha1.Deployment) error {
	spec := &d.Spec
	if u.CreationMethod != nil {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1alpha1.AnnotationCreationMethod, *u.CreationMethod)
	}
	if u.Name != nil && string(*u.Name) != d.DisplayName() {
		spec.DisplayName = string(*u.Name)
	}
	if u.CustomDomain != nil {
		if spec.DataAPI == nil && *u.CustomDomain != "" {
			spec.DataAPI = &v1alpha1.DataAPI{}
		}
		if spec.DataAPI != nil {
			spec.DataAPI.CustomDomain = v1alpha1.Host(strings.ToLower(*u.CustomDomain))
		}
	}
	if err := u.applyModel(&spec.Model); err != nil {
		return err
	}
	if u.Template != nil {
		size := v1alpha1.SizeShared
		if *u.Template == "simpleCluster" {
			size = v1alpha1.SizeDedicated
		}
		if size != v1alpha1.SizeShared || spec.Size != "" {
			spec.Size = size
		}
	}
	if u.TemplateVariables != nil && u.TemplateVariables.Replicas != nil {
		spec.Replicas = u.TemplateVariables.Replicas
	}
	return nil
}

// applyModel sets the branch and the folder of a model in Git.
func (u *UpdateDeployment) applyModel(model *v1alpha1.ModelSource) error {
	var branch, path *string
	switch {
	case model.Git != nil:
		branch, path = &model.Git.Branch, &model.Git.Path
	case model.Repository != nil:
		branch, path = &model.Repository.Branch, &model.Repository.Path
	case u.DeployBranchName != nil:
		return rest.BadRequest("deployBranchName: the model of this deployment is not in Git")
	case u.DeployProjectRoot != nil:
		return rest.BadRequest("deployProjectRoot: the model of this deployment is not in Git")
	}
	if u.DeployBranchName != nil {
		*branch = *u.DeployBranchName
	}
	if u.DeployProjectRoot != nil {
		*path = strings.Trim(*u.DeployProjectRoot, "/")
	}
	return nil
}
