package apiserver

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/signin"
	"github.com/quoin-dev/quoin/internal/store"
)

// endSessions ends the sessions and grants of users who are deactivated or deleted, while the database is open.
func (g *storedGroups) endSessions(k8s cluster.Cluster, database *store.Database, c Config) error {
	l := signin.NewLeavers(g.signIn, k8s.GetClient(), c.Log)
	database.WhileOpen(func(ctx context.Context, _ *store.Store) error { return l.Run(ctx) })
	users, err := informerOf(context.Background(), k8s.GetCache(), &v1alpha1.ScimUser{})
	if err != nil {
		return err
	}
	_, err = users.AddEventHandler(leavers(l.Left))
	return err
}
