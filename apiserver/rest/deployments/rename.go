package deployments

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/claims"
)

// reservedName is a new display name that is reserved for a deployment before it is written: of concurrent requests
// that give deployments the same name, one succeeds.
type reservedName struct {
	api *api
	// deployment as it was before the change.
	deployment *v1alpha1.Deployment
	name       string
	since      time.Time
}

// reserveName reserves a display name for a deployment. It returns nil if the deployment keeps its name.
func (a *api) reserveName(ctx context.Context, d *v1alpha1.Deployment, name *rest.DisplayName) (*reservedName, error) {
	if name == nil || string(*name) == d.DisplayName() {
		return nil, nil
	}
	r := &reservedName{a, d, string(*name), a.Now()}
	holder, err := claims.DeploymentName.Reserve(ctx, a.Kube, d.Namespace, d.Name, r.name)
	switch {
	case errors.Is(err, claims.ErrInFlight):
		return nil, rest.Conflict("name: %q is being given to another deployment of the account; try again", rest.Clip(r.name))
	case err != nil:
		return nil, err
	case holder != "":
		return nil, nameTaken(r.name)
	}
	return r, nil
}

// nameTaken is the error of a display name that another deployment has.
func nameTaken(name string) error {
	return rest.Conflict("name: %q is the name of another deployment of the account", rest.Clip(name))
}

// end ends the reservation after the write, which may have failed, and returns the error of the request. The claim on
// the name that the deployment does not have is released.
func (r *reservedName) end(ctx context.Context, failed error) error {
	if r == nil {
		return failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), edit.Timeout)
	defer cancel()
	if failed == nil && r.api.Now().Sub(r.since) >= claims.ReserveTimeout/2 {
		failed = r.confirm(ctx)
	}
	if failed != nil {
		r.api.releaseName(ctx, r.deployment, r.name)
		return failed
	}
	r.api.releaseName(ctx, r.deployment, r.deployment.DisplayName())
	return nil
}

// confirm gives the deployment its previous name again if the write took so long that another deployment has got the
// new one.
func (r *reservedName) confirm(ctx context.Context) error {
	d := r.deployment
	kept, err := claims.DeploymentName.Confirm(ctx, r.api.Kube, d.Namespace, d.Name, r.name)
	if err != nil || kept {
		return err
	}
	isLost := false
	_, err = edit.Change(ctx, r.api.Kube, d, func(current *v1alpha1.Deployment) error {
		if isLost = current.DisplayName() == r.name; isLost {
			current.Spec.DisplayName = d.Spec.DisplayName
		}
		return nil
	})
	if err == nil && isLost {
		err = nameTaken(r.name)
	}
	return err
}

// releaseName deletes the claim of a deployment on a display name that it does not have, best-effort.
func (a *api) releaseName(ctx context.Context, d *v1alpha1.Deployment, name string) {
	if err := claims.DeploymentName.Release(ctx, a.Kube, d.Namespace, d.Name, name); err != nil {
		log.FromContext(ctx).Error(err, "Cannot release the claim on a display name; the controller will delete it", "deployment", d.Name)
	}
}
