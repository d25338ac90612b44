package account

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=claims,verbs=create;delete;get;list;update;watch

// claimHosts claims the hosts of an account and shows those that it holds in the status. It returns
// the outcome if another object holds one of them.
func (r *accountReconciler) claimHosts(ctx context.Context, s *reconciler.Scope[*v1alpha1.Account]) (*reconciler.Outcome, error) {
	var (
		held    []string
		problem *reconciler.Outcome
	)
	for _, host := range tenant.Hosts(s.Object) {
		if slices.Contains(held, host) {
			continue // stored before the schema rejected duplicates
		}
		err := r.Hosts.Acquire(ctx, s.Client, s.Object, host)
		switch {
		case errors.Is(err, claims.ErrHostTaken):
			o := reconciler.Stalled(v1alpha1.ReasonHostTaken, fmt.Sprintf(
				"spec.host or spec.customDomains: %q is already in use by another account or deployment; to find it: kubectl get claims -n %s",
				host, r.Hosts.Namespace)).RequeueIn(claims.HostRetryInterval)
			problem = &o
		case err != nil:
			return nil, err
		default:
			held = append(held, host)
		}
	}
	return problem, r.showHosts(ctx, s, held)
}

// showHosts writes the hosts that an account holds to its status, and then releases the others.
func (r *accountReconciler) showHosts(ctx context.Context, s *reconciler.Scope[*v1alpha1.Account], held []string) error {
	if slices.Equal(s.Object.Status.Hosts, held) {
		return nil
	}
	s.Object.Status.Hosts = held
	if err := s.Save(ctx); err != nil {
		return err
	}
	return r.Hosts.Release(ctx, s.Client, s.Object, held...)
}

// ofClaim maps a created or deleted claim on a host to the accounts that have the host or show it.
func ofClaim(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		claim, ok := obj.(*v1alpha1.Claim)
		if !ok || claim.Spec.Attribute != claims.AttributeHost {
			return nil
		}
		return requests.For(ctx, c, &v1alpha1.AccountList{}, func(a *v1alpha1.Account) bool {
			return slices.Contains(tenant.Hosts(a), claim.Spec.Value) || slices.Contains(a.Status.Hosts, claim.Spec.Value)
		})
	}
}

func isReady(a *v1alpha1.Account) bool {
	return meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.ConditionReady)
}
