// Package oauthintegration reconciles OAuthIntegrations: it allocates their IDs, and checks their endpoints and the Secret
// with the client's secret.
package oauthintegration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/oauthintegration"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/tenant"
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

type integrationReconciler struct{ ids *ids.Allocator }

// New returns the reconciler of OAuthIntegrations.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock, allocator *ids.Allocator) *reconciler.Reconciler[*v1alpha1.OAuthIntegration] {
	r := &integrationReconciler{ids: allocator}
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
		Watches(&v1alpha1.OAuthIntegration{}, handler.EnqueueRequestsFromMapFunc(ofNamespace(c)), predicates.Deletion()).
		Watches(&v1alpha1.Account{}, handler.EnqueueRequestsFromMapFunc(ofAccount(c)), predicates.Spec()).
		WithOptions(opts).
		Complete(r)
}

// ofNamespace maps a deleted integration to the others of its account, one of which may come into effect.
func ofNamespace(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, deleted client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.OAuthIntegrationList{}, requests.All[*v1alpha1.OAuthIntegration], client.InNamespace(deleted.GetNamespace()))
	}
}

// ofAccount maps an account, whose hosts redirect URIs have, to its integrations.
func ofAccount(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		account, ok := obj.(*v1alpha1.Account)
		if !ok {
			return nil
		}
		return requests.For(ctx, c, &v1alpha1.OAuthIntegrationList{}, requests.All[*v1alpha1.OAuthIntegration], client.InNamespace(account.Spec.Namespace))
	}
}

func (r *integrationReconciler) work(ctx context.Context, s *scope) reconciler.Outcome {
	account, err := tenant.Of(ctx, s.Client, s.Object.Namespace)
	if errors.Is(err, tenant.ErrNoAccount) {
		return reconciler.NotFound(v1alpha1.ReasonAccountNotFound, fmt.Sprintf("no Account has spec.namespace %q", s.Object.Namespace))
	}
	if err != nil {
		return reconciler.Failed(err)
	}
	list := &v1alpha1.OAuthIntegrationList{}
	if err := s.List(ctx, list, client.InNamespace(s.Object.Namespace)); err != nil {
		return reconciler.Failed(fmt.Errorf("list OAuth integrations: %w", err))
	}
	all := oauthintegration.Items(list)
	if other := sameID(s.Object, all); other != nil {
		return reconciler.Stalled(v1alpha1.ReasonInvalidSpec, fmt.Sprintf(
			"metadata: label %s has the ID of OAuthIntegration %q; remove it, and a new ID is allocated", v1alpha1.LabelID, other.Name))
	}
	if err := r.allocateID(ctx, s, account.Name); err != nil {
		return reconciler.Failed(err)
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

// sameID returns the integration whose ID an object without one carries, because its YAML was copied; nil if there is none.
func sameID(i *v1alpha1.OAuthIntegration, all []*v1alpha1.OAuthIntegration) *v1alpha1.OAuthIntegration {
	carried, ok := ids.Parse(i.Labels[v1alpha1.LabelID])
	if !ok || i.Status.ID == carried {
		return nil
	}
	at := slices.IndexFunc(all, func(other *v1alpha1.OAuthIntegration) bool { return other.UID != i.UID && other.Status.ID == carried })
	if at < 0 {
		return nil
	}
	return all[at]
}

// allocateID allocates the integration's ID.
func (r *integrationReconciler) allocateID(ctx context.Context, s *scope, account string) error {
	i := s.Object
	if carried, ok := ids.Parse(i.Labels[v1alpha1.LabelID]); ok && i.Status.ID == carried {
		return nil
	}
	id, err := r.ids.Keep(ctx, account, ids.OAuthIntegrations, i.Labels[v1alpha1.LabelID])
	if err != nil {
		return err
	}
	err = s.Label(ctx, func(i *v1alpha1.OAuthIntegration) {
		metav1.SetMetaDataLabel(&i.ObjectMeta, v1alpha1.LabelID, ids.Or(i.Labels[v1alpha1.LabelID], id))
	})
	if err != nil {
		return err
	}
	i.Status.ID, _ = ids.Parse(i.Labels[v1alpha1.LabelID])
	return nil
}
