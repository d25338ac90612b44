// Package workspace has what people make in the folders of deployments: workbooks, reports and dashboards.
//
//	workspace.go   the owner of the tables, what is common to all kinds of content
//	workbook.go    the model of workbooks; creating, updating and deleting them
//	apply.go       workbooks that objects in Kubernetes manage
//	upsert.go      creating or updating a workbook by its slug, duplicating one
//	queries.go     reading workbooks
//	report.go      the model of reports; creating, updating and deleting them, also by public id
//	definition.go  the queries and the meta of reports, and their schema
//	reports.go     reading reports
//	placement.go   the spreadsheets that have the results of reports
//	publish.go     publishing the dashboard of a workbook
//	versions.go    the versions of dashboards; restoring and copying them
//	feed.go        folders, workbooks and reports in one list
//	favorite.go    the workbooks that people have marked
//	views.go       when people have read workbooks and reports last
//	object.go      JSON objects of clients, which are kept in canonical form
//	draft.go       drafts of dashboards, and their schema
//	schemas.go     the schemas for others
//	schemas/       JSON Schemas of the opaque parts, with their versions
//	migrations/    the tables
//
// Folders are a package of their own; statements here only read them.
package workspace

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Owner has the tables of the workspace.
var Owner = store.Owner{
	Name: "workspace", Migrations: migrations, Tables: []string{"workbook", "report", "report_placement", "dashboard", "dashboard_version", "report_snapshot", "favorite", "view_event"},
	Purge: store.PurgeInOrder(
		store.PurgeTable("report_snapshot", "account_uid, id"), store.PurgeTable("dashboard_version", "account_uid, id"),
		store.PurgeTable("dashboard", "account_uid, id"), store.PurgeTable("report_placement", "account_uid, id"),
		store.PurgeTable("report", "account_uid, id"), store.PurgeTable("workbook", "account_uid, id"),
		store.PurgeTable("favorite", "account_uid, owner, workbook_id"), store.PurgeTable("view_event", "account_uid, viewer, object_type, object_id"),
	),
}

// OfUsers is what names users: see subject.Users. Favorites and views are deleted with the user.
var OfUsers = []subject.Part{
	subject.Reassigned("workbooks", "workbook", "account_uid, id", "owner"),
	subject.Reassigned("reports", "report", "account_uid, id", "owner"),
	subject.Reassigned("refreshedReports", "report", "account_uid, id", "refreshed_by"),
	subject.Reassigned("dashboardVersions", "dashboard_version", "account_uid, id", "owner"),
	subject.Reassigned("placements", "report_placement", "account_uid, id", "placed_by"),
	subject.Reassigned("refreshedPlacements", "report_placement", "account_uid, id", "refreshed_by"),
	subject.Removed("favorites", "favorite", "account_uid, owner, workbook_id", "owner"),
	subject.Removed("views", "view_event", "account_uid, viewer, object_type, object_id", "viewer"),
}

// Names of events.
var (
	createdWorkbook = audit.Declare("Created workbook")
	updatedWorkbook = audit.Declare("Updated workbook")
	deletedWorkbook = audit.Declare("Deleted workbook")
)

// MaxInFolder is the maximum number of workbooks in a folder, and at the root.
const MaxInFolder = 10_000

// Root is the folder of what is in none.
const Root int64 = 0

// maxDepth is the maximum number of folders on a path from the root.
const maxDepth = 10

// Caller is who reads or makes a change.
type Caller = access.Caller

// Workspace is the content of all deployments.
type Workspace struct {
	DB     content.Database
	Record content.Record
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// now returns the time with the precision of the database.
func (w *Workspace) now() time.Time {
	now := time.Now
	if w.Now != nil {
		now = w.Now
	}
	return now().UTC().Truncate(time.Microsecond)
}

// change runs work in a transaction that excludes other changes of the account.
func (w *Workspace) change(ctx context.Context, s content.Scope, work func(tx *store.Tx) error) error {
	return w.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, s.Account, s.Deployment); err != nil {
			return err
		}
		return work(tx)
	})
}

// FolderDeleted moves what a deleted folder contains to the root; a conflict if there would be more than MaxInFolder workbooks or
// reports. It is called in the transaction that deletes the folder.
func FolderDeleted(ctx context.Context, tx *store.Tx, s content.Scope, id int64) error {
	for _, of := range []struct{ table, outside string }{{"workbook", ""}, {"report", " AND workbook_id = 0"}} {
		query := "SELECT COUNT(*), COUNT(CASE WHEN folder_id = $3 THEN 1 END) FROM " + of.table + " WHERE deployment_uid = $1 AND account_uid = $2 AND folder_id IN (0, $3)" + of.outside
		var all, moved int
		if err := tx.QueryRowContext(ctx, query, s.Deployment.UID, s.Account.UID, id).Scan(&all, &moved); err != nil {
			return fmt.Errorf("count the content of folder %d: %w", id, err)
		}
		if moved > 0 && all > MaxInFolder {
			return content.Errorf(content.Conflict, "folderId: folder %d contains %d %ss, which would move to the root, and there are %d already; allowed: %d together", id, moved, of.table, all-moved, MaxInFolder)
		}
		statement := "UPDATE " + of.table + " SET folder_id = 0 WHERE deployment_uid = $1 AND account_uid = $2 AND folder_id = $3"
		if _, err := tx.ExecContext(ctx, statement, s.Deployment.UID, s.Account.UID, id); err != nil {
			return fmt.Errorf("move the content of folder %d: %w", id, err)
		}
	}
	return nil
}

// levelShown returns the level of the caller on a folder whose content is listed; an error if it does not exist, or the caller does
// not see it.
func levelShown(ctx context.Context, q store.Querier, s content.Scope, by Caller, id int64) (access.Level, error) {
	level, err := access.OfVisible(ctx, q, s, by.Access, id)
	if err != nil {
		return access.None, content.Prefixed("folderId", err)
	}
	return level, checkFolder(ctx, q, s, id)
}

// checkDestination returns an error if a folder that a request puts something into does not exist, or the caller may not edit it.
func checkDestination(ctx context.Context, q store.Querier, s content.Scope, by Caller, id int64) error {
	if err := checkFolder(ctx, q, s, id); err != nil {
		return err
	}
	return access.RequireFolder(ctx, q, s, by.Access, "folderId", id, access.Edit)
}

// checkFolder returns an error if a folder that a request names does not exist.
func checkFolder(ctx context.Context, q store.Querier, s content.Scope, id int64) error {
	if id == Root {
		return nil
	}
	const query = "SELECT 1 FROM folder WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3"
	var one int
	err := q.QueryRowContext(ctx, query, s.Account.UID, s.Deployment.UID, id).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return content.Errorf(content.NotFound, "folderId: folder %d does not exist", id)
	}
	if err != nil {
		return fmt.Errorf("read folder %d: %w", id, err)
	}
	return nil
}
