// Package role reconciles Roles.
package role

import (
	"context"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "quoin-role"

// New returns the reconciler of Roles.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock) *reconciler.Reconciler[*v1alpha1.Role] {
	return &reconciler.Reconciler[*v1alpha1.Role]{
		Client: c.As(FieldManager), Recorder: recorder, Clock: clk,
		New:  func() *v1alpha1.Role { return &v1alpha1.Role{} },
		Work: work,
	}
}

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=roles/status,verbs=patch

// SetupWithManager adds the reconciler to a manager.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("role").
		For(&v1alpha1.Role{}, predicates.Spec()).
		WithOptions(opts).
		Complete(r)
}

func work(context.Context, *reconciler.Scope[*v1alpha1.Role]) reconciler.Outcome {
	return reconciler.Done("The role can be assigned")
}
