package apiserver

import (
	"context"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/signin"
	"github.com/quoin-dev/quoin/apiserver/usertokens"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/usertoken"
	"github.com/quoin-dev/quoin/internal/keyring"
	"github.com/quoin-dev/quoin/internal/store"
)

// useUserTokens sets the options that need the OAuth tokens of people, and refreshes tokens while the database is open.
func (g *storedGroups) useUserTokens(k8s cluster.Cluster, database *store.Database, c Config) error {
	clk := clock.RealClock{}
	g.userTokens = usertokens.New(usertokens.Options{
		Store: &usertoken.Store{DB: database, Record: recordUserToken},
		Keys:  newKeyring(k8s),
		Cache: k8s.GetClient(), Live: k8s.GetAPIReader(), HTTP: c.OIDCClient, Clock: clk, Log: c.Log,
	})
	g.tenant.UserTokens, g.deployments.Credentials = g.userTokens, g.userTokens.Credentials
	database.WhileOpen(func(ctx context.Context, _ *store.Store) error { return g.userTokens.Run(ctx) })
	integrations, err := informerOf(context.Background(), k8s.GetCache(), &v1alpha1.OAuthIntegration{})
	if err != nil {
		return err
	}
	_, err = integrations.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { g.userTokens.IntegrationDeleted() }})
	return err
}

// newKeyring returns the keys with which an account encrypts tokens. The client does not cache Secrets.
func newKeyring(k8s cluster.Cluster) *keyring.Keyring {
	return &keyring.Keyring{Live: k8s.GetClient(), Now: time.Now}
}

// recordUserToken records the event of a token that a person authorizes with a browser, or deletes over REST.
func recordUserToken(ctx context.Context, tx *store.Tx, e audit.Event) error {
	if signin.Serves(ctx) {
		return signin.RecordTx(ctx, tx, e)
	}
	return recording.RecordTx(ctx, tx, e)
}
