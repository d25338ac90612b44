package deployments

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/catalog"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/fieldowner"
	"github.com/quoin-dev/quoin/internal/freshness"
)

func (a *api) deploymentsFamily() rest.Family {
	return rest.Family{Tag: "Deployments", Description: "Analytics deployments of the account.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, deploymentsPath, "getDeployments", v1alpha1.PermissionDeploymentRead, "List deployments", a.listDeployments),
		rest.Handle(http.MethodPost, "/build/api/v1/deployments", "createDeployment", v1alpha1.PermissionDeploymentCreate, "Create a deployment", a.createDeployment),
		rest.Handle(http.MethodGet, deploymentPath, "getDeployment", v1alpha1.PermissionDeploymentRead, "Get a deployment", a.getDeployment),
		rest.Handle(http.MethodPut, deploymentPath, "updateDeployment", v1alpha1.PermissionDeploymentUpdate, "Change a deployment, or switch its version", a.updateDeployment),
		rest.Handle(http.MethodDelete, deploymentPath, "deleteDeployment", v1alpha1.PermissionDeploymentDelete, "Delete a deployment and all that belongs to it", a.deleteDeployment),
		rest.Handle(http.MethodGet, deploymentPath+"/build-status", "buildStatus", v1alpha1.PermissionDeploymentRead, "Tell how far a branch's environment is", a.buildStatus),
		rest.Handle(http.MethodPost, deploymentPath+"/creation-step/advance", "advanceCreationStep", v1alpha1.PermissionDeploymentUpdate, "Go to a step of the creation", a.advanceStep),
		rest.Handle(http.MethodPost, deploymentPath+"/creation-step/reset", "resetCreationStep", v1alpha1.PermissionDeploymentUpdate, "Go back to the first step of the creation", a.resetStep),
	}}
}

// Deployment is the documented representation of a Deployment.
type Deployment struct {
	ID            string `json:"id" pattern:"^[1-9][0-9]*$" doc:"Number of the deployment in its account."`
	Name          string `json:"name"`
	CreatedAt     string `json:"created_at" format:"date-time"` // formatted once, because lists have two shapes
	DeploymentURL string `json:"deploymentUrl" doc:"Address of the data API, without its base path."`
	CreationStep  string `json:"creationStep" enum:"project,upload,schema,github,ssh,databases,ready,demo"`
}

func deploymentOf(d *v1alpha1.Deployment) Deployment {
	step := d.Annotations[v1alpha1.AnnotationCreationStep]
	if step == "" {
		step = "ready"
	}
	return Deployment{
		ID: d.Labels[v1alpha1.LabelID], Name: d.DisplayName(), CreatedAt: d.CreationTimestamp.UTC().Format(time.RFC3339),
		DeploymentURL: d.Status.URL, CreationStep: step,
	}
}

// deploymentItems is the documented payload of the list.
type deploymentItems struct {
	Deployments []Deployment `json:"deployments"`
}

// DeploymentList is a page of deployments, in both shapes.
type DeploymentList struct {
	Body struct {
		Data       deploymentItems `json:"data"`
		Pagination rest.Pagination `json:"pagination"`
		Items      []Deployment    `json:"items"`
		PageInfo   rest.PageInfo   `json:"pageInfo"`
	}
}

// ListDeploymentsInput has the parameters of the list.
type ListDeploymentsInput struct {
	rest.Page
	CreationStep []string `query:"creationStep,explode" enum:"project,upload,schema,github,ssh,databases,ready,demo" maxItems:"8" doc:"Only deployments at one of these steps."`
}

func (a *api) listDeployments(ctx context.Context, in *ListDeploymentsInput) (*DeploymentList, error) {
	s := rest.ScopeFrom(ctx)
	all, err := a.Catalog.Deployments(s.Namespace(), s.Principal, v1alpha1.PermissionDeploymentRead)
	if err != nil {
		return nil, err
	}
	if len(in.CreationStep) > 0 {
		all = slices.DeleteFunc(slices.Clone(all), func(d *v1alpha1.Deployment) bool {
			return !slices.Contains(in.CreationStep, deploymentOf(d).CreationStep)
		})
	}
	cut, info, pagination, err := rest.Paginate(ctx, in.Page, all, catalog.NumberOf[*v1alpha1.Deployment])
	if err != nil {
		return nil, err
	}
	out := &DeploymentList{}
	out.Body.Items = make([]Deployment, 0, len(cut))
	for _, d := range cut {
		out.Body.Items = append(out.Body.Items, deploymentOf(d))
	}
	out.Body.Data.Deployments, out.Body.Pagination, out.Body.PageInfo = out.Body.Items, pagination, info
	return out, nil
}

// DeploymentOutput is one deployment.
type DeploymentOutput struct{ Body Deployment }

func (a *api) getDeployment(ctx context.Context, _ *rest.InDeployment) (*DeploymentOutput, error) {
	return &DeploymentOutput{deploymentOf(rest.ScopeFrom(ctx).Deployment)}, nil
}

// CreateDeploymentInput is the body of a creation. The initial model is a project without cubes in a
// repository that Quoin keeps; without a database, a ConfigMap.
type CreateDeploymentInput struct {
	Body struct {
		Name           rest.DisplayName `json:"name" minLength:"1" maxLength:"128" doc:"Display name, unique in the account."`
		Region         string           `json:"region" minLength:"1" maxLength:"128" doc:"Name of one of the regions."`
		CloudProvider  string           `json:"cloudProvider" enum:"cubecloud" doc:"Operator of the cluster. Only cubecloud, the platform itself, is supported."`
		TargetPlatform string           `json:"targetPlatform" minLength:"1" maxLength:"63" doc:"Stored and returned in the settings."`
		IsManaged      bool             `json:"isManaged" enum:"true" doc:"Only true is supported: the platform runs all deployments."`
		CreationStep   string           `json:"creationStep" enum:"project,upload,schema,github,ssh,databases,ready,demo"`
		CreationMethod *string          `json:"creationMethod,omitempty" nullable:"true" enum:"upload,cubecloud,github,ssh" doc:"With github, the repository stays empty until one is connected or pushed."`
		DeployMode     *string          `json:"deployMode,omitempty" nullable:"true" enum:"git,cli" doc:"Stored and returned in the settings; cli when absent. Both ways of deploying are always possible."`
	}
}

func (a *api) createDeployment(ctx context.Context, in *CreateDeploymentInput) (*DeploymentOutput, error) {
	s := rest.ScopeFrom(ctx)
	body := &in.Body
	if body.Region != a.Region.Name {
		return nil, rest.BadRequest("region: %q does not exist; existing: %s", rest.Clip(body.Region), a.Region.Name)
	}
	channel, err := a.defaultChannel(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.checkName(ctx, string(body.Name), ""); err != nil {
		return nil, err
	}
	d := &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   s.Namespace(),
			Annotations: map[string]string{v1alpha1.AnnotationCreationStep: body.CreationStep, v1alpha1.AnnotationTargetPlatform: body.TargetPlatform},
		},
		Spec: v1alpha1.DeploymentSpec{DisplayName: string(body.Name), ReleaseChannel: channel},
	}
	if err := a.chooseModel(ctx, d, body.CreationMethod, body.DeployMode); err != nil {
		return nil, err
	}
	w, err := a.createUnderFreeName(ctx, d)
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	created, err := a.waitForID(ctx, d, w)
	if err == nil {
		a.waitForProduction(ctx, d, w)
	}
	return created, err
}

// defaultChannel returns the channel of a new deployment: latest, or the first by name.
func (a *api) defaultChannel(ctx context.Context) (string, error) {
	list := &v1alpha1.ReleaseChannelList{}
	if err := a.Kube.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return "", err
	}
	first := ""
	for i := range list.Items {
		name := list.Items[i].Name
		if name == "latest" {
			return name, nil
		}
		if first == "" || name < first {
			first = name
		}
	}
	if first == "" {
		return "", rest.Conflict("there is no release channel yet: an administrator has to apply a ReleaseChannel first")
	}
	return first, nil
}

// checkName returns a conflict if another deployment has a display name. It only gives a clear error
// early: claims decide.
func (a *api) checkName(ctx context.Context, name, except string) error {
	list := &v1alpha1.DeploymentList{}
	if err := a.Kube.List(ctx, list, client.InNamespace(rest.ScopeFrom(ctx).Namespace()), client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range list.Items {
		d := &list.Items[i]
		if d.Name != except && d.DeletionTimestamp.IsZero() && strings.EqualFold(d.DisplayName(), name) {
			return nameTaken(name)
		}
	}
	return nil
}

// createUnderFreeName creates the object under a name derived from the display name, and returns a
// wait that began before.
func (a *api) createUnderFreeName(ctx context.Context, d *v1alpha1.Deployment) (*freshness.Wait, error) {
	stem := objectName(d.Spec.DisplayName)
	for i := 1; i <= 50; i++ {
		suffix := ""
		if i > 1 {
			suffix = "-" + strconv.Itoa(i)
		}
		d.Name = strings.TrimRight(stem[:min(len(stem), maxObjectName-len(suffix))], "-") + suffix
		err := a.Kube.Live().Get(ctx, client.ObjectKeyFromObject(d), &v1alpha1.Deployment{})
		if err == nil {
			continue
		}
		if !apierrors.IsNotFound(err) {
			return nil, err
		}
		w := a.Kube.Expect(d)
		err = a.createObject(ctx, d)
		if err == nil {
			return w, nil
		}
		w.Stop()
		if !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
	}
	return nil, rest.Conflict("name: too many deployments have names like %q", rest.Clip(d.Spec.DisplayName))
}

const maxObjectName = 32

// objectName derives the name of an object, which becomes part of a host name, from a display name.
func objectName(shown string) string {
	words := strings.FieldsFunc(strings.ToLower(shown), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	name := strings.Join(words, "-")
	if name == "" || name[0] < 'a' {
		name = strings.TrimRight("d-"+name, "-")
	}
	return name[:min(len(name), maxObjectName)]
}

// waitForID waits for the id of a new deployment. A deployment that has lost its display name to
// another one, created at the same time, is deleted again.
func (a *api) waitForID(ctx context.Context, d *v1alpha1.Deployment, w *freshness.Wait) (*DeploymentOutput, error) {
	var current *v1alpha1.Deployment
	err := w.Until(ctx, edit.Timeout, func(o metav1.Object, _ bool) bool {
		current, _ = o.(*v1alpha1.Deployment)
		return current.UID == d.UID && (claims.IsNameTaken(current) || catalog.NumberOf(current) > 0 && current.Status.URL != "")
	})
	if err != nil {
		return nil, err
	}
	if claims.IsNameTaken(current) {
		if err := a.Kube.Delete(ctx, d, client.Preconditions{UID: &d.UID}); client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		return nil, nameTaken(d.Spec.DisplayName)
	}
	recording.Identified(ctx, current)
	return &DeploymentOutput{deploymentOf(current)}, nil
}

func (a *api) deleteDeployment(ctx context.Context, _ *rest.InDeployment) (*rest.SuccessOutput, error) {
	d := rest.ScopeFrom(ctx).Deployment
	if owner := fieldowner.OfSpec(d); owner != "" {
		return nil, rest.Conflict("deployment %s is applied by %q, which would create it again: delete it at its source, such as Git", d.Labels[v1alpha1.LabelID], owner)
	}
	if err := edit.Delete(ctx, a.Kube, d); err != nil {
		return nil, err
	}
	// A claim from a change of the name over REST has no owner: the next deployment of the name would wait for it.
	a.releaseName(ctx, d)
	return rest.Success(), nil
}

// AdvanceStepInput is the body of a change of the step.
type AdvanceStepInput struct {
	rest.InDeployment
	Body struct {
		CreationStep string `json:"creationStep" enum:"project,upload,schema,github,ssh,databases,ready,demo"`
	}
}

func (a *api) advanceStep(ctx context.Context, in *AdvanceStepInput) (*DeploymentOutput, error) {
	return a.setStep(ctx, in.Body.CreationStep)
}

func (a *api) resetStep(ctx context.Context, _ *rest.InDeployment) (*DeploymentOutput, error) {
	return a.setStep(ctx, "project")
}

func (a *api) setStep(ctx context.Context, step string) (*DeploymentOutput, error) {
	d, err := edit.Change(ctx, a.Kube, rest.ScopeFrom(ctx).Deployment, func(d *v1alpha1.Deployment) error {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1alpha1.AnnotationCreationStep, step)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &DeploymentOutput{deploymentOf(d)}, nil
}
