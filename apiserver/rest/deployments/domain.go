package deployments

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// checkDomain returns an error if the deployment may not have a custom domain, which may have a port.
// It only gives a clear error early: the claims of the controller decide. Errors do not disclose
// which tenant has the domain.
func (a *api) checkDomain(ctx context.Context, d *v1alpha1.Deployment, requested string) error {
	domain := tenant.HostName(v1alpha1.Host(requested))
	if domain == "" || domain == tenant.RequestedDomain(d) {
		return nil
	}
	account := rest.ScopeFrom(ctx).Account
	if !tenant.AllowsDomain(account, domain) {
		return rest.BadRequest("customDomain: %q is not allowed in this account; ask the administrator", rest.Clip(domain))
	}
	accounts, deployments := &v1alpha1.AccountList{}, &v1alpha1.DeploymentList{}
	for _, list := range []client.ObjectList{accounts, deployments} {
		if err := a.Kube.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
	}
	taken := tenant.IsForeign(domain, tenant.Owners(accounts.Items), account) ||
		slices.ContainsFunc(accounts.Items, func(a v1alpha1.Account) bool { return tenant.HoldsHost(&a, domain) }) ||
		slices.ContainsFunc(deployments.Items, func(other v1alpha1.Deployment) bool {
			return other.UID != d.UID && other.DeletionTimestamp.IsZero() && other.Status.CustomDomain == domain
		})
	if taken {
		return rest.Conflict("customDomain: %q is already in use; choose another, or ask the administrator", rest.Clip(domain))
	}
	return nil
}
