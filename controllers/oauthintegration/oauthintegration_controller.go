// Package oauthintegration reconciles OAuthIntegrations: it allocates their IDs, and checks their endpoints and the Secret
// with the client's secret.
package oauthintegration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/controllers/tenancy"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/oauthintegration"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "quoin-oauthintegration"

const (
	// retryInterval is the time after which a Secret that has to be created or changed is read again: Secrets are not
	// watched.
	retryInterval = time.Minute
	// checkInterval is the time after which a Secret that was found is read again.
	checkInterval = 15 * time.Minute
)

type scope = reconciler.Scope[*v1alpha1.OAuthIntegration]

type integrationReconciler struct {
	numbers tenancy.Numbers[*v1alpha1.OAuthIntegration]
}

// New returns the reconciler of OAuthIntegrations.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock, allocator *ids.Allocator) *reconciler.Reconciler[*v1alpha1.OAuthIntegration] {
	r := &integrationReconciler{tenancy.Numbers[*v1alpha1.OAuthIntegration]{
		Kind: "OAuthIntegration", Counter: ids.OAuthIntegrations, IDs: allocator, Status: func(i *v1alpha1.OAuthIntegration) *int64 { return &i.Status.ID },
	}}
	return &reconciler.Reconciler[*v1alpha1.OAuthIntegration]{
		Client: c.As(FieldManager), Recorder: recorder, Clock: clk,
		New:  func() *v1alpha1.OAuthIntegration { return &v1alpha1.OAuthIntegration{} },
		Work: r.work,
	}
}

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=oauthintegrations,verbs=get;patch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=oauthintegrations/status,verbs=patch

// SetupWithManager adds the reconciler to a manager. Secrets of accounts are read with ClusterRole quoin-account, in the
// namespaces of accounts only.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	c := mgr.GetClient()
	return ctrl.NewControllerManagedBy(mgr).
		Named("oauthintegration").
		For(&v1alpha1.OAuthIntegration{}, predicates.Spec()).
		Watches(&v1alpha1.OAuthIntegration{}, handler.EnqueueRequestsFromMapFunc(requests.Others[*v1alpha1.OAuthIntegration](c, &v1alpha1.OAuthIntegrationList{})), predicates.Deletion()).
		Watches(&v1alpha1.Account{}, handler.EnqueueRequestsFromMapFunc(requests.OfAccount[*v1alpha1.OAuthIntegration](c, &v1alpha1.OAuthIntegrationList{})), predicates.Spec()).
		WithOptions(opts).
		Complete(r)
}

func (r *integrationReconciler) work(ctx context.Context, s *scope) reconciler.Outcome {
	account, o := tenancy.Account(ctx, s)
	if o != nil {
		return *o
	}
	list := &v1alpha1.OAuthIntegrationList{}
	if err := s.List(ctx, list, client.InNamespace(s.Object.Namespace)); err != nil {
		return reconciler.Failed(fmt.Errorf("list OAuth integrations: %w", err))
	}
	all := oauthintegration.Items(list)
	if o := r.numbers.Assign(ctx, s, account.Name, all); o != nil {
		return *o
	}
	s.Object.Status.RedirectURL = oauthintegration.RedirectURL(account, s.Object)
	inEffect := oauthintegration.InEffect(all)
	if len(inEffect) == oauthintegration.MaxPerAccount && !slices.ContainsFunc(inEffect, func(i *v1alpha1.OAuthIntegration) bool { return i.Name == s.Object.Name }) {
		return reconciler.Stalled(v1alpha1.ReasonLimitExceeded, fmt.Sprintf(
			"the account has %d OAuth integrations, and only the first %d are in effect; delete one", len(all), oauthintegration.MaxPerAccount))
	}
	if err := oauthintegration.Check(account, s.Object); err != nil {
		return reconciler.Stalled(v1alpha1.ReasonInvalidSpec, "spec."+err.Error())
	}
	return checkSecret(ctx, s)
}

// checkSecret returns the outcome by the Secret with the client's secret. It is read from the API server, because Secrets are
// not cached.
func checkSecret(ctx context.Context, s *scope) reconciler.Outcome {
	ref := s.Object.Spec.ClientSecretRef
	secret := &corev1.Secret{}
	err := s.Live().Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: ref.Name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return reconciler.NotFound(v1alpha1.ReasonClientSecretUnreadable, fmt.Sprintf(
			"spec.clientSecretRef: Secret %q does not exist; create it with the key %q", ref.Name, ref.Key)).RequeueIn(retryInterval)
	case apierrors.IsForbidden(err):
		return reconciler.Failing(v1alpha1.ReasonClientSecretUnreadable, fmt.Sprintf(
			"spec.clientSecretRef: reading Secret %q is forbidden: bind ClusterRole quoin-account to quoin controller with a RoleBinding in namespace %q",
			ref.Name, s.Object.Namespace), retryInterval)
	case err != nil:
		return reconciler.Failed(fmt.Errorf("read secret %q: %w", ref.Name, err))
	case strings.TrimRight(string(secret.Data[ref.Key]), "\r\n") == "":
		return reconciler.Stalled(v1alpha1.ReasonClientSecretUnreadable, fmt.Sprintf(
			"spec.clientSecretRef: Secret %q has no value for the key %q; add it", ref.Name, ref.Key)).RequeueIn(retryInterval)
	}
	return reconciler.Done("People can authorize the integration").RequeueIn(checkInterval)
}
