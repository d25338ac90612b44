package deployments

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/starter"
	"github.com/quoin-dev/quoin/internal/content"
)

// methodGitHub is the creation method of deployments whose repository is connected later.
const methodGitHub = "github"

// chooseModel sets the model of a new deployment: a repository that Quoin keeps, with a starter project
// by the caller and an environment on demand for each branch. Without a database, it is a ConfigMap.
func (a *api) chooseModel(ctx context.Context, d *v1alpha1.Deployment, method, mode *string) error {
	if method != nil {
		d.Annotations[v1alpha1.AnnotationCreationMethod] = *method
	}
	if a.Repositories == nil {
		if mode != nil && *mode != modeCLI {
			return rest.BadRequest("deployMode: %q needs a repository, which quoin apiserver keeps in its database, and it has no --database-url; allowed: %s", *mode, modeCLI)
		}
		return nil
	}
	if mode != nil {
		d.Annotations[v1alpha1.AnnotationDeployMode] = *mode
	}
	d.Spec.Model.Repository = &v1alpha1.RepositorySource{}
	d.Spec.OnDemand = &v1alpha1.OnDemand{Roles: []v1alpha1.OnDemandRole{v1alpha1.OnDemandRole(v1alpha1.BranchShared), v1alpha1.OnDemandRole(v1alpha1.BranchPersonal)}}
	if method == nil || *method != methodGitHub {
		name, email := rest.Author(ctx)
		starter.Request(d, name, email)
	}
	return nil
}

// Deploy modes.
const (
	modeGit = "git"
	modeCLI = "cli"
)

// deployModeOf returns the documented deploy mode and type of the repository of a deployment.
func deployModeOf(d *v1alpha1.Deployment) (mode, repository string) {
	switch {
	case d.Spec.Model.Git != nil:
		return modeGit, "git"
	case d.Spec.Model.Repository == nil:
		return modeCLI, ""
	case d.Annotations[v1alpha1.AnnotationDeployMode] == modeGit:
		return modeGit, "deployRepo"
	}
	return modeCLI, "deployRepo"
}

// createObject creates the object with its model: a repository after it, or a ConfigMap before it.
func (a *api) createObject(ctx context.Context, d *v1alpha1.Deployment) error {
	if d.Spec.Model.Repository == nil {
		return a.createWithConfigMap(ctx, d)
	}
	d.ResourceVersion = ""
	if err := a.Kube.Create(ctx, d); err != nil {
		return err
	}
	// Not an error of the creation: the first reader of the repository makes the commit too.
	if err := starter.Ensure(a.Repositories.Session(ctx, contentOf(ctx, d)), d); err != nil {
		log.FromContext(ctx).Error(err, "The starter project is not made yet; the first read of the repository makes it", "deployment", d.Name)
	}
	return nil
}

// contentOf returns a deployment in the form of the content database.
func contentOf(ctx context.Context, d *v1alpha1.Deployment) content.Scope {
	of := *rest.ScopeFrom(ctx)
	of.Deployment = d
	return of.Content()
}

// createWithConfigMap creates a deployment and, before it, the ConfigMap with its model: after a crash
// in between, the next attempt uses it.
func (a *api) createWithConfigMap(ctx context.Context, d *v1alpha1.Deployment) error {
	model := emptyModel(d)
	err := a.Kube.Create(ctx, model)
	existed := apierrors.IsAlreadyExists(err)
	if err != nil && !existed {
		return err
	}
	d.ResourceVersion, d.Spec.Model.ConfigMapRef = "", &v1alpha1.LocalReference{Name: model.Name}
	if err := a.Kube.Create(ctx, d); err != nil {
		return err
	}
	if existed {
		return nil // the ConfigMap existed before: it is not deleted with the deployment
	}
	before := model.DeepCopy()
	if err := controllerutil.SetControllerReference(d, model, a.Kube.Scheme()); err != nil {
		return err
	}
	return a.Kube.Patch(ctx, model, client.MergeFrom(before))
}

// emptyModel returns the ConfigMap of a model without cubes.
func emptyModel(d *v1alpha1.Deployment) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name + "-model", Labels: map[string]string{v1alpha1.LabelDeployment: d.Name},
		},
		Data: map[string]string{"model.yml": "cubes: []\n"},
	}
}
