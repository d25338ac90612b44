package apiserver

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/signin"
	"github.com/quoin-dev/quoin/internal/store"
)

// observeLeavers ends the sessions and grants of users who are deactivated or deleted, and deletes their OAuth tokens, while the
// database is open.
func (g *storedGroups) observeLeavers(k8s cluster.Cluster, database *store.Database, c Config) error {
	sessions := signin.NewLeavers(g.signIn, k8s.GetClient(), c.Log)
	database.WhileOpen(func(ctx context.Context, _ *store.Store) error { return sessions.Run(ctx) })
	users, err := informerOf(context.Background(), k8s.GetCache(), &v1alpha1.ScimUser{})
	if err != nil {
		return err
	}
	// One handler for both, because it decodes every user that changes.
	_, err = users.AddEventHandler(leavers(func(u *v1alpha1.ScimUser) {
		sessions.Left(u)
		g.userTokens.Left(client.ObjectKeyFromObject(u))
	}))
	return err
}

// leavers returns a handler of the events of ScimUsers that calls left for those that are deactivated or deleted, also while
// finalizers delay the deletion.
func leavers(left func(*v1alpha1.ScimUser)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, current any) {
			if u := scimUser(current); u != nil && !u.IsActive() {
				left(u)
			}
		},
		DeleteFunc: func(last any) {
			if gone, ok := last.(toolscache.DeletedFinalStateUnknown); ok {
				last = gone.Obj
			}
			if u := scimUser(last); u != nil {
				left(u)
			}
		},
	}
}

// scimUser returns a user of the cache, which keeps users in compact form; nil for another object.
func scimUser(o any) *v1alpha1.ScimUser {
	cached, ok := o.(runtime.Object)
	if !ok {
		return nil
	}
	u, _ := cached.DeepCopyObject().(*v1alpha1.ScimUser)
	return u
}
