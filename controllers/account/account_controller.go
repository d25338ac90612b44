// Package account reconciles Accounts: it checks that no other account has the same hosts or
// namespace, reports the addresses, and deletes the account's objects with it.
package account

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/controllers/scim"
	"github.com/quoin-dev/quoin/internal/accountrole"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "quoin-account"

// Options configure the reconciler.
type Options struct {
	// Hosts makes hosts unique. Its namespace is that of Quoin itself, which no account may have.
	Hosts claims.Hosts
	// WatchNamespaces are the namespaces that accounts may have.
	WatchNamespaces tenant.Namespaces
}

type accountReconciler struct{ Options }

// New returns the reconciler of Accounts.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock, opts Options) *reconciler.Reconciler[*v1alpha1.Account] {
	r := &accountReconciler{opts}
	return &reconciler.Reconciler[*v1alpha1.Account]{
		Client: c.As(FieldManager), Recorder: recorder, Clock: clk,
		New:    func() *v1alpha1.Account { return &v1alpha1.Account{} },
		Work:   r.work,
		Delete: r.teardown,
	}
}

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=accounts,verbs=get;list;patch;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=accounts/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager starts the reconciler in a manager.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("account").
		For(&v1alpha1.Account{}, predicates.Spec()).
		// Another account may release a host or a namespace, a missing namespace may be created,
		// and the deletion of the last environment ends a teardown.
		Watches(&v1alpha1.Account{}, handler.EnqueueRequestsFromMapFunc(rivals(mgr.GetClient())), predicates.Spec()).
		Watches(&v1alpha1.Claim{}, handler.EnqueueRequestsFromMapFunc(ofClaim(mgr.GetClient())), predicates.Existence()).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(ofNamespace(mgr.GetClient())), predicates.Existence()).
		Watches(&v1alpha1.OidcTokenConfig{}, handler.EnqueueRequestsFromMapFunc(ofTokenConfig(mgr.GetClient())), predicates.Existence()).
		Watches(&v1alpha1.AccountRole{}, requests.Later(scim.RolesDelay, ofRole(mgr.GetClient())), predicates.Existence()).
		Watches(&v1alpha1.Environment{}, handler.EnqueueRequestsFromMapFunc(ofNamespace(mgr.GetClient())), predicates.Existence()).
		WithOptions(opts).
		Complete(r)
}

func (r *accountReconciler) work(ctx context.Context, s *reconciler.Scope[*v1alpha1.Account]) reconciler.Outcome {
	acct := s.Object
	if !controllerutil.ContainsFinalizer(acct, v1alpha1.FinalizerAccount) {
		err := s.Label(ctx, func(a *v1alpha1.Account) { controllerutil.AddFinalizer(a, v1alpha1.FinalizerAccount) })
		if err != nil {
			return reconciler.Failed(err)
		}
	}
	accounts := &v1alpha1.AccountList{}
	if err := s.List(ctx, accounts); err != nil {
		return reconciler.Failed(fmt.Errorf("list accounts: %w", err))
	}
	if o := r.checkNamespace(acct, accounts.Items); o != nil {
		// The account is not served: others may have its hosts.
		if err := r.showHosts(ctx, s, nil); err != nil {
			return reconciler.Failed(err)
		}
		return *o
	}
	acct.Status.URL = tenant.URL(acct)
	acct.Status.DataDomain = tenant.DataDomain(acct)
	problem, err := r.claimHosts(ctx, s)
	if err != nil {
		return reconciler.Failed(err)
	}
	// Also without one of the hosts: the account is served on the others, and its deployments need tokens.
	next, err := r.tokenKeys(ctx, s)
	if err != nil {
		return reconciler.Failed(err)
	}
	if problem != nil {
		return problem.RequeueIn(next)
	}

	ns := &corev1.Namespace{}
	if err := s.Get(ctx, client.ObjectKey{Name: acct.Spec.Namespace}, ns); err != nil {
		if apierrors.IsNotFound(err) {
			return reconciler.NotFound(v1alpha1.ReasonNamespaceNotFound, fmt.Sprintf(
				"spec.namespace: namespace %q does not exist; create it: kubectl create namespace %s", acct.Spec.Namespace, acct.Spec.Namespace))
		}
		return reconciler.Failed(err)
	}
	return r.withRoles(ctx, s, reconciler.Done(fmt.Sprintf("Account serves %s", acct.Status.URL)).RequeueIn(next))
}

// withRoles adds notes on roles that the account names and that do not exist to an outcome.
func (r *accountReconciler) withRoles(ctx context.Context, s *reconciler.Scope[*v1alpha1.Account], done reconciler.Outcome) reconciler.Outcome {
	spec := &s.Object.Spec
	named := map[string][]v1alpha1.AccountRoleReference{}
	if spec.DefaultRole != "" {
		named["spec.defaultRole"] = []v1alpha1.AccountRoleReference{spec.DefaultRole}
	}
	for i := range spec.OIDCIssuers {
		for _, mapped := range spec.OIDCIssuers[i].GroupRoles {
			field := fmt.Sprintf("spec.oidcIssuers[%d].groupRoles[%s].roles", i, mapped.Group)
			named[field] = mapped.Roles
		}
	}
	if len(named) == 0 {
		return done
	}
	all, err := accountrole.List(ctx, s.Client, spec.Namespace)
	if err != nil {
		return reconciler.Failed(err)
	}
	for _, field := range slices.Sorted(maps.Keys(named)) {
		if note := accountrole.Unknown(field, named[field], all); note != "" {
			done = done.WithDetail(note)
		}
	}
	return done
}

// checkNamespace returns the outcome if the account may not have its namespace: it is Quoin's own, one in which Quoin does
// not work, or that of an older account.
func (r *accountReconciler) checkNamespace(acct *v1alpha1.Account, all []v1alpha1.Account) *reconciler.Outcome {
	if acct.Spec.Namespace == r.Hosts.Namespace {
		o := reconciler.Stalled(v1alpha1.ReasonNamespaceReserved, fmt.Sprintf(
			"spec.namespace: %q is the namespace of Quoin itself; create another Account with a namespace of its own", acct.Spec.Namespace))
		return &o
	}
	if !r.WatchNamespaces.Include(acct.Spec.Namespace) {
		o := reconciler.Stalled(v1alpha1.ReasonNamespaceNotWatched, fmt.Sprintf(
			"spec.namespace: this installation of Quoin is restricted to other namespaces than %q; add it to watchNamespaces of the chart, "+
				"or create another Account with one of %s", acct.Spec.Namespace, strings.Join(r.WatchNamespaces, ", ")))
		return &o
	}
	for i := range all {
		other := &all[i]
		if other.UID == acct.UID || other.Spec.Namespace != acct.Spec.Namespace || !tenant.Older(other, acct) {
			continue
		}
		o := reconciler.Stalled(v1alpha1.ReasonNamespaceTaken, fmt.Sprintf(
			"spec.namespace: %q belongs to account %q; each account needs a namespace of its own", acct.Spec.Namespace, other.Name))
		return &o
	}
	return nil
}
