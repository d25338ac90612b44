package deployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// claimHost claims the custom domain of a deployment and shows it in the status, from where the
// gateway serves it. It returns a Stalled outcome if the deployment may not have the domain: its
// versions are rolled out all the same, because its other host works. Suspension does not apply:
// a domain that the spec no longer has must be released.
func (r *deploymentReconciler) claimHost(ctx context.Context, s *scope) (*reconciler.Outcome, error) {
	d := s.Object
	domain := tenant.RequestedDomain(d)
	if domain == "" && d.Status.CustomDomain == "" {
		return nil, nil
	}
	account, err := tenant.Of(ctx, s.Client, d.Namespace)
	if errors.Is(err, tenant.ErrNoAccount) {
		return nil, nil // the next step reports it; the gateway does not serve the deployment
	}
	if err != nil {
		return nil, err
	}
	var problem *reconciler.Outcome
	if domain != "" {
		if problem, err = r.admitHost(ctx, s, account, domain); err != nil {
			return nil, err
		}
	}
	held := domain
	if problem != nil {
		held = ""
	}
	if d.Status.CustomDomain == held {
		return problem, nil
	}
	d.Status.CustomDomain = held
	if err := s.Save(ctx); err != nil {
		return nil, err
	}
	return problem, r.Hosts.Release(ctx, s.Client, d, held)
}

// admitHost claims a domain, or returns why the deployment may not have it. Messages do not
// disclose which tenant has a domain.
func (r *deploymentReconciler) admitHost(ctx context.Context, s *scope, account *v1alpha1.Account, domain string) (*reconciler.Outcome, error) {
	if !tenant.AllowsDomain(account, domain) {
		o := reconciler.Stalled(v1alpha1.ReasonDomainNotAllowed, fmt.Sprintf(
			"spec.dataAPI.customDomain: %q is not allowed in this account; allowed are domains at or below %s",
			domain, suffixes(account)))
		return &o, nil
	}
	accounts := &v1alpha1.AccountList{}
	if err := s.List(ctx, accounts, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list accounts: %w", err)
	}
	taken, err := isHostOfAnother(ctx, s, account, domain)
	switch {
	case err != nil:
		return nil, err
	case taken || tenant.IsForeign(domain, tenant.Owners(accounts.Items), account):
		err = claims.ErrHostTaken
	default:
		err = r.Hosts.Acquire(ctx, s.Client, s.Object, domain)
	}
	if errors.Is(err, claims.ErrHostTaken) {
		o := reconciler.Stalled(v1alpha1.ReasonHostTaken, fmt.Sprintf(
			"spec.dataAPI.customDomain: %q is already in use; choose another, or ask an administrator", domain)).RequeueIn(claims.HostRetryInterval)
		return &o, nil
	}
	return nil, err
}

// isHostOfAnother reports whether a domain is the host below the data domain of another deployment of the account: requests to it are
// those of that deployment.
func isHostOfAnother(ctx context.Context, s *scope, account *v1alpha1.Account, domain string) (bool, error) {
	for _, parent := range []string{engine.SQLDomain(account), tenant.HostName(v1alpha1.Host(tenant.DataDomain(account)))} {
		name, isBelow := strings.CutSuffix(domain, "."+parent)
		if !isBelow || name == s.Object.Name || strings.Contains(name, ".") {
			continue
		}
		err := s.Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: name}, &v1alpha1.Deployment{})
		return err == nil, client.IgnoreNotFound(err)
	}
	return false, nil
}

func suffixes(account *v1alpha1.Account) string {
	names := make([]string, len(account.Spec.DomainSuffixes))
	for i, suffix := range account.Spec.DomainSuffixes {
		names[i] = string(suffix)
	}
	return strings.Join(names, ", ")
}

// withHostProblem returns the outcome of a deployment whose custom domain has a problem, or nil. A
// problem that keeps production from running is reported first.
func withHostProblem(o reconciler.Outcome, problem *reconciler.Outcome) reconciler.Outcome {
	if problem == nil || !o.IsDone() && !o.IsProgressing() {
		return o
	}
	return problem.RequeueIn(o.After)
}

// releaseHost deletes the claim of a deployment that no longer exists. If that fails, the sweep
// deletes it; until then another object can take it over.
func (r *deploymentReconciler) releaseHost(ctx context.Context, key client.ObjectKey) {
	if err := r.Hosts.ReleaseDeleted(ctx, r.client, key); err != nil {
		log.FromContext(ctx).Info("Cannot release the host of a deleted deployment; retried in the next sweep", "cause", err.Error())
	}
}

// dataDomainChanged selects creations and deletions of accounts and changes of their data domain. At
// the start, all deployments are reconciled anyway.
var dataDomainChanged = builder.WithPredicates(predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*v1alpha1.Account)
		after, ok2 := e.ObjectNew.(*v1alpha1.Account)
		return ok && ok2 && (tenant.DataDomain(before) != tenant.DataDomain(after) ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero())
	},
})

// ofDataDomain maps an account to the deployments of other accounts whose custom domain may depend on
// its data domain: those that request a domain. Few have one.
func ofDataDomain(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.DeploymentList{}, func(d *v1alpha1.Deployment) bool {
			return tenant.RequestedDomain(d) != ""
		})
	}
}

// ofOwnHosts maps a created or deleted deployment to those that request one of its hosts below the data domain as their custom domain.
func ofOwnHosts(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		d, ok := o.(*v1alpha1.Deployment)
		if !ok {
			return nil
		}
		account, err := tenant.Of(ctx, c, d.Namespace)
		if err != nil { // of no account: it has no host
			return nil
		}
		return append(ofHost(ctx, c, engine.Host(account, d)), ofHost(ctx, c, engine.SQLHost(account, d))...)
	}
}

// ofHost maps a claim on a host to the deployments that request it or show it.
func ofHost(ctx context.Context, c client.Reader, host string) []reconcile.Request {
	return requests.For(ctx, c, &v1alpha1.DeploymentList{}, requests.All[*v1alpha1.Deployment], client.MatchingFields{indexHost: host})
}

// hosts returns the hosts that a deployment requests or shows.
func hosts(obj client.Object) (all []string) {
	d, ok := obj.(*v1alpha1.Deployment)
	if !ok {
		return nil
	}
	for _, host := range []string{tenant.RequestedDomain(d), d.Status.CustomDomain} {
		if host != "" && !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	return all
}
