package workspace

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/managed"
	"github.com/quoin-dev/quoin/internal/store"
)

// UntitledReport is the name of a report that is created without one.
const UntitledReport = "Untitled report"

// MaxInWorkbook is the maximum number of reports in a workbook.
const MaxInWorkbook = 500

// Names of events.
var (
	createdReport = audit.Declare("Created report")
	updatedReport = audit.Declare("Updated report")
	deletedReport = audit.Declare("Deleted report")
)

// Report is a query with the way its result is shown. It is in a workbook, or in a folder, or at the root.
type Report struct {
	// ID is unique in the account.
	ID int64
	// FolderID is Root in a workbook and at the root; WorkbookID is 0 outside of workbooks.
	FolderID, WorkbookID int64
	// PathID is the folder that contains it: its own or that of the workbook. It is derived.
	PathID int64
	// PublicID is unique in the account and does not change.
	PublicID string
	Name     string
	Title    string
	// JSONQuery is a query of the data API, SQLQuery one in SQL, which is used if there are both.
	JSONQuery, SQLQuery string
	// PivotItems is a JSON object in canonical form, or empty; Meta is one.
	PivotItems, Meta string
	// Source is the kind of client that made it; empty if unknown.
	Source string
	// Checksum is that of the queries and the pivot items.
	Checksum string
	// Version counts the changes, from 1.
	Version int64
	// Level is what the caller may do with it. It is derived.
	Level access.Level
	// Owner is who the report belongs to, RefreshedBy who has refreshed it last, as <kind>:<id>.
	Owner, RefreshedBy   string
	CreatedAt, UpdatedAt time.Time
	// CreatedBy and UpdatedBy are principals: <kind>:<id>.
	CreatedBy, UpdatedBy string
}

// ReportChange has the properties of a report to set; those that are nil stay.
type ReportChange struct {
	// PublicID can be set when a report is created.
	PublicID *string
	Name     *string
	Title    *string
	// FolderID is Root for the root, WorkbookID is 0 for none. A report that is put into one leaves the other.
	FolderID, WorkbookID *int64
	JSONQuery, SQLQuery  *string
	// PivotItems and Meta replace what is stored if HasPivotItems and HasMeta are set.
	PivotItems, Meta       Object
	HasPivotItems, HasMeta bool
	// Source has an effect when a report is created.
	Source string
	// Placement connects the report to a spreadsheet; nil for none.
	Placement *PlacementChange
	// Version is the version that the report must have; any if 0.
	Version int64
}

var publicIDPattern = regexp.MustCompile(`^[0-9A-Za-z]{12}$`)

// checkPublicID returns an error for an id that is not allowed.
func checkPublicID(id string) error {
	if !publicIDPattern.MatchString(id) {
		return content.Errorf(content.Invalid, "publicId: %q; allowed: 12 letters a to z, A to Z and digits", clip(id))
	}
	return nil
}

// newPublicID returns a random id.
func newPublicID() string {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	out := make([]byte, 0, 12)
	for len(out) < cap(out) {
		var random [16]byte
		_, _ = rand.Read(random[:]) // it does not fail
		for _, b := range random {
			if n := int(b & 63); n < len(letters) && len(out) < cap(out) {
				out = append(out, letters[n])
			}
		}
	}
	return string(out)
}

// CreateReport creates a report. The caller needs the level edit on the folder or the workbook.
func (w *Workspace) CreateReport(ctx context.Context, s content.Scope, by Caller, in ReportChange) (created *Report, err error) {
	err = w.change(ctx, s, func(tx *store.Tx) error {
		created, err = w.createReport(ctx, tx, s, by, in)
		return err
	})
	return created, err
}

func (w *Workspace) createReport(ctx context.Context, tx *store.Tx, s content.Scope, by Caller, in ReportChange) (*Report, error) {
	now := w.now()
	created := &Report{
		Name: UntitledReport, Meta: "{}", Source: in.Source, Version: 1, Owner: by.Owner, RefreshedBy: by.Owner,
		Level: by.Access.Limited(access.Manage), CreatedAt: now, UpdatedAt: now, CreatedBy: by.Principal, UpdatedBy: by.Principal,
	}
	if in.PublicID == nil {
		created.PublicID = newPublicID()
	}
	if err := checkReportDestination(ctx, tx, s, by, in); err != nil {
		return nil, err
	}
	if err := applyReport(created, in); err != nil {
		return nil, err
	}
	if in.PublicID != nil {
		if err := checkPublicIDIsFree(ctx, tx, s, *in.PublicID); err != nil {
			return nil, err
		}
	}
	if err := checkReportPlace(ctx, tx, s, created); err != nil {
		return nil, err
	}
	if err := checkManaged(ctx, tx, s, created.WorkbookID); err != nil {
		return nil, err
	}
	var err error
	if created.ID, err = tx.NextID(ctx, s.Account.UID, "report"); err != nil {
		return nil, err
	}
	if err := insertReport(ctx, tx, s, created); err != nil {
		return nil, err
	}
	if err := w.recordReport(ctx, tx, createdReport, nil, created); err != nil {
		return nil, err
	}
	return created, w.connectIfAny(ctx, tx, s, by, created, in.Placement)
}

// UpsertReport updates the report with a public id, or creates it. The same request again changes nothing. The caller needs what
// UpdateReport needs, or CreateReport.
func (w *Workspace) UpsertReport(ctx context.Context, s content.Scope, by Caller, publicID string, in ReportChange) (out *Report, err error) {
	if err := checkPublicID(publicID); err != nil {
		return nil, err
	}
	if in.PublicID != nil && *in.PublicID != publicID {
		return nil, content.Errorf(content.Invalid, "publicId: %q is not %q, the id in the path", clip(*in.PublicID), publicID)
	}
	in.PublicID = &publicID
	err = w.change(ctx, s, func(tx *store.Tx) error {
		before, err := reportByPublicID(ctx, tx, s, publicID)
		if err != nil {
			return err
		}
		if before != nil {
			known, err := reportFor(ctx, tx, s, by, before.ID, access.View)
			var rejected *content.Error
			if errors.As(err, &rejected) && rejected.Reason == content.NotFound {
				return content.Errorf(content.Conflict, "publicId: %q is the id of a report that the caller does not see", publicID)
			}
			if err != nil {
				return err
			}
			out, err = w.editReport(ctx, tx, s, by, known, in)
			return err
		}
		out, err = w.createReport(ctx, tx, s, by, in)
		return err
	})
	return out, err
}

// UpdateReport changes a report. A change to what it already is has no event and no new version. The caller needs the level edit on
// the report. To move it, the caller needs what deleting it needs, and edit on the folder or the workbook that it is put into.
func (w *Workspace) UpdateReport(ctx context.Context, s content.Scope, by Caller, id int64, in ReportChange) (updated *Report, err error) {
	err = w.change(ctx, s, func(tx *store.Tx) error {
		before, err := reportFor(ctx, tx, s, by, id, access.View)
		if err != nil {
			return err
		}
		updated, err = w.editReport(ctx, tx, s, by, before, in)
		return err
	})
	return updated, err
}

// editReport changes a report that the caller sees. Moving it needs what deleting it needs, because it is lost for those who have
// inherited their level from where it was, and the caller may own where it goes.
func (w *Workspace) editReport(ctx context.Context, tx *store.Tx, s content.Scope, by Caller, before *Report, in ReportChange) (*Report, error) {
	to, needed := *before, access.Edit
	moves := applyPlace(&to, in) == nil && (to.FolderID != before.FolderID || to.WorkbookID != before.WorkbookID)
	if moves {
		needed = by.ToManageReports()
	}
	if before.Level < needed {
		return nil, access.TooLow(by.Access, access.Object{Kind: access.Report, ID: before.ID}, needed, before.Level)
	}
	if moves {
		if err := checkReportDestination(ctx, tx, s, by, in); err != nil {
			return nil, err
		}
	}
	return w.updateReport(ctx, tx, s, by, before, in)
}

// checkReportDestination returns an error if a folder or a workbook that a request puts a report into does not exist, or the caller
// may not edit it.
func checkReportDestination(ctx context.Context, q store.Querier, s content.Scope, by Caller, in ReportChange) error {
	if in.FolderID != nil && *in.FolderID != Root && in.WorkbookID != nil && *in.WorkbookID != 0 {
		return nil // applyPlace rejects it
	}
	if in.FolderID != nil {
		if err := checkDestination(ctx, q, s, by, *in.FolderID); err != nil {
			return err
		}
	}
	if in.WorkbookID != nil && *in.WorkbookID != 0 {
		_, err := workbookFor(ctx, q, s, by, *in.WorkbookID, access.Edit)
		return content.Prefixed("workbookId", err)
	}
	return nil
}

// updateReport changes a report without checking what the caller may do with it.
func (w *Workspace) updateReport(ctx context.Context, tx *store.Tx, s content.Scope, by Caller, before *Report, in ReportChange) (*Report, error) {
	if in.Version != 0 && in.Version != before.Version {
		return nil, content.Errorf(content.Conflict, "version: report %d has version %d, not %d: read it again", before.ID, before.Version, in.Version)
	}
	after := *before
	if err := applyReport(&after, in); err != nil {
		return nil, err
	}
	if after != *before || in.Placement == nil {
		if err := checkManaged(ctx, tx, s, before.WorkbookID, after.WorkbookID); err != nil {
			return nil, err
		}
	}
	if after.FolderID != before.FolderID || after.WorkbookID != before.WorkbookID {
		if err := checkReportPlace(ctx, tx, s, &after); err != nil {
			return nil, err
		}
	}
	if after != *before {
		after.Version, after.UpdatedAt, after.UpdatedBy = before.Version+1, w.now(), by.Principal
		if err := updateReport(ctx, tx, s, &after); err != nil {
			return nil, err
		}
		if err := w.recordReport(ctx, tx, updatedReport, before, &after); err != nil {
			return nil, err
		}
	}
	return &after, w.connectIfAny(ctx, tx, s, by, &after, in.Placement)
}

// DeleteReport deletes a report with its placements and the grants on it. The caller needs the level manage; with the permission
// ReportManage, edit.
func (w *Workspace) DeleteReport(ctx context.Context, s content.Scope, by Caller, id int64) error {
	return w.change(ctx, s, func(tx *store.Tx) error {
		before, err := reportFor(ctx, tx, s, by, id, by.ToManageReports())
		if err != nil {
			return err
		}
		return w.deleteReport(ctx, tx, s, before)
	})
}

// checkManaged returns a conflict if a change of reports in workbooks, 0 for none, is one of a workbook that an object manages.
func checkManaged(ctx context.Context, q store.Querier, s content.Scope, workbooks ...int64) error {
	for _, id := range workbooks {
		if id == 0 {
			continue
		}
		if err := managed.Check(ctx, q, s, managed.Workbook, id); err != nil {
			return err
		}
	}
	return nil
}

func (w *Workspace) deleteReport(ctx context.Context, tx *store.Tx, s content.Scope, before *Report) error {
	if err := checkManaged(ctx, tx, s, before.WorkbookID); err != nil {
		return err
	}
	for _, statement := range []string{
		"DELETE FROM report_placement WHERE account_uid = $1 AND deployment_uid = $2 AND report_id = $3",
		"DELETE FROM report WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3",
	} {
		if _, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, before.ID); err != nil {
			return fmt.Errorf("delete report %d: %w", before.ID, err)
		}
	}
	if err := access.Deleted(ctx, tx, s, access.Object{Kind: access.Report, ID: before.ID}); err != nil {
		return err
	}
	if err := forget(ctx, tx, s, ReportItem, before.ID); err != nil {
		return err
	}
	return w.recordReport(ctx, tx, deletedReport, before, nil)
}

// deleteReportsOf deletes the reports in a workbook.
func (w *Workspace) deleteReportsOf(ctx context.Context, tx *store.Tx, s content.Scope, workbook int64) error {
	reports, err := reportsOf(ctx, tx, s, workbook)
	if err != nil {
		return err
	}
	for i := range reports {
		if err := w.deleteReport(ctx, tx, s, &reports[i]); err != nil {
			return err
		}
	}
	return nil
}

// copyReportsOf copies the reports in a workbook to another one. It returns the copies by the originals.
func (w *Workspace) copyReportsOf(ctx context.Context, tx *store.Tx, s content.Scope, by Caller, from, to int64) (map[int64]*Report, map[string]*Report, error) {
	reports, err := reportsOf(ctx, tx, s, from)
	if err != nil {
		return nil, nil, err
	}
	byID, byPublicID, now := map[int64]*Report{}, map[string]*Report{}, w.now()
	for i := range reports {
		original := &reports[i]
		c := *original
		c.WorkbookID, c.PublicID, c.Version, c.Owner, c.RefreshedBy = to, newPublicID(), 1, by.Owner, by.Owner
		c.CreatedAt, c.UpdatedAt, c.CreatedBy, c.UpdatedBy = now, now, by.Principal, by.Principal
		if c.ID, err = tx.NextID(ctx, s.Account.UID, "report"); err != nil {
			return nil, nil, err
		}
		if err := insertReport(ctx, tx, s, &c); err != nil {
			return nil, nil, err
		}
		if err := w.recordReport(ctx, tx, createdReport, nil, &c); err != nil {
			return nil, nil, err
		}
		byID[original.ID], byPublicID[original.PublicID] = &c, &c
	}
	return byID, byPublicID, nil
}

// checkPublicIDIsFree returns an error if a report of the account has a public id. A report of a deleted deployment of the same name,
// which is not purged yet, loses it.
func checkPublicIDIsFree(ctx context.Context, tx *store.Tx, s content.Scope, id string) error {
	const query = `SELECT report.id, deployment.uid, deployment.namespace, deployment.name FROM report JOIN deployment ON deployment.uid = report.deployment_uid
		WHERE report.account_uid = $1 AND report.public_id = $2`
	var other int64
	var of store.Deployment
	err := tx.QueryRowContext(ctx, query, s.Account.UID, id).Scan(&other, &of.UID, &of.Namespace, &of.Name)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("read public id %q: %w", id, err)
	case of.UID == s.Deployment.UID:
		return content.Errorf(content.Conflict, "publicId: %q is the id of report %d", id, other)
	case of.Namespace != s.Deployment.Namespace || of.Name != s.Deployment.Name:
		return content.Errorf(content.Conflict, "publicId: %q is the id of a report of another deployment", id)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE report SET public_id = $3 WHERE account_uid = $1 AND id = $2", s.Account.UID, other, newPublicID()); err != nil {
		return fmt.Errorf("take public id %q from report %d: %w", id, other, err)
	}
	return nil
}

// checkReportPlace returns an error if a report cannot be where it is, and sets PathID.
func checkReportPlace(ctx context.Context, q store.Querier, s content.Scope, r *Report) error {
	field, column, place, most := "folderId", "folder_id", r.FolderID, MaxInFolder
	if r.PathID = r.FolderID; r.WorkbookID != 0 {
		field, column, place, most = "workbookId", "workbook_id", r.WorkbookID, MaxInWorkbook
		wb, err := getWorkbook(ctx, q, s, r.WorkbookID)
		if err != nil {
			return content.Prefixed("workbookId", err)
		}
		r.PathID = wb.FolderID
	} else if err := checkFolder(ctx, q, s, r.FolderID); err != nil {
		return err
	}
	query := "SELECT COUNT(*) FROM report WHERE deployment_uid = $1 AND account_uid = $2 AND " + column + " = $3 AND id <> $4"
	if r.WorkbookID == 0 {
		query += " AND workbook_id = 0"
	}
	var beside int
	if err := q.QueryRowContext(ctx, query, s.Deployment.UID, s.Account.UID, place, r.ID).Scan(&beside); err != nil {
		return fmt.Errorf("count reports: %w", err)
	}
	if beside >= most {
		return content.Errorf(content.Conflict, "%s: there are %d reports already; allowed: %d", field, beside, most)
	}
	return nil
}

// fields returns the fields of a report that events show.
func (r *Report) fields() map[string]any {
	if r == nil {
		return nil
	}
	sum := sha256.Sum256([]byte(r.Meta))
	return map[string]any{
		"name": r.Name, "title": r.Title, "folderId": r.FolderID, "workbookId": r.WorkbookID, "publicId": r.PublicID, "source": r.Source,
		"querySHA256": r.Checksum, "metaSHA256": hex.EncodeToString(sum[:]),
	}
}

// recordReport stores the event of a change; before is nil for a new report, after for a deleted one.
func (w *Workspace) recordReport(ctx context.Context, tx *store.Tx, name string, before, after *Report) error {
	shown := cmp.Or(after, before)
	object := audit.Object{Kind: "Report", Name: shown.Name, ID: strconv.FormatInt(shown.ID, 10)}
	return w.Record.Change(ctx, tx, name, object, before.fields(), after.fields())
}
