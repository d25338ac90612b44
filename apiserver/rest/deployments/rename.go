package deployments

import (
	"context"
	"errors"

	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/claims"
)

// renaming is the change of the display name of a deployment. The new name is reserved before it is written: of concurrent
// requests that give deployments the same name, one succeeds.
type renaming struct {
	*claims.Reservation[*v1alpha1.Deployment]
	api *api
	// deployment as it was before the change.
	deployment *v1alpha1.Deployment
	name       string
}

// rename reserves a display name for a deployment. It returns nil if the deployment keeps its name.
func (a *api) rename(ctx context.Context, d *v1alpha1.Deployment, name *rest.DisplayName) (*renaming, error) {
	if name == nil || string(*name) == d.DisplayName() {
		return nil, nil
	}
	r := &renaming{claims.DeploymentName.Reservation(a.Kube, clock.RealClock{}, d.Namespace, d.Name), a, d, string(*name)}
	holder, err := r.Reserve(ctx, r.name)
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

// end ends the change after the write, which may have failed, and returns the error of the request. The claim on the name that
// the deployment does not have is released.
func (r *renaming) end(ctx context.Context, failed error) error {
	if r == nil {
		return failed
	}
	if failed == nil {
		failed = r.confirm(ctx)
	}
	if failed != nil {
		r.Release(ctx)
		return failed
	}
	r.api.releaseName(ctx, r.deployment)
	return nil
}

// confirm gives the deployment its previous name again if the write took so long that another deployment has got the
// new one.
func (r *renaming) confirm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), edit.Timeout)
	defer cancel()
	held, err := r.Confirm(ctx)
	if err != nil || held {
		return err
	}
	isLost := false
	_, err = edit.Change(ctx, r.api.Kube, r.deployment, func(current *v1alpha1.Deployment) error {
		if isLost = current.DisplayName() == r.name; isLost {
			current.Spec.DisplayName = r.deployment.Spec.DisplayName
		}
		return nil
	})
	if err == nil && isLost {
		err = nameTaken(r.name)
	}
	return err
}

// releaseName deletes the claim on the display name that a deployment had, best-effort.
func (a *api) releaseName(ctx context.Context, before *v1alpha1.Deployment) {
	claims.DeploymentName.TryRelease(ctx, a.Kube, before.Namespace, before.Name, before.DisplayName())
}
