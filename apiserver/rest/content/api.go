// Package content serves the families of the REST API for workspace content: the folders, the
// workbooks and the reports of deployments.
package content

import (
	"context"
	"slices"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/folder"
	"github.com/quoin-dev/quoin/internal/content/managed"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/store"
)

// Owners have the tables of the group.
var Owners = []store.Owner{managed.Owner, folder.Owner, workspace.Owner, access.Owner}

// OfUsers is the content that names users.
var OfUsers = slices.Concat(folder.OfUsers, workspace.OfUsers, access.OfUsers)

// Options configure the group.
type Options struct {
	// Database has the content; nil without one.
	Database content.Database
	// Contact returns the e-mail address and the first name of a user of an account by the name of the
	// ScimUser; empty if there is none.
	Contact func(namespace, user string) (email, firstName string)
	// Groups returns the names and the UIDs of the ScimGroups that a ScimUser is in, directly or through others.
	Groups func(ctx context.Context, namespace, user string) (names, uids []string)
	// People has the users and groups that content is shared with; nil for none.
	People People
	// Deployments returns the deployments of a namespace on which a principal holds a permission; nil for none.
	Deployments func(namespace string, p *auth.Principal, needed v1alpha1.Permission) ([]*v1alpha1.Deployment, error)
	// Views records what people have read; nil for not at all.
	Views *workspace.Views
	// Queries runs the queries of reports.
	Queries Queries
}

// New returns the families of the group.
func New(o Options) []rest.Family {
	if o.Database == nil {
		o.Database = noDatabase{}
	}
	if o.Contact == nil {
		o.Contact = func(string, string) (string, string) { return "", "" }
	}
	if o.Groups == nil {
		o.Groups = func(context.Context, string, string) (names, uids []string) { return nil, nil }
	}
	a := &api{
		folders: &folder.Folders{DB: o.Database, Record: record, Deleted: workspace.FolderDeleted},
		content: &workspace.Workspace{DB: o.Database, Record: record}, contact: o.Contact, groups: o.Groups,
		sharing: &access.Sharing{DB: o.Database, Record: record}, people: o.People, views: o.Views, deployments: o.Deployments,
		queries: o.Queries,
	}
	if o.People != nil {
		a.sharing.GroupIsGone = func(ctx context.Context, group, uid string) (bool, error) {
			return o.People.GroupIsGone(ctx, rest.ScopeFrom(ctx).Namespace(), group, uid)
		}
	}
	return []rest.Family{a.foldersFamily(), a.workbooksFamily(), a.reportsFamily(), a.policiesFamily(), a.workspaceFamily(), a.runsFamily()}
}

// api has the handlers of the group.
type api struct {
	folders *folder.Folders
	content *workspace.Workspace
	contact func(namespace, user string) (email, firstName string)
	groups  func(ctx context.Context, namespace, user string) (names, uids []string)
	sharing *access.Sharing
	people  People

	deployments func(namespace string, p *auth.Principal, needed v1alpha1.Permission) ([]*v1alpha1.Deployment, error)
	views       *workspace.Views
	queries     Queries
}

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
