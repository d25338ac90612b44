package workspace

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/managed"
	"github.com/quoin-dev/quoin/internal/store"
)

// MaxVersions is the number of versions of a dashboard that are kept: the newest, and the one that is shown.
const MaxVersions = 100

// Published returns the dashboard of a workbook, which the caller sees, with the version that is shown; nil if it was not published.
func (w *Workspace) Published(ctx context.Context, s content.Scope, workbook int64) (d *Dashboard, err error) {
	err = w.DB.Read(ctx, func(q store.Querier) error {
		d, err = getDashboard(ctx, q, s, workbook)
		return err
	})
	return d, err
}

const versionsFrom = ` FROM dashboard JOIN dashboard_version AS v ON v.account_uid = dashboard.account_uid AND v.dashboard_id = dashboard.id
	WHERE dashboard.account_uid = $1 AND dashboard.deployment_uid = $2 AND dashboard.workbook_id = $3`

// Versions returns a page of the versions of the dashboard of a workbook, the newest first, without configs and snapshots. People
// need the level edit: others see the version that is shown.
func (w *Workspace) Versions(ctx context.Context, s content.Scope, by Caller, workbook int64, r store.PageRequest) (page store.Page[Dashboard], err error) {
	list := store.List[Dashboard]{
		Columns: `dashboard.id, dashboard.workbook_id, dashboard.public_id, dashboard.allow_embed, v.id, v.number, v.title, v.description, '',
			v.content_hash, v.owner, v.created_at, v.created_by`,
		From: versionsFrom[len(" FROM "):], Args: []any{s.Account.UID, s.Deployment.UID, workbook}, Order: []string{"v.number"}, Descending: true,
		Scan: func(row *sql.Rows, d *Dashboard) error { return scanDashboard(row, d) },
		Key:  func(d *Dashboard) []any { return []any{d.Number} },
	}
	err = w.DB.Read(ctx, func(q store.Querier) error {
		if _, err := workbookFor(ctx, q, s, by, workbook, toReadVersions(by)); err != nil {
			return err
		}
		page, err = list.Read(ctx, q, r)
		return err
	})
	return page, err
}

// toReadVersions returns the level with which all versions of a dashboard are read.
func toReadVersions(by Caller) access.Level {
	if by.Access.All {
		return access.View
	}
	return access.Edit
}

// DashboardVersion returns a version of the dashboard of a workbook, with its snapshots. The caller needs what Versions needs.
func (w *Workspace) DashboardVersion(ctx context.Context, s content.Scope, by Caller, workbook, number int64) (d *Dashboard, err error) {
	err = w.DB.Read(ctx, func(q store.Querier) error {
		d, err = getVersion(ctx, q, s, by, workbook, number)
		return err
	})
	return d, err
}

func getVersion(ctx context.Context, q store.Querier, s content.Scope, by Caller, workbook, number int64) (*Dashboard, error) {
	if _, err := workbookFor(ctx, q, s, by, workbook, toReadVersions(by)); err != nil {
		return nil, err
	}
	d := &Dashboard{}
	err := scanDashboard(q.QueryRowContext(ctx, "SELECT "+dashboardColumns+versionsFrom+" AND v.number = $4", s.Account.UID, s.Deployment.UID, workbook, number), d)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, content.Errorf(content.NotFound, "the dashboard of workbook %d has no version %d", workbook, number)
	}
	if err != nil {
		return nil, fmt.Errorf("read version %d of the dashboard of workbook %d: %w", number, workbook, err)
	}
	d.Snapshots, err = snapshots(ctx, q, s, d.VersionID)
	return d, err
}

// Restore publishes a version again, as a new one, and makes the draft and the reports of the workbook what they were then. Reports
// that were deleted are created again, and others stay.
func (w *Workspace) Restore(ctx context.Context, s content.Scope, by Caller, workbook, number int64) (out *Dashboard, err error) {
	err = w.change(ctx, s, func(tx *store.Tx) error {
		old, err := getVersion(ctx, tx, s, by, workbook, number)
		if err != nil {
			return err
		}
		wb, err := workbookFor(ctx, tx, s, by, workbook, access.Edit)
		if err != nil {
			return err
		}
		for i := range old.Snapshots {
			if err := w.restoreReport(ctx, tx, s, by, workbook, &old.Snapshots[i]); err != nil {
				return err
			}
		}
		config, err := Decode([]byte(old.Config))
		if err != nil {
			return fmt.Errorf("config of version %d: %w", old.VersionID, err)
		}
		if out, err = w.publish(ctx, tx, s, by, wb, Publication{Config: config, Title: &old.Title, Description: &old.Description}); err != nil {
			return err
		}
		draft, err := Decode([]byte(out.Config))
		if err != nil {
			return fmt.Errorf("config of version %d: %w", out.VersionID, err)
		}
		if _, err := w.update(ctx, tx, s, by, wb, Change{Draft: draft, HasDraft: true}); err != nil {
			return err
		}
		return w.recordDashboard(ctx, tx, restoredDashboard, wb, old, out)
	})
	return out, err
}

// WidgetThread is the chat that answers the prompt of an AI widget of a dashboard.
type WidgetThread struct {
	WidgetID, ThreadID string
	// Checksum is that of what the answer was made of; empty if that is unknown.
	Checksum string
}

// SetWidgetThread sets the chat of an AI widget of the dashboard of a workbook, as a new version, which is otherwise the one that is
// shown, and that of the widget in the draft, so that publishing the draft keeps it. The same chat again changes nothing. The
// caller needs the level edit.
func (w *Workspace) SetWidgetThread(ctx context.Context, s content.Scope, by Caller, workbook int64, in WidgetThread) (out *Dashboard, err error) {
	err = w.change(ctx, s, func(tx *store.Tx) error {
		wb, err := workbookFor(ctx, tx, s, by, workbook, access.Edit)
		if err != nil {
			return err
		}
		before, err := getDashboard(ctx, tx, s, workbook)
		if err != nil {
			return err
		}
		if before == nil {
			return content.Errorf(content.NotFound, "workbook %d has no published dashboard", workbook)
		}
		config, err := Decode([]byte(before.Config))
		if err != nil {
			return fmt.Errorf("config of version %d: %w", before.VersionID, err)
		}
		widget := widgetOf(config, in.WidgetID)
		switch kind := widget["type"]; {
		case widget == nil:
			return content.Errorf(content.NotFound, "widgetId: the dashboard has no widget %q", clip(in.WidgetID))
		case kind != widgetAI:
			return content.Errorf(content.Invalid, "widgetId: widget %q has the type %v; allowed: the widgets of the type AI", in.WidgetID, kind)
		}
		in.set(widget)
		if out, err = w.publishConfig(ctx, tx, s, by, wb, before, config); err != nil {
			return err
		}
		return w.setDraftThread(ctx, tx, s, by, wb, in)
	})
	return out, err
}

// widgetAI is the type of the widgets that have chats.
const widgetAI = "AI"

// widgetOf returns the widget with an id of the config of a dashboard; nil if there is none.
func widgetOf(config Object, id string) Object {
	widgets, _ := config["widgets"].([]any)
	for _, item := range widgets {
		if widget, _ := item.(Object); widget["id"] == id {
			return widget
		}
	}
	return nil
}

// set sets the chat of an AI widget.
func (in *WidgetThread) set(widget Object) {
	config, _ := widget["config"].(Object)
	change := Object{"threadId": in.ThreadID, "checksum": nil}
	if in.Checksum != "" {
		change["checksum"] = in.Checksum
	}
	widget["config"] = merged(config, change)
}

// publishConfig publishes a dashboard with another config and the same snapshots.
func (w *Workspace) publishConfig(ctx context.Context, tx *store.Tx, s content.Scope, by Caller, wb *Workbook, before *Dashboard, config Object) (*Dashboard, error) {
	if err := managed.Check(ctx, tx, s, managed.Workbook, wb.ID); err != nil {
		return nil, err
	}
	after := *before
	after.Snapshots = slices.Clone(before.Snapshots)
	var err error
	if after.Config, err = encode("config", config); err != nil {
		return nil, err
	}
	if after.Hash, err = hashOf(&after); err != nil || after.Hash == before.Hash {
		return before, err
	}
	return &after, w.storeVersion(ctx, tx, s, by, wb, before, &after)
}

// setDraftThread sets the chat of the widget in the draft of a workbook, if the draft has it.
func (w *Workspace) setDraftThread(ctx context.Context, tx *store.Tx, s content.Scope, by Caller, wb *Workbook, in WidgetThread) error {
	text := wb.Draft()
	if text == nil {
		return nil
	}
	draft, err := Decode([]byte(*text))
	if err != nil {
		return fmt.Errorf("draft of workbook %d: %w", wb.ID, err)
	}
	widget := widgetOf(draft, in.WidgetID)
	if widget["type"] != widgetAI {
		return nil
	}
	in.set(widget)
	_, err = w.update(ctx, tx, s, by, wb, Change{Draft: draft, HasDraft: true})
	return err
}

// restoreReport makes a report what it was in a snapshot.
func (w *Workspace) restoreReport(ctx context.Context, tx *store.Tx, s content.Scope, by Caller, workbook int64, n *Snapshot) error {
	pivot, err := decodeOptional(n.PivotItems)
	if err != nil {
		return fmt.Errorf("snapshot %d: %w", n.ID, err)
	}
	meta, err := Decode([]byte(n.Meta))
	if err != nil {
		return fmt.Errorf("snapshot %d: %w", n.ID, err)
	}
	change := ReportChange{
		PublicID: &n.PublicID, Name: &n.Name, Title: &n.Title, JSONQuery: &n.JSONQuery, SQLQuery: &n.SQLQuery, PivotItems: pivot, HasPivotItems: true,
		Meta: meta, HasMeta: true, WorkbookID: &workbook,
	}
	before, err := reportByPublicID(ctx, tx, s, n.PublicID)
	switch {
	case err != nil:
		return err
	case before == nil:
		_, err = w.createReport(ctx, tx, s, by, change)
	case before.WorkbookID != workbook:
		return content.Errorf(content.Conflict, "report %d, which the version shows, is not in workbook %d now: move it there, or delete it", before.ID, workbook)
	default:
		_, err = w.updateReport(ctx, tx, s, by, before, change)
	}
	return err
}

func decodeOptional(text string) (Object, error) {
	if text == "" {
		return nil, nil
	}
	return Decode([]byte(text))
}

// removeOldVersions deletes the versions beyond MaxVersions, the oldest first, except the one that is shown.
func removeOldVersions(ctx context.Context, tx *store.Tx, s content.Scope, d *Dashboard) error {
	for _, statement := range []string{
		`DELETE FROM report_snapshot WHERE account_uid = $1 AND version_id IN
			(SELECT id FROM dashboard_version WHERE account_uid = $1 AND dashboard_id = $2 AND number <= $3 AND id <> $4)`,
		"DELETE FROM dashboard_version WHERE account_uid = $1 AND dashboard_id = $2 AND number <= $3 AND id <> $4",
	} {
		if _, err := tx.ExecContext(ctx, statement, s.Account.UID, d.ID, d.Number-MaxVersions, d.VersionID); err != nil {
			return fmt.Errorf("delete old versions of dashboard %d: %w", d.ID, err)
		}
	}
	return nil
}

// deleteDashboardOf deletes the dashboard of a workbook with its versions.
func deleteDashboardOf(ctx context.Context, tx *store.Tx, s content.Scope, workbook int64) error {
	const dashboards = "(SELECT id FROM dashboard WHERE account_uid = $1 AND deployment_uid = $2 AND workbook_id = $3)"
	for _, statement := range []string{
		"DELETE FROM report_snapshot WHERE account_uid = $1 AND version_id IN (SELECT id FROM dashboard_version WHERE account_uid = $1 AND dashboard_id IN " + dashboards + ")",
		"DELETE FROM dashboard_version WHERE account_uid = $1 AND dashboard_id IN " + dashboards,
		"DELETE FROM dashboard WHERE account_uid = $1 AND deployment_uid = $2 AND workbook_id = $3",
	} {
		if _, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, workbook); err != nil {
			return fmt.Errorf("delete the dashboard of workbook %d: %w", workbook, err)
		}
	}
	return nil
}

// copyDashboard publishes the dashboard of a workbook for its copy, with the copied reports. The copy does not allow embedding.
func (w *Workspace) copyDashboard(ctx context.Context, tx *store.Tx, s content.Scope, by Caller, from int64, to *Workbook, byID map[int64]*Report, byPublicID map[string]*Report) error {
	source, err := getDashboard(ctx, tx, s, from)
	if err != nil || source == nil {
		return err
	}
	config, err := Decode([]byte(source.Config))
	if err != nil {
		return fmt.Errorf("config of version %d: %w", source.VersionID, err)
	}
	redirect(config, byID, byPublicID)
	c := &Dashboard{WorkbookID: to.ID, PublicID: newPublicID(), Version: source.Version, Snapshots: source.Snapshots}
	c.Owner, c.CreatedBy, c.CreatedAt = by.Owner, by.Principal, w.now()
	if c.Config, err = encode("config", config); err != nil {
		return err
	}
	for i := range c.Snapshots {
		n := &c.Snapshots[i]
		if r := byPublicID[n.PublicID]; r != nil {
			n.ReportID, n.PublicID = r.ID, r.PublicID
			n.Hash = snapshot(&Report{PublicID: n.PublicID, Name: n.Name, Title: n.Title, JSONQuery: n.JSONQuery, SQLQuery: n.SQLQuery, PivotItems: n.PivotItems, Meta: n.Meta}).Hash
		}
	}
	if c.Hash, err = hashOf(c); err != nil {
		return err
	}
	if err := insertVersion(ctx, tx, s, nil, c); err != nil {
		return err
	}
	if err := storeDashboard(ctx, tx, s, c, true); err != nil {
		return err
	}
	return w.recordDashboard(ctx, tx, publishedDashboard, to, nil, c)
}
