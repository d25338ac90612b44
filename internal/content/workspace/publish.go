package workspace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/managed"
	"github.com/quoin-dev/quoin/internal/store"
)

// maxDescription is the maximum number of characters of the description of a dashboard.
const maxDescription = 4096

// Names of events.
var (
	publishedDashboard = audit.Declare("Published dashboard")
	restoredDashboard  = audit.Declare("Restored dashboard version")
)

// Dashboard is the published dashboard of a workbook.
type Dashboard struct {
	// ID and PublicID are unique in the account; they are those of all versions.
	ID         int64
	WorkbookID int64
	PublicID   string
	// AllowEmbed permits sessions that are signed for embedding.
	AllowEmbed bool
	Version
	// Snapshots are the reports that the version shows, in the order of the widgets.
	Snapshots []Snapshot
}

// Version is a version of a dashboard, which does not change.
type Version struct {
	VersionID int64
	// Number counts the versions of the dashboard, from 1.
	Number             int64
	Title, Description string
	// Config is a JSON object in canonical form.
	Config string
	// Hash is that of the config, the title, the description and the snapshots.
	Hash string
	// Owner is who has published it, as <kind>:<id>, and CreatedBy the principal.
	Owner, CreatedBy string
	CreatedAt        time.Time
}

// Snapshot is a report as it was when a version was published.
type Snapshot struct {
	ID       int64
	ReportID int64
	// Number counts the states of the report that were published, from 1.
	Number              int64
	PublicID            string
	Name                string
	Title               string
	JSONQuery, SQLQuery string
	PivotItems, Meta    string
	// Hash is that of the state of the report.
	Hash string
}

// Publication is what to publish. Properties that are nil stay.
type Publication struct {
	// DashboardID is that of the workbook; any if 0.
	DashboardID int64
	// Config is the dashboard; the draft of the workbook if nil. It must not be shared.
	Config             Object
	Title, Description *string
	AllowEmbed         *bool
}

// Publish makes a new version of the dashboard of a workbook, with the reports as they are now, and shows it. The same content as
// that of the version that is shown makes no new version. The caller needs the level edit.
func (w *Workspace) Publish(ctx context.Context, s content.Scope, by Caller, workbook int64, in Publication) (out *Dashboard, err error) {
	err = w.change(ctx, s, func(tx *store.Tx) error {
		wb, err := workbookFor(ctx, tx, s, by, workbook, access.Edit)
		if err != nil {
			return err
		}
		out, err = w.publish(ctx, tx, s, by, wb, in)
		return err
	})
	return out, err
}

func (w *Workspace) publish(ctx context.Context, tx *store.Tx, s content.Scope, by Caller, wb *Workbook, in Publication) (*Dashboard, error) {
	if err := managed.Check(ctx, tx, s, managed.Workbook, wb.ID); err != nil {
		return nil, err
	}
	before, err := getDashboard(ctx, tx, s, wb.ID)
	if err != nil {
		return nil, err
	}
	if in.DashboardID != 0 && (before == nil || before.ID != in.DashboardID) {
		return nil, content.Errorf(content.NotFound, "dashboardId: dashboard %d is not that of workbook %d", in.DashboardID, wb.ID)
	}
	after, err := w.version(ctx, tx, s, wb, before, in)
	if err != nil {
		return nil, err
	}
	if before != nil && before.Hash == after.Hash {
		return w.setAllowEmbed(ctx, tx, s, wb, before, after.AllowEmbed)
	}
	return after, w.storeVersion(ctx, tx, s, by, wb, before, after)
}

// setAllowEmbed stores whether a dashboard may be embedded, and returns it.
func (w *Workspace) setAllowEmbed(ctx context.Context, tx *store.Tx, s content.Scope, wb *Workbook, before *Dashboard, allow bool) (*Dashboard, error) {
	if before.AllowEmbed == allow {
		return before, nil
	}
	after := *before
	after.AllowEmbed = allow
	if err := storeDashboard(ctx, tx, s, &after, false); err != nil {
		return nil, err
	}
	return &after, w.recordDashboard(ctx, tx, publishedDashboard, wb, before, &after)
}

// storeVersion stores a dashboard as a new version by the caller, which is the one that is shown; before is nil for the first one.
func (w *Workspace) storeVersion(ctx context.Context, tx *store.Tx, s content.Scope, by Caller, wb *Workbook, before, after *Dashboard) error {
	after.Owner, after.CreatedBy, after.CreatedAt = by.Owner, by.Principal, w.now()
	if err := insertVersion(ctx, tx, s, before, after); err != nil {
		return err
	}
	if err := storeDashboard(ctx, tx, s, after, before == nil); err != nil {
		return err
	}
	if err := removeOldVersions(ctx, tx, s, after); err != nil {
		return err
	}
	return w.recordDashboard(ctx, tx, publishedDashboard, wb, before, after)
}

// version returns the dashboard that a publication makes, without what only a new version gets.
func (w *Workspace) version(ctx context.Context, q store.Querier, s content.Scope, wb *Workbook, before *Dashboard, in Publication) (*Dashboard, error) {
	config, field, err := configOf(wb, in)
	if err != nil {
		return nil, err
	}
	out := &Dashboard{WorkbookID: wb.ID, PublicID: newPublicID()}
	if before != nil {
		out.ID, out.PublicID, out.AllowEmbed, out.Title, out.Description = before.ID, before.PublicID, before.AllowEmbed, before.Title, before.Description
	}
	if title, ok := config["title"].(string); ok {
		out.Title = title
	}
	if description, ok := config["description"].(string); ok {
		out.Description = description
	}
	if in.Title != nil {
		out.Title = *in.Title
	}
	if in.Description != nil {
		out.Description = *in.Description
	}
	if in.AllowEmbed != nil {
		out.AllowEmbed = *in.AllowEmbed
	}
	if n := utf8.RuneCountInString(out.Title); n > content.MaxName {
		return nil, content.Errorf(content.Invalid, "title: it has %d characters; allowed: %d", n, content.MaxName)
	}
	if n := utf8.RuneCountInString(out.Description); n > maxDescription {
		return nil, content.Errorf(content.Invalid, "description: it has %d characters; allowed: %d", n, maxDescription)
	}
	if err := cmp.Or(content.CheckText("title", out.Title), content.CheckText("description", out.Description)); err != nil {
		return nil, err
	}
	reports, err := reportsOf(ctx, q, s, wb.ID)
	if err != nil {
		return nil, err
	}
	if out.Snapshots, err = snapshotsOf(field, config, reports); err != nil {
		return nil, err
	}
	if out.Config, err = encode(field, config); err != nil {
		return nil, err
	}
	out.Hash, err = hashOf(out)
	return out, err
}

// configOf returns the config to publish, which is valid, and its place in the request.
func configOf(wb *Workbook, in Publication) (Object, string, error) {
	config, field := in.Config, "config"
	if config == nil {
		meta, err := Decode([]byte(wb.Meta))
		if err != nil {
			return nil, "", fmt.Errorf("meta of workbook %d: %w", wb.ID, err)
		}
		draft, ok := meta[draftProperty].(Object)
		if !ok {
			return nil, "", content.Errorf(content.Invalid, "config: it is absent, and workbook %d has no draft", wb.ID)
		}
		config, field = draft, "meta."+draftProperty
	}
	widgets, _ := config["widgets"].([]any)
	for i, item := range widgets {
		if widget, ok := item.(Object); ok && (widget["id"] == nil || widget["id"] == "") {
			return nil, "", content.Errorf(content.Invalid, "%s.widgets[%d].id: it is absent; allowed: 1 to 128 characters", field, i)
		}
	}
	if err := checkDraft(field, config); err != nil {
		return nil, "", err
	}
	return config, field, checkContainers(field, widgets)
}

// snapshotsOf returns snapshots of the reports that the charts of a config show. It makes the charts refer to them by both ids.
func snapshotsOf(field string, config Object, reports []Report) (out []Snapshot, err error) {
	byID, byPublicID := map[int64]*Report{}, map[string]*Report{}
	for i := range reports {
		byID[reports[i].ID], byPublicID[reports[i].PublicID] = &reports[i], &reports[i]
	}
	shown := map[int64]bool{}
	widgets, _ := config["widgets"].([]any)
	for i, item := range widgets {
		widget, _ := item.(Object)
		if widget["type"] != "CHART" {
			continue
		}
		place := fmt.Sprintf("%s.widgets[%d].config", field, i)
		chart, _ := widget["config"].(Object)
		r, err := reportOf(place, chart, byID, byPublicID)
		if err != nil {
			return nil, err
		}
		chart["reportId"], chart["reportPublicId"] = json.Number(strconv.FormatInt(r.ID, 10)), r.PublicID
		if shown[r.ID] {
			continue
		}
		shown[r.ID] = true
		out = append(out, snapshot(r))
	}
	return out, nil
}

// reportOf returns the report that a chart shows.
func reportOf(place string, chart Object, byID map[int64]*Report, byPublicID map[string]*Report) (*Report, error) {
	publicID, _ := chart["reportPublicId"].(string)
	number, _ := chart["reportId"].(json.Number)
	id, _ := number.Int64()
	r := byPublicID[publicID]
	switch {
	case publicID == "" && number == "":
		return nil, content.Errorf(content.Invalid, "%s.reportPublicId: it is absent, and reportId too; allowed: the id of a report in the workbook", place)
	case publicID != "" && r == nil:
		return nil, content.Errorf(content.Invalid, "%s.reportPublicId: the workbook has no report %q", place, publicID)
	case publicID != "" && number != "" && r.ID != id && byID[id] != nil:
		return nil, content.Errorf(content.Invalid, "%s.reportId: report %s is not that of reportPublicId %q", place, number, publicID)
	case publicID != "":
		return r, nil // the number is that of another installation
	case byID[id] == nil:
		return nil, content.Errorf(content.Invalid, "%s.reportId: the workbook has no report %s", place, number)
	}
	return byID[id], nil
}

// snapshot returns the state of a report.
func snapshot(r *Report) Snapshot {
	out := Snapshot{
		ReportID: r.ID, PublicID: r.PublicID, Name: r.Name, Title: r.Title, JSONQuery: r.JSONQuery, SQLQuery: r.SQLQuery, PivotItems: r.PivotItems, Meta: r.Meta,
	}
	sum := sha256.New()
	for _, part := range []string{out.PublicID, out.Name, out.Title, out.JSONQuery, out.SQLQuery, out.PivotItems, out.Meta} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	out.Hash = hex.EncodeToString(sum.Sum(nil))
	return out
}

// hashOf returns the hash of the content of a dashboard.
func hashOf(d *Dashboard) (string, error) {
	parts := []string{d.Title, d.Description, d.Config}
	for i := range d.Snapshots {
		parts = append(parts, d.Snapshots[i].Hash)
	}
	text, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("hash of a dashboard: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// maxContainers is the maximum number of containers in each other.
const maxContainers = 4

// checkContainers returns an error if a container has a child that does not exist or that another one has, or if containers are
// in each other too often.
func checkContainers(field string, widgets []any) error {
	children, parent, index := map[string][]string{}, map[string]string{}, map[string]int{}
	for i, item := range widgets {
		widget, _ := item.(Object)
		id, _ := widget["id"].(string)
		index[id] = i
	}
	for i, item := range widgets {
		widget, _ := item.(Object)
		config, _ := widget["config"].(Object)
		if widget["type"] != "CONTAINER" {
			continue
		}
		id, _ := widget["id"].(string)
		listed, _ := config["children"].([]any)
		for j, child := range listed {
			name, _ := child.(string)
			if tab, ok := child.(Object); ok {
				name, _ = tab["widgetId"].(string)
			}
			place := fmt.Sprintf("%s.widgets[%d].config.children[%d]", field, i, j)
			if _, exists := index[name]; !exists {
				return content.Errorf(content.Invalid, "%s: there is no widget %q", place, clip(name))
			}
			if other, taken := parent[name]; taken {
				return content.Errorf(content.Invalid, "%s: widget %q is in container %q already", place, clip(name), clip(other))
			}
			parent[name], children[id] = id, append(children[id], name)
		}
	}
	for i, item := range widgets {
		widget, _ := item.(Object)
		id, _ := widget["id"].(string)
		for depth := 0; parent[id] != ""; id = parent[id] {
			if depth++; depth > maxContainers {
				return content.Errorf(content.Invalid, "%s.widgets[%d]: it is in more than %d containers", field, i, maxContainers)
			}
		}
	}
	return nil
}

// recordDashboard stores the event of a change; before is nil for the first version.
func (w *Workspace) recordDashboard(ctx context.Context, tx *store.Tx, name string, wb *Workbook, before, after *Dashboard) error {
	object := audit.Object{Kind: "Workbook", Name: wb.Name, ID: strconv.FormatInt(wb.ID, 10)}
	return w.Record.Change(ctx, tx, name, object, before.fields(), after.fields())
}

// fields returns the fields of a dashboard that events show.
func (d *Dashboard) fields() map[string]any {
	if d == nil {
		return nil
	}
	return map[string]any{"publicId": d.PublicID, "version": d.Number, "title": d.Title, "allowEmbed": d.AllowEmbed, "contentSHA256": d.Hash}
}

const dashboardColumns = `dashboard.id, dashboard.workbook_id, dashboard.public_id, dashboard.allow_embed, v.id, v.number, v.title, v.description, v.config,
	v.content_hash, v.owner, v.created_at, v.created_by`

func scanDashboard(row interface{ Scan(into ...any) error }, d *Dashboard) error {
	var created int64
	err := row.Scan(&d.ID, &d.WorkbookID, &d.PublicID, &d.AllowEmbed, &d.VersionID, &d.Number, &d.Title, &d.Description, &d.Config, &d.Hash, &d.Owner, &created, &d.CreatedBy)
	d.CreatedAt = time.UnixMicro(created).UTC()
	return err
}

// getDashboard returns the dashboard of a workbook with the version that is shown; nil if it was not published.
func getDashboard(ctx context.Context, q store.Querier, s content.Scope, workbook int64) (*Dashboard, error) {
	const query = "SELECT " + dashboardColumns + ` FROM dashboard JOIN dashboard_version AS v ON v.account_uid = dashboard.account_uid AND v.id = dashboard.version_id
		WHERE dashboard.account_uid = $1 AND dashboard.deployment_uid = $2 AND dashboard.workbook_id = $3`
	d := &Dashboard{}
	err := scanDashboard(q.QueryRowContext(ctx, query, s.Account.UID, s.Deployment.UID, workbook), d)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the dashboard of workbook %d: %w", workbook, err)
	}
	d.Snapshots, err = snapshots(ctx, q, s, d.VersionID)
	return d, err
}

const snapshotColumns = "id, report_id, number, public_id, name, title, json_query, sql_query, pivot_items, meta, content_hash"

// snapshots returns the snapshots of a version, by id.
func snapshots(ctx context.Context, q store.Querier, s content.Scope, version int64) (out []Snapshot, err error) {
	const query = "SELECT " + snapshotColumns + " FROM report_snapshot WHERE account_uid = $1 AND deployment_uid = $2 AND version_id = $3 ORDER BY id"
	rows, err := q.QueryContext(ctx, query, s.Account.UID, s.Deployment.UID, version)
	if err != nil {
		return nil, fmt.Errorf("read the snapshots of version %d: %w", version, err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var n Snapshot
		err := rows.Scan(&n.ID, &n.ReportID, &n.Number, &n.PublicID, &n.Name, &n.Title, &n.JSONQuery, &n.SQLQuery, &n.PivotItems, &n.Meta, &n.Hash)
		if err != nil {
			return nil, fmt.Errorf("read the snapshots of version %d: %w", version, err)
		}
		out = append(out, n)
	}
	return out, rows.Err()
}

// insertVersion stores a version with its snapshots, and sets their ids and numbers; before is nil for the first one.
func insertVersion(ctx context.Context, tx *store.Tx, s content.Scope, before, d *Dashboard) (err error) {
	d.Number = 1
	if before == nil {
		if d.ID, err = tx.NextID(ctx, s.Account.UID, "dashboard"); err != nil {
			return err
		}
	} else if err := tx.QueryRowContext(ctx, "SELECT MAX(number) + 1 FROM dashboard_version WHERE account_uid = $1 AND dashboard_id = $2", s.Account.UID, d.ID).Scan(&d.Number); err != nil {
		return fmt.Errorf("read the versions of dashboard %d: %w", d.ID, err)
	}
	if d.VersionID, err = tx.NextID(ctx, s.Account.UID, "dashboard_version"); err != nil {
		return err
	}
	const statement = `INSERT INTO dashboard_version (account_uid, deployment_uid, id, dashboard_id, number, title, description, config, content_hash, owner, created_at,
		created_by) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`
	if _, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, d.VersionID, d.ID, d.Number, d.Title, d.Description, d.Config, d.Hash, d.Owner,
		d.CreatedAt.UnixMicro(), d.CreatedBy); err != nil {
		return fmt.Errorf("insert a version: %w", err)
	}
	latest, err := latestSnapshots(ctx, tx, s, d.Snapshots)
	if err != nil {
		return err
	}
	for i := range d.Snapshots {
		n := &d.Snapshots[i]
		last := latest[n.ReportID]
		if n.Number = last.number; last.hash != n.Hash {
			n.Number++
		}
		if err := insertSnapshot(ctx, tx, s, d.VersionID, n); err != nil {
			return err
		}
	}
	return nil
}

func insertSnapshot(ctx context.Context, tx *store.Tx, s content.Scope, version int64, n *Snapshot) (err error) {
	if n.ID, err = tx.NextID(ctx, s.Account.UID, "report_snapshot"); err != nil {
		return err
	}
	const statement = "INSERT INTO report_snapshot (account_uid, deployment_uid, version_id, " + snapshotColumns + ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
	if _, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, version, n.ID, n.ReportID, n.Number, n.PublicID, n.Name, n.Title, n.JSONQuery,
		n.SQLQuery, n.PivotItems, n.Meta, n.Hash); err != nil {
		return fmt.Errorf("insert a snapshot of report %d: %w", n.ReportID, err)
	}
	return nil
}

// state is the number and the hash of a snapshot.
type state struct {
	number int64
	hash   string
}

// latestSnapshots returns the latest states of reports that were published, with one statement.
func latestSnapshots(ctx context.Context, q store.Querier, s content.Scope, of []Snapshot) (map[int64]state, error) {
	out := map[int64]state{}
	if len(of) == 0 {
		return out, nil
	}
	args, wanted := []any{s.Account.UID}, make([]string, len(of))
	for i := range of {
		args, wanted[i] = append(args, of[i].ReportID), fmt.Sprintf("$%d", i+2)
	}
	query := "SELECT DISTINCT report_id, number, content_hash FROM report_snapshot WHERE account_uid = $1 AND report_id IN (" + strings.Join(wanted, ", ") + ") ORDER BY report_id, number"
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read snapshots: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var report int64
		var latest state
		if err := rows.Scan(&report, &latest.number, &latest.hash); err != nil {
			return nil, fmt.Errorf("read snapshots: %w", err)
		}
		out[report] = latest
	}
	return out, rows.Err()
}

// storeDashboard stores which version is shown.
func storeDashboard(ctx context.Context, tx *store.Tx, s content.Scope, d *Dashboard, isNew bool) error {
	statement := "UPDATE dashboard SET workbook_id = $4, public_id = $5, version_id = $6, allow_embed = $7 WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3"
	if isNew {
		statement = "INSERT INTO dashboard (account_uid, deployment_uid, id, workbook_id, public_id, version_id, allow_embed) VALUES ($1, $2, $3, $4, $5, $6, $7)"
	}
	if _, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, d.ID, d.WorkbookID, d.PublicID, d.VersionID, d.AllowEmbed); err != nil {
		return fmt.Errorf("store dashboard %d: %w", d.ID, err)
	}
	return nil
}
