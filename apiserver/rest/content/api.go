// Package content serves the families of the REST API for workspace content: the folders of
// deployments.
package content

import (
	"context"

	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/folder"
	"github.com/quoin-dev/quoin/internal/store"
)

// Owners have the tables of the group.
var Owners = []store.Owner{folder.Owner}

// Options configure the group.
type Options struct {
	// Database has the content; nil without one.
	Database content.Database
}

// New returns the families of the group.
func New(o Options) []rest.Family {
	if o.Database == nil {
		o.Database = noDatabase{}
	}
	a := &api{folders: &folder.Folders{DB: o.Database, Record: record}}
	return []rest.Family{a.foldersFamily()}
}

// api has the handlers of the group.
type api struct{ folders *folder.Folders }

// noDatabase is the database of a server without one.
type noDatabase struct{}

var errNoDatabase = rest.Unavailable("workspace content is not available: quoin apiserver has no --database-url")

func (noDatabase) Tx(context.Context, func(*store.Tx) error) error       { return errNoDatabase }
func (noDatabase) TxAsync(context.Context, func(*store.Tx) error) error  { return errNoDatabase }
func (noDatabase) Read(context.Context, func(store.Querier) error) error { return errNoDatabase }

// record stores the event of a change in the deployment of the request.
func record(ctx context.Context, tx *store.Tx, e audit.Event) error {
	e.Deployment = recording.DeploymentOf(rest.ScopeFrom(ctx).Deployment)
	return recording.RecordTx(ctx, tx, e)
}
