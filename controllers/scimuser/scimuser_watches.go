package scimuser

import (
	"context"
	"errors"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/controllers/scim"
	"github.com/quoin-dev/quoin/internal/claims"
)

// indexManager is the index of users by manager.
const indexManager = requests.CacheOnly + "manager"

// reportsDelay is the delay between the creation or deletion of a manager and the reconciliation of the
// reports: clients usually create both.
const reportsDelay = time.Second

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=accounts,verbs=get;list;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=claims,verbs=create;delete;get;list;update;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=scimusers,verbs=get;list;patch;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=scimusers/status,verbs=patch

// AddIndexes adds the indexes of the controller to the cache, so that no change scans all users.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &v1alpha1.ScimUser{}, scim.IndexWanted, scim.Wanted(claims.UserName)),
		indexer.IndexField(ctx, &v1alpha1.ScimUser{}, indexManager, func(obj client.Object) []string {
			if u, ok := obj.(*v1alpha1.ScimUser); ok && managerOf(u) != "" {
				return []string{managerOf(u)}
			}
			return nil
		}),
		indexer.IndexField(ctx, &v1alpha1.ScimUser{}, indexAttribute, attributesOf),
		indexer.IndexField(ctx, &v1alpha1.ScimUser{}, scim.IndexAccountRole, scim.RolesOf),
	)
}

// SetupWithManager adds the controller to a manager. The cache must have the indexes of AddIndexes.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	c := mgr.GetClient()
	b := ctrl.NewControllerManagedBy(mgr).
		Named("scimuser").
		For(&v1alpha1.ScimUser{}, predicates.Spec()).
		Watches(&v1alpha1.ScimUser{}, requests.Later(reportsDelay, ofManager(c)), predicates.Existence()).
		Watches(&v1alpha1.UserAttribute{}, requests.Later(attributeDelay, ofAttribute(c)), predicates.Existence()).
		Watches(&v1alpha1.UserAttribute{}, requests.Later(attributeDelay, ofAttribute(c)), builder.WithPredicates(takesEffect)).
		Watches(&v1alpha1.AccountRole{}, requests.Later(scim.RolesDelay, ofRole(c)), predicates.Existence())
	return scim.Watch(b, c, claims.UserName, &v1alpha1.ScimUserList{}).WithOptions(opts).Complete(r)
}

// ofRole maps a role to the users with it.
func ofRole(c client.Reader) handler.MapFunc {
	return scim.OfRole[*v1alpha1.ScimUser](c, func() client.ObjectList { return &v1alpha1.ScimUserList{} })
}

// ofManager maps a user to its reports.
func ofManager(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, user client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.ScimUserList{}, requests.All[*v1alpha1.ScimUser],
			client.InNamespace(user.GetNamespace()), client.MatchingFields{indexManager: user.GetName()})
	}
}
