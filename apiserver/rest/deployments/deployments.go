package deployments

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/internal/claims"
)

const (
	deploymentsPath = "/api/v1/deployments"
	deploymentPath  = deploymentsPath + "/{deploymentId}"
	buildPath       = "/build/api/v1/deployments/{deploymentId}"
)

// Permissions that single routes ask for.
const (
	mayCreate       v1alpha1.Permission = "DeploymentCreate"
	mayRead         v1alpha1.Permission = "DeploymentRead"
	mayUpdate       v1alpha1.Permission = "DeploymentUpdate"
	mayDelete       v1alpha1.Permission = "DeploymentDelete"
	mayReadModel    v1alpha1.Permission = "SchemaRead"
	mayUpdateModel  v1alpha1.Permission = "SchemaUpdate"
	maySecrets      v1alpha1.Permission = "SecretsManage"
	mayAdmin                            = v1alpha1.PermissionAdmin
	anybody         v1alpha1.Permission = ""
	maxWaitForStart                     = time.Minute
)

var deployments = family{"Deployments", "Analytics deployments of the account.", []route{
	on(http.MethodGet, deploymentsPath, "getDeployments", mayRead, "List deployments", (*API).listDeployments),
	on(http.MethodPost, "/build/api/v1/deployments", "createDeployment", mayCreate, "Create a deployment", (*API).createDeployment),
	on(http.MethodGet, deploymentPath, "getDeployment", mayRead, "Get a deployment", (*API).getDeployment),
	on(http.MethodPut, deploymentPath, "updateDeployment", mayUpdate, "Change a deployment, or switch its version", (*API).updateDeployment),
	on(http.MethodDelete, deploymentPath, "deleteDeployment", mayDelete, "Delete a deployment and all that belongs to it", (*API).deleteDeployment),
	on(http.MethodGet, deploymentPath+"/build-status", "buildStatus", mayRead, "Tell how far a branch's environment is", (*API).buildStatus),
	on(http.MethodPost, deploymentPath+"/creation-step/advance", "advanceCreationStep", mayUpdate, "Go to a step of the creation", (*API).advanceStep),
	on(http.MethodPost, deploymentPath+"/creation-step/reset", "resetCreationStep", mayUpdate, "Go back to the first step of the creation", (*API).resetStep),
}}

// Deployment as it is documented.
type Deployment struct {
	ID            string    `json:"id" pattern:"^[1-9][0-9]*$" doc:"Number of the deployment in its account."`
	Name          string    `json:"name"`
	CreatedAt     time.Time `json:"created_at"`
	DeploymentURL string    `json:"deploymentUrl" doc:"Address of the data API, without its base path."`
	CreationStep  string    `json:"creationStep" enum:"project,upload,schema,github,ssh,databases,ready,demo"`
}

// Annotations that keep what a client says of a deployment and nothing depends on.
const (
	annotationStep     = v1alpha1.Group + "/creation-step"
	annotationMethod   = v1alpha1.Group + "/creation-method"
	annotationPlatform = v1alpha1.Group + "/target-platform"
)

func deploymentOf(d *v1alpha1.Deployment) Deployment {
	step := d.Annotations[annotationStep]
	if step == "" {
		step = "ready"
	}
	return Deployment{
		ID: d.Labels[v1alpha1.LabelID], Name: d.DisplayName(), CreatedAt: d.CreationTimestamp.UTC(),
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
		Pagination Pagination      `json:"pagination"`
		Items      []Deployment    `json:"items"`
		PageInfo   PageInfo        `json:"pageInfo"`
	}
}

// ListDeploymentsInput are the parameters of the list.
type ListDeploymentsInput struct {
	AnyPage
	CreationStep []string `query:"creationStep,explode" enum:"project,upload,schema,github,ssh,databases,ready,demo" maxItems:"8" doc:"Only deployments at one of these steps."`
}

func (a *API) listDeployments(ctx context.Context, in *ListDeploymentsInput) (*DeploymentList, error) {
	all, err := a.deploymentsOf(ctx)
	if err != nil {
		return nil, err
	}
	if len(in.CreationStep) > 0 {
		all = slices.DeleteFunc(slices.Clone(all), func(d *v1alpha1.Deployment) bool {
			return !slices.Contains(in.CreationStep, deploymentOf(d).CreationStep)
		})
	}
	cut, info, pagination, err := page(in.AnyPage, all, deploymentNumber)
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

// InDeployment has the number in the path. The deployment itself is in the scope by then.
type InDeployment struct {
	ID string `path:"deploymentId" pattern:"^[0-9]{1,16}$" doc:"Number of the deployment."`
}

// DeploymentOutput is one deployment.
type DeploymentOutput struct{ Body Deployment }

func (a *API) getDeployment(ctx context.Context, _ *InDeployment) (*DeploymentOutput, error) {
	return &DeploymentOutput{deploymentOf(scopeOf(ctx).deployment)}, nil
}

// CreateDeploymentInput is the body of a creation. The model is a ConfigMap without cubes at first.
type CreateDeploymentInput struct {
	Body struct {
		Name           string  `json:"name" minLength:"1" maxLength:"128" doc:"Name shown to people, unique in the account."`
		Region         string  `json:"region" minLength:"1" maxLength:"128" doc:"Name of one of the regions."`
		CloudProvider  string  `json:"cloudProvider" enum:"cubecloud,aws,gcp" doc:"Who runs the cluster: cubecloud, the platform itself, is the only choice here."`
		TargetPlatform string  `json:"targetPlatform" minLength:"1" maxLength:"63" doc:"Kept and shown in the settings."`
		IsManaged      bool    `json:"isManaged" doc:"true is the only choice here: the platform runs what it lists."`
		CreationStep   string  `json:"creationStep" enum:"project,upload,schema,github,ssh,databases,ready,demo"`
		CreationMethod *string `json:"creationMethod,omitempty" nullable:"true" enum:"upload,cubecloud,github,ssh"`
		DeployMode     *string `json:"deployMode,omitempty" nullable:"true" enum:"git,cli" doc:"cli is the only choice at creation: the model comes from Git when the Deployment's YAML says so."`
	}
}

func (a *API) createDeployment(ctx context.Context, in *CreateDeploymentInput) (*DeploymentOutput, error) {
	s := scopeOf(ctx)
	body := &in.Body
	switch {
	case s.principal.Deployments != nil:
		return nil, forbidden("the key is confined to certain deployments and cannot make others")
	case strings.TrimSpace(body.Name) != body.Name:
		return nil, badRequest("name: %q begins or ends with white space", clip(body.Name))
	case body.Region != a.Region.Name:
		return nil, badRequest("region: %q does not exist; existing: %s", clip(body.Region), a.Region.Name)
	case body.CloudProvider != "cubecloud":
		return nil, badRequest("cloudProvider: %q is not served here; allowed: cubecloud", body.CloudProvider)
	case !body.IsManaged:
		return nil, badRequest("isManaged: false is not served here; allowed: true")
	case body.DeployMode != nil && *body.DeployMode != "cli":
		return nil, badRequest("deployMode: %q is not served at creation; allowed: cli", *body.DeployMode)
	}
	channel, err := a.defaultChannel(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.nameIsFree(ctx, body.Name, ""); err != nil {
		return nil, err
	}
	d := &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   s.namespace(),
			Annotations: map[string]string{annotationStep: body.CreationStep, annotationPlatform: body.TargetPlatform},
		},
		Spec: v1alpha1.DeploymentSpec{DisplayName: body.Name, ReleaseChannel: channel},
	}
	if body.CreationMethod != nil {
		d.Annotations[annotationMethod] = *body.CreationMethod
	}
	if err := a.createUnderFreeName(ctx, d); err != nil {
		return nil, err
	}
	return a.numbered(ctx, d)
}

// defaultChannel is the one that a new deployment follows: latest, or the first by name.
func (a *API) defaultChannel(ctx context.Context) (string, error) {
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
		return "", conflict("there is no release channel yet: an administrator has to apply a ReleaseChannel first")
	}
	return first, nil
}

// nameIsFree is for a clear answer; who has a name is decided by the controller's claims.
func (a *API) nameIsFree(ctx context.Context, name, except string) error {
	list := &v1alpha1.DeploymentList{}
	if err := a.Kube.List(ctx, list, client.InNamespace(scopeOf(ctx).namespace()), client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range list.Items {
		d := &list.Items[i]
		if d.Name != except && d.DeletionTimestamp.IsZero() && strings.EqualFold(d.DisplayName(), name) {
			return conflict("name: %q is the name of another deployment of the account", clip(name))
		}
	}
	return nil
}

// createUnderFreeName makes the object under a name made of the one shown. Its model is there
// before it is: a crash in between leaves a ConfigMap, which the next try takes.
func (a *API) createUnderFreeName(ctx context.Context, d *v1alpha1.Deployment) error {
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
			return err
		}
		model := emptyModel(d)
		err = a.Kube.Create(ctx, model)
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		isOurs := err == nil
		d.ResourceVersion, d.Spec.Model.ConfigMapRef = "", &v1alpha1.LocalReference{Name: model.Name}
		if err := a.Kube.Create(ctx, d); apierrors.IsAlreadyExists(err) {
			continue
		} else if err != nil {
			return err
		}
		if !isOurs {
			return nil // it was there: it does not go with the deployment
		}
		before := model.DeepCopy()
		if err := controllerutil.SetControllerReference(d, model, a.Kube.Scheme()); err != nil {
			return err
		}
		return a.Kube.Patch(ctx, model, client.MergeFrom(before))
	}
	return conflict("name: too many deployments have names like %q", clip(d.Spec.DisplayName))
}

// emptyModel is a model without cubes.
func emptyModel(d *v1alpha1.Deployment) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name + "-model", Labels: map[string]string{v1alpha1.LabelDeployment: d.Name},
		},
		Data: map[string]string{"model.yml": "cubes: []\n"},
	}
}

const maxObjectName = 32

// objectName makes the name of an object, which becomes a host name, of one shown to people.
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

// numbered waits for the number of a new deployment. One that has lost its name to another,
// made at the same time, is removed again.
func (a *API) numbered(ctx context.Context, d *v1alpha1.Deployment) (*DeploymentOutput, error) {
	fresh := &v1alpha1.Deployment{}
	lost := false
	err := a.await(ctx, func(ctx context.Context) (bool, error) {
		if err := a.Kube.Client.Get(ctx, client.ObjectKeyFromObject(d), fresh); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		lost = claims.IsNameTaken(fresh)
		return lost || numberOf(fresh) > 0 && fresh.Status.URL != "", nil
	})
	if err != nil {
		return nil, err
	}
	a.catalog.forget(d.Namespace)
	if lost {
		if err := a.Kube.Delete(ctx, d, client.Preconditions{UID: &d.UID}); client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		return nil, conflict("name: %q is the name of another deployment of the account", clip(d.Spec.DisplayName))
	}
	return &DeploymentOutput{deploymentOf(fresh)}, nil
}

// SuccessOutput is the answer to a deletion.
type SuccessOutput struct {
	Body struct {
		Success bool `json:"success"`
	}
}

func success() *SuccessOutput {
	out := &SuccessOutput{}
	out.Body.Success = true
	return out
}

func (a *API) deleteDeployment(ctx context.Context, _ *InDeployment) (*SuccessOutput, error) {
	d := scopeOf(ctx).deployment
	if owner := edit.Owner(d); owner != "" {
		return nil, conflict("deployment %s is applied by %q, which would make it again: delete it where it is written, such as in Git", d.Labels[v1alpha1.LabelID], owner)
	}
	if err := a.Kube.Delete(ctx, d, client.Preconditions{UID: &d.UID}); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	a.seen(ctx, d, false)
	return success(), nil
}

func said(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// AdvanceStepInput names the step.
type AdvanceStepInput struct {
	InDeployment
	Body struct {
		CreationStep string `json:"creationStep" enum:"project,upload,schema,github,ssh,databases,ready,demo"`
	}
}

func (a *API) advanceStep(ctx context.Context, in *AdvanceStepInput) (*DeploymentOutput, error) {
	return a.setStep(ctx, in.Body.CreationStep)
}

func (a *API) resetStep(ctx context.Context, _ *InDeployment) (*DeploymentOutput, error) {
	return a.setStep(ctx, "project")
}

func (a *API) setStep(ctx context.Context, step string) (*DeploymentOutput, error) {
	d := scopeOf(ctx).deployment
	if err := a.annotate(ctx, d, annotationStep, step); err != nil {
		return nil, err
	}
	return &DeploymentOutput{deploymentOf(d)}, nil
}

// annotate notes what a client says of a deployment and nothing depends on.
func (a *API) annotate(ctx context.Context, d *v1alpha1.Deployment, name, value string) error {
	before := d.DeepCopy()
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, name, value)
	if err := a.Kube.Patch(ctx, d, client.MergeFrom(before), client.FieldOwner(edit.Manager)); err != nil {
		return fmt.Errorf("note %s: %w", name, err)
	}
	a.seen(ctx, d, true)
	return nil
}
