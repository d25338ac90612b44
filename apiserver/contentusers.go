package apiserver

import (
	"context"
	"slices"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/contentusers"
	"github.com/quoin-dev/quoin/apiserver/rest/content"
	chatstore "github.com/quoin-dev/quoin/internal/content/chat"
	"github.com/quoin-dev/quoin/internal/content/evaluation"
	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/content/usage"
	"github.com/quoin-dev/quoin/internal/store"
)

// useContent sets the options that need workspace content, and hands the content of users who are deleted over while the database
// is open.
func (g *storedGroups) useContent(k8s cluster.Cluster, database *store.Database, c Config) error {
	service := contentusers.New(contentusers.Options{
		Users: &subject.Users{DB: database, Parts: slices.Concat(content.OfUsers, usage.OfUsers, chatstore.OfUsers, evaluation.OfUsers)},
		Cache: k8s.GetCache(), Live: k8s.GetAPIReader(), Log: c.Log,
	})
	g.content.Database = service.Guard(database)
	database.WhileOpen(func(ctx context.Context, _ *store.Store) error { return service.Run(ctx) })
	users, err := informerOf(context.Background(), k8s.GetCache(), &v1alpha1.ScimUser{})
	if err != nil {
		return err
	}
	_, err = users.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(last any) {
		if gone, ok := last.(toolscache.DeletedFinalStateUnknown); ok {
			last = gone.Obj
		}
		if u := scimUser(last); u != nil {
			service.Left(client.ObjectKeyFromObject(u))
		}
	}})
	return err
}
