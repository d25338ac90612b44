package workspace

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/fold"
	"github.com/quoin-dev/quoin/internal/store"
)

const storedReport = `id, folder_id, workbook_id, public_id, name, name_key, title, json_query, sql_query, pivot_items, meta, source, checksum,
	version, owner, refreshed_by, created_at, created_by, updated_at, updated_by`

// reportColumns are those of scanReport: what is stored, and the folder that contains a report or its workbook.
const reportColumns = storedReport + `, CASE WHEN workbook_id = 0 THEN folder_id ELSE COALESCE(
	(SELECT workbook.folder_id FROM workbook WHERE workbook.account_uid = report.account_uid AND workbook.id = report.workbook_id), 0) END`

// scanReport reads the columns, and further ones.
func scanReport(row interface{ Scan(into ...any) error }, r *Report, further ...any) error {
	var created, updated int64
	var key string
	err := row.Scan(append([]any{
		&r.ID, &r.FolderID, &r.WorkbookID, &r.PublicID, &r.Name, &key, &r.Title, &r.JSONQuery, &r.SQLQuery, &r.PivotItems, &r.Meta, &r.Source,
		&r.Checksum, &r.Version, &r.Owner, &r.RefreshedBy, &created, &r.CreatedBy, &updated, &r.UpdatedBy, &r.PathID,
	}, further...)...)
	r.CreatedAt, r.UpdatedAt = time.UnixMicro(created).UTC(), time.UnixMicro(updated).UTC()
	return err
}

// stored returns the values of the stored columns.
func (r *Report) stored() []any {
	return []any{
		r.ID, r.FolderID, r.WorkbookID, r.PublicID, r.Name, NameKey(r.Name), r.Title, r.JSONQuery, r.SQLQuery, r.PivotItems, r.Meta, r.Source, r.Checksum,
		r.Version, r.Owner, r.RefreshedBy, r.CreatedAt.UnixMicro(), r.CreatedBy, r.UpdatedAt.UnixMicro(), r.UpdatedBy,
	}
}

func insertReport(ctx context.Context, tx *store.Tx, s content.Scope, r *Report) error {
	const statement = "INSERT INTO report (account_uid, deployment_uid, " + storedReport + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)`
	if _, err := tx.ExecContext(ctx, statement, append([]any{s.Account.UID, s.Deployment.UID}, r.stored()...)...); err != nil {
		return fmt.Errorf("insert a report: %w", err)
	}
	return nil
}

func updateReport(ctx context.Context, tx *store.Tx, s content.Scope, r *Report) error {
	const statement = `UPDATE report SET folder_id = $4, workbook_id = $5, public_id = $6, name = $7, name_key = $8, title = $9, json_query = $10,
		sql_query = $11, pivot_items = $12, meta = $13, source = $14, checksum = $15, version = $16, owner = $17, refreshed_by = $18,
		created_at = $19, created_by = $20, updated_at = $21, updated_by = $22
		WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3`
	if _, err := tx.ExecContext(ctx, statement, append([]any{s.Account.UID, s.Deployment.UID}, r.stored()...)...); err != nil {
		return fmt.Errorf("update report %d: %w", r.ID, err)
	}
	return nil
}

// getReport returns a report.
func getReport(ctx context.Context, q store.Querier, s content.Scope, id int64) (*Report, error) {
	const query = "SELECT " + reportColumns + " FROM report WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3"
	r := &Report{}
	err := scanReport(q.QueryRowContext(ctx, query, s.Account.UID, s.Deployment.UID, id), r)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, reportNotFound(id)
	}
	if err != nil {
		return nil, fmt.Errorf("read report %d: %w", id, err)
	}
	return r, nil
}

// reportByPublicID returns the report of the deployment with a public id; nil if there is none.
func reportByPublicID(ctx context.Context, q store.Querier, s content.Scope, id string) (*Report, error) {
	const query = "SELECT " + reportColumns + " FROM report WHERE account_uid = $1 AND deployment_uid = $2 AND public_id = $3"
	r := &Report{}
	err := scanReport(q.QueryRowContext(ctx, query, s.Account.UID, s.Deployment.UID, id), r)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the report with public id %q: %w", id, err)
	}
	return r, nil
}

// reportsOf returns the reports in a workbook, by id.
func reportsOf(ctx context.Context, q store.Querier, s content.Scope, workbook int64) ([]Report, error) {
	const query = "SELECT " + reportColumns + " FROM report WHERE deployment_uid = $1 AND account_uid = $2 AND workbook_id = $3 ORDER BY id"
	rows, err := q.QueryContext(ctx, query, s.Deployment.UID, s.Account.UID, workbook)
	if err != nil {
		return nil, fmt.Errorf("read the reports of workbook %d: %w", workbook, err)
	}
	defer func() { _ = rows.Close() }()
	var out []Report
	for rows.Next() {
		var r Report
		if err := scanReport(rows, &r); err != nil {
			return nil, fmt.Errorf("read the reports of workbook %d: %w", workbook, err)
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// Report returns a report that the caller sees.
func (w *Workspace) Report(ctx context.Context, s content.Scope, by Caller, id int64) (r *Report, err error) {
	err = w.DB.Read(ctx, func(q store.Querier) error {
		r, err = reportFor(ctx, q, s, by, id, access.View)
		return err
	})
	return r, err
}

// reportFor returns a report on which the caller needs a level.
func reportFor(ctx context.Context, q store.Querier, s content.Scope, by Caller, id int64, needed access.Level) (*Report, error) {
	o := access.Object{Kind: access.Report, ID: id}
	level, err := access.Of(ctx, q, s, by.Access, o)
	if err != nil {
		return nil, err
	}
	if level == access.None {
		return nil, reportNotFound(id)
	}
	r, err := getReport(ctx, q, s, id)
	if err != nil {
		return nil, err
	}
	if r.Level = level; level < needed {
		return nil, access.TooLow(by.Access, o, needed, level)
	}
	return r, nil
}

func reportNotFound(id int64) error {
	return content.Errorf(content.NotFound, "report %d does not exist", id)
}

// The orders of lists.
const (
	ByID        = ""
	ByName      = "name"
	ByCreatedAt = "createdAt"
	ByUpdatedAt = "updatedAt"
)

// ReportFilter selects reports. The zero value selects all of a deployment by id.
type ReportFilter struct {
	// FolderID, Root for the root, and WorkbookID contain the reports; nil for any.
	FolderID, WorkbookID *int64
	// ExternalWorkbook is a spreadsheet that the reports are connected to; any if empty.
	ExternalWorkbook string
	// Search is a part of the name, ignoring case.
	Search string
	// Order is one of the orders. ByViewedAt has no keys: its pages begin at an offset.
	Order string
	// Viewer is whose reads ByViewedAt orders by, as <kind>:<id>.
	Viewer     string
	Descending bool
	// Offset is the number of reports to leave out; 0 for a request with a key.
	Offset int
	// Whole makes it an error if the page cannot have all its reports because they are large: the page after it begins at an offset.
	Whole bool
}

// ReportList is a page of reports.
type ReportList struct {
	List[Report]
	// Placements are those of the reports, by id.
	Placements map[int64][]Placement
}

// reportSize is the expression for the size of a report in a list, with its placements.
const reportSize = `OCTET_LENGTH(meta) + OCTET_LENGTH(json_query) + OCTET_LENGTH(sql_query) + OCTET_LENGTH(pivot_items) + COALESCE((SELECT SUM(OCTET_LENGTH(details))
	FROM report_placement WHERE report_placement.account_uid = report.account_uid AND report_placement.report_id = report.id), 0)`

// Reports returns a page of the reports that the caller sees. A page may have fewer items than requested if they are large.
func (w *Workspace) Reports(ctx context.Context, s content.Scope, by Caller, f ReportFilter, r store.PageRequest) (out ReportList, err error) {
	err = w.DB.Read(ctx, func(q store.Querier) error {
		st, err := filtered(ctx, q, s, by, f)
		if err != nil {
			return err
		}
		list, unordered := reportList(st, by, f), f
		unordered.Order = ByID
		all := reportList(st, by, unordered)
		if err := q.QueryRowContext(ctx, all.With+"SELECT COUNT(*) FROM "+all.From, all.Args...).Scan(&out.Total); err != nil {
			return fmt.Errorf("count reports: %w", err)
		}
		if f.Offset > 0 {
			if r.After, err = keyAt(ctx, q, list, f.Offset-1); err != nil || r.After == nil {
				out.HasPrevious = out.Total > 0
				return err
			}
		}
		limit, err := bounded(ctx, q, list, reportSize, r)
		if err != nil {
			return err
		}
		if f.Whole && limit < r.Limit {
			return content.Errorf(content.Invalid, "limit: %d reports from there have more than %d bytes together; allowed: at most %d", limit+1, maxPageBytes, limit)
		}
		r.Limit = limit
		if out.Page, err = list.Read(ctx, q, r); err != nil {
			return err
		}
		var folders, ids []int64
		for i := range out.Items {
			folders, ids = append(folders, out.Items[i].PathID), append(ids, out.Items[i].ID)
		}
		if out.Placements, err = placements(ctx, q, s, ids); err != nil {
			return err
		}
		out.Paths, err = paths(ctx, q, s, folders)
		return err
	})
	return out, err
}

// filtered returns the part of the statements for the reports of a filter, and an error for what does not exist, or what the caller
// does not see.
func filtered(ctx context.Context, q store.Querier, s content.Scope, by Caller, f ReportFilter) (st access.Statement, err error) {
	st = access.In(s, by.Access)
	if f.FolderID != nil {
		level, err := levelShown(ctx, q, s, by, *f.FolderID)
		if err != nil {
			return st, err
		}
		st = access.Within(s, by.Access, level)
	}
	if f.WorkbookID != nil {
		wb, err := workbookFor(ctx, q, s, by, *f.WorkbookID, access.View)
		if err != nil {
			return st, content.Prefixed("workbookId", err)
		}
		st = access.Within(s, by.Access, wb.Level)
	}
	return st, cmp.Or(content.CheckText("search", f.Search), content.CheckText("externalWorkbookId", f.ExternalWorkbook))
}

// reportList returns the list of the reports that a caller sees, with a filter.
func reportList(st access.Statement, by Caller, f ReportFilter) store.List[Report] {
	rows := st.Reports()
	l := store.List[Report]{
		With: st.With, Columns: reportColumns + ", " + rows.Level, Args: st.Args, Order: []string{"id"}, Descending: f.Descending,
		From: "report" + rows.Join + " WHERE deployment_uid = $2 AND account_uid = $1 AND " + rows.Visible,
		Scan: func(row *sql.Rows, r *Report) error {
			err := scanReport(row, r, &r.Level)
			r.Level = by.Access.Limited(r.Level)
			return err
		},
		Key: func(r *Report) []any { return []any{r.ID} },
	}
	where := func(condition string, value any) {
		l.Args = append(l.Args, value)
		l.From += fmt.Sprintf(condition, len(l.Args))
	}
	if f.FolderID != nil {
		where(" AND workbook_id = 0 AND folder_id = $%d", *f.FolderID)
	}
	if f.WorkbookID != nil {
		where(" AND workbook_id = $%d", *f.WorkbookID)
	}
	if f.ExternalWorkbook != "" {
		where(" AND id IN (SELECT report_id FROM report_placement WHERE deployment_uid = $2 AND account_uid = $1 AND external_workbook = $%d)", f.ExternalWorkbook)
	}
	if f.Search != "" {
		where(` AND name_key LIKE $%d ESCAPE '\'`, containing(f.Search))
	}
	switch f.Order {
	case ByName:
		l.Order, l.Key = []string{"name_key", "id"}, func(r *Report) []any { return []any{NameKey(r.Name), r.ID} }
	case ByCreatedAt:
		l.Order, l.Key = []string{"created_at", "id"}, func(r *Report) []any { return []any{r.CreatedAt.UnixMicro(), r.ID} }
	case ByUpdatedAt:
		l.Order, l.Key = []string{"updated_at", "id"}, func(r *Report) []any { return []any{r.UpdatedAt.UnixMicro(), r.ID} }
	case ByViewedAt:
		l.Args = append(l.Args, f.Viewer)
		l.Order = []string{"COALESCE(" + viewedAt("$1", fmt.Sprintf("$%d", len(l.Args)), "'REPORT'", "report.id") + ", 0)", "id"}
	}
	return l
}

// NameKey returns a name in the form in which lists are ordered.
func NameKey(name string) string { return fold.Case(name) }

// containing returns the pattern of LIKE for names that contain a text, in the form in which names are compared.
func containing(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(fold.Case(text)) + "%"
}

// keyAt returns the key of the report with an index, from 0; nil if there are fewer.
func keyAt(ctx context.Context, q store.Querier, l store.List[Report], index int) ([]any, error) {
	direction := " ASC"
	if l.Descending {
		direction = " DESC"
	}
	query := fmt.Sprintf("%sSELECT %s FROM %s ORDER BY %s LIMIT 1 OFFSET %d", l.With, strings.Join(l.Order, ", "), l.From, strings.Join(l.Order, direction+", ")+direction, index)
	key, into := make([]any, len(l.Order)), make([]any, len(l.Order))
	for i := range key {
		into[i] = &key[i]
	}
	err := q.QueryRowContext(ctx, query, l.Args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read report %d of a list: %w", index, err)
	}
	return key, nil
}

// FolderCount is a folder with the number of reports in it.
type FolderCount struct {
	ID      int64
	Name    string
	Reports int
}

// ReportFolders returns a page of the folders of a deployment that the caller sees by id, with the number of reports directly in
// each that the caller sees.
func (w *Workspace) ReportFolders(ctx context.Context, s content.Scope, by Caller, r store.PageRequest) (page store.Page[FolderCount], err error) {
	st := access.In(s, by.Access)
	rows := st.Folders()
	list := store.List[FolderCount]{
		With: st.With,
		Columns: `id, name, (SELECT COUNT(*) FROM report WHERE report.deployment_uid = folder.deployment_uid AND report.account_uid = folder.account_uid
			AND report.folder_id = folder.id AND ` + st.ReportsInFolder() + ")",
		From: "folder" + rows.Join + " WHERE deployment_uid = $2 AND account_uid = $1 AND " + rows.Visible, Args: st.Args, Order: []string{"id"},
		Scan: func(row *sql.Rows, f *FolderCount) error { return row.Scan(&f.ID, &f.Name, &f.Reports) },
		Key:  func(f *FolderCount) []any { return []any{f.ID} },
	}
	err = w.DB.Read(ctx, func(q store.Querier) error {
		page, err = list.Read(ctx, q, r)
		return err
	})
	return page, err
}
