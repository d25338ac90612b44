package scimuser

import (
	"context"
	"errors"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
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

// indexManager is the field by which the users with a manager are found.
const indexManager = requests.CacheOnly + "manager"

// reportsPause is how long after a manager came or went its reports are looked at: those who
// provision an organisation create both.
const reportsPause = time.Second

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=accounts,verbs=get;list;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=claims,verbs=create;delete;get;list;update;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=scimusers,verbs=get;list;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=scimusers/status,verbs=patch

// AddIndexes lets the cache find users at once: a change must not cost a look at all of them.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &v1alpha1.ScimUser{}, scim.IndexWanted, scim.Wanted(claims.UserName)),
		indexer.IndexField(ctx, &v1alpha1.ScimUser{}, indexManager, func(obj client.Object) []string {
			if u, ok := obj.(*v1alpha1.ScimUser); ok && managerOf(u) != "" {
				return []string{managerOf(u)}
			}
			return nil
		}),
	)
}

// SetupWithManager starts the reconciler in a manager. The cache needs AddIndexes.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	c := mgr.GetClient()
	b := ctrl.NewControllerManagedBy(mgr).
		Named("scimuser").
		For(&v1alpha1.ScimUser{}, predicates.Spec()).
		Watches(&v1alpha1.ScimUser{}, requests.Later(reportsPause, ofManager(c)), predicates.Existence())
	return scim.Watch(b, c, claims.UserName, &v1alpha1.ScimUserList{}).WithOptions(opts).Complete(r)
}

// ofManager maps a user that came or went to those whose manager it is.
func ofManager(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, user client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.ScimUserList{}, requests.All[*v1alpha1.ScimUser],
			client.InNamespace(user.GetNamespace()), client.MatchingFields{indexManager: user.GetName()})
	}
}
