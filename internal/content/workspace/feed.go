package workspace

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/store"
)

// ItemType is the type of an item of the feed.
type ItemType string

// The types of items.
const (
	FolderItem   ItemType = "FOLDER"
	WorkbookItem ItemType = "WORKBOOK"
	ReportItem   ItemType = "REPORT"
)

// itemTypes are the types in the order of items that are equal otherwise. Statements have the index.
var itemTypes = []ItemType{FolderItem, WorkbookItem, ReportItem}

// ByViewedAt orders by when the viewer has read a workbook or a report last; what was never read comes first.
const ByViewedAt = "viewedAt"

// Item is a folder, a workbook, or a report outside of workbooks.
type Item struct {
	Type ItemType
	ID   int64
	// FolderID is the folder that contains it; Root at the root.
	FolderID int64
	Name     string
	// Position is that of a folder.
	Position int64
	// Code is the slug of a workbook, which may be empty, or the public id of a report.
	Code string
	// Owner is who it belongs to, as <kind>:<id>.
	Owner string
	// Meta is that of a workbook or a report, a JSON object in canonical form; without the draft for a caller who may not edit it.
	Meta                 string
	CreatedAt, UpdatedAt time.Time
	// ViewedAt is when the viewer has read it last; zero if never.
	ViewedAt time.Time
	// Level is what the caller may do with it.
	Level access.Level
	// IsFavorite reports whether the viewer has marked the workbook.
	IsFavorite bool

	// name or at is what a workbook or a report is ordered by.
	name sql.NullString
	at   sql.NullInt64
}

// FeedKey is the position of an item in a feed.
type FeedKey struct {
	Type ItemType `json:"y"`
	// Position is that of a folder.
	Position int64 `json:"p,omitempty"`
	// Name or At is what other items are ordered by.
	Name *string `json:"n,omitempty"`
	At   *int64  `json:"t,omitempty"`
	ID   int64   `json:"i"`
}

// Key returns the position of the item.
func (i *Item) Key() FeedKey {
	k := FeedKey{Type: i.Type, Position: i.Position, ID: i.ID}
	if i.name.Valid {
		k.Name = &i.name.String
	}
	if i.at.Valid {
		k.At = &i.at.Int64
	}
	return k
}

// FeedRequest selects a page of a feed.
type FeedRequest struct {
	// By is who reads it: only what the caller reaches is listed, with the folders that lead there.
	By Caller
	// FolderID is the folder whose content is listed; Root for the root.
	FolderID int64
	// Types are those of the items.
	Types []ItemType
	// Search is a part of the name, ignoring case. With it, items of all folders are listed.
	Search string
	// Order of workbooks and reports: ByName, ByCreatedAt, ByUpdatedAt or ByViewedAt.
	Order      string
	Descending bool
	// After is the position of the last item of the page before; nil for the first page.
	After *FeedKey
	// Limit is the maximum number of items, at least 1.
	Limit int
}

// Feed is a page of a feed.
type Feed struct {
	Items   []Item
	HasNext bool
	// Paths are the paths of the folders of the items, from the root, by the id of the folder.
	Paths map[int64][]Place
}

// Feed returns a page of the folders, by position and id, and then of the workbooks and reports in a folder, or of all whose
// names have a text. A page may have fewer items than requested if they are large.
func (w *Workspace) Feed(ctx context.Context, s content.Scope, r FeedRequest) (out Feed, err error) {
	err = w.DB.Read(ctx, func(q store.Querier) error {
		level, err := levelShown(ctx, q, s, r.By, r.FolderID)
		if err != nil {
			return err
		}
		if err := content.CheckText("search", r.Search); err != nil {
			return err
		}
		st := access.Within(s, r.By.Access, level)
		if r.Search != "" {
			st = access.In(s, r.By.Access)
		}
		out, err = readFeed(ctx, q, newFeedStatement(s, st, r))
		return err
	})
	return out, err
}

// Item returns an item for a reader.
func (w *Workspace) Item(ctx context.Context, s content.Scope, by Caller, t ItemType, id int64) (item *Item, path []Place, err error) {
	err = w.DB.Read(ctx, func(q store.Querier) error {
		f := newFeedStatement(s, access.In(s, by.Access), FeedRequest{By: by, Types: []ItemType{t}, Order: ByName, Limit: 1})
		f.id = id
		found, err := readFeed(ctx, q, f)
		if err != nil {
			return err
		}
		if len(found.Items) == 0 {
			return content.Errorf(content.NotFound, "%s %d does not exist", strings.ToLower(string(t)), id)
		}
		item, path = &found.Items[0], found.Paths[found.Items[0].FolderID]
		return nil
	})
	return item, path, err
}

func readFeed(ctx context.Context, q store.Querier, f *feedStatement) (out Feed, err error) {
	query := f.query()
	if query == "" {
		return out, nil
	}
	if out.Items, out.HasNext, err = f.read(ctx, q, query); err == nil {
		out.Items, err = f.complete(ctx, q, out.Items)
	}
	if err != nil {
		return out, fmt.Errorf("read the workspace: %w", err)
	}
	folders := make([]int64, len(out.Items))
	for i := range out.Items {
		folders[i] = out.Items[i].FolderID
	}
	out.Paths, err = paths(ctx, q, f.scope, folders)
	return out, err
}

// feedStatement builds the statement of a page: a branch for each type, of which each reads at most a page with the index of
// its folder, and their union in the order of the feed. What is looked up for each item is read for the items of the page only.
type feedStatement struct {
	FeedRequest
	scope content.Scope
	// id selects one item; 0 for those of the request.
	id     int64
	access access.Statement
	args   []any
}

func newFeedStatement(s content.Scope, st access.Statement, r FeedRequest) *feedStatement {
	return &feedStatement{FeedRequest: r, scope: s, access: st, args: slices.Clone(st.Args)}
}

// arg adds an argument and returns its parameter.
func (f *feedStatement) arg(value any) string {
	f.args = append(f.args, value)
	return fmt.Sprintf("$%d", len(f.args))
}

// shortMeta is the meta of an item if it is short: that of most items is read with the item, and a page of the union stays small.
const shortMeta = "CASE WHEN OCTET_LENGTH(meta) <= 2048 THEN meta END"

// branchTables have the tables of the types, and their expressions for the columns of the union.
var branchTables = []struct {
	table, parent, position, size, meta, code, within string
	reached                                           func(access.Statement) access.Rows
}{
	{"folder", "parent_id", "position", "0", "'{}'", "''", "", access.Statement.Folders},
	{"workbook", "folder_id", "0", "OCTET_LENGTH(meta)", shortMeta, "slug", "", access.Statement.Workbooks},
	{"report", "folder_id", "0", "OCTET_LENGTH(meta)", shortMeta, "public_id", " AND workbook_id = 0", access.Statement.Reports},
}

// query returns the statement, which reads one item more than the page has; empty if no item can be on the page.
func (f *feedStatement) query() string {
	var branches []string
	for kind, t := range itemTypes {
		if slices.Contains(f.Types, t) && (kind > 0 || f.After == nil || f.After.Type == FolderItem) {
			branches = append(branches, f.branch(kind))
		}
	}
	if len(branches) == 0 {
		return ""
	}
	direction := f.direction()
	return f.access.With + "SELECT kind, id, parent, level, name, position, code, owner, created_at, updated_at, sort, size, short_meta FROM (" +
		strings.Join(branches, " UNION ALL ") + ") AS page ORDER BY sort" + direction + " NULLS FIRST, position, tie, kind" + direction + ", id" + direction +
		" LIMIT " + f.arg(f.Limit+1)
}

// viewedAt returns the expression, of the parameters of the account and the viewer, for when a viewer has read an object last, which is NULL if never.
func viewedAt(account, viewer, objectType, id string) string {
	return "(SELECT viewed_at FROM view_event WHERE view_event.account_uid = " + account + " AND view_event.viewer = " + viewer +
		" AND view_event.object_type = " + objectType + " AND view_event.object_id = " + id + ")"
}

func (f *feedStatement) direction() string {
	if f.Descending {
		return " DESC"
	}
	return " ASC"
}

// branch returns the SELECT of the items of a type.
func (f *feedStatement) branch(kind int) string {
	t := branchTables[kind]
	reached := t.reached(f.access)
	sort, tie := f.sort(kind), "0"
	order := sort + f.direction() + ", id" + f.direction()
	if kind == 0 {
		order, tie = "position, id", "id"
	}
	columns := fmt.Sprintf("%s AS position, %s AS tie, %s AS sort, %d AS kind, id, %s AS size, %s AS short_meta, %s AS parent, %s AS level, name, %s AS code, owner, created_at, updated_at",
		t.position, tie, sort, kind, t.size, t.meta, t.parent, reached.Level, t.code)
	where := "account_uid = $1 AND deployment_uid = $2" + f.conditions(kind) + f.after(kind, sort) + " AND " + reached.Visible
	return fmt.Sprintf("SELECT * FROM (SELECT %s FROM %s%s WHERE %s ORDER BY %s LIMIT %s) AS %s_items",
		columns, t.table, reached.Join, where, order, f.arg(f.Limit+1), t.table)
}

// sort returns the expression that items of a type are ordered by. It is NULL for folders, which come first in both directions. It
// leads the order of the union because it differs for most items, so that few comparisons need the columns after it.
func (f *feedStatement) sort(kind int) string {
	switch {
	case kind == 0 && f.Order == ByName:
		return "CAST(NULL AS TEXT)"
	case kind == 0:
		return "CAST(NULL AS BIGINT)"
	case f.Order == ByName:
		return "name_key"
	case f.Order == ByCreatedAt:
		return "created_at"
	case f.Order == ByUpdatedAt:
		return "updated_at"
	}
	return "COALESCE(" + viewedAt("$1", f.arg(f.By.Owner), "'"+string(itemTypes[kind])+"'", branchTables[kind].table+".id") + ", 0)"
}

// conditions returns the conditions for what is requested.
func (f *feedStatement) conditions(kind int) string {
	t := branchTables[kind]
	switch {
	case f.id != 0:
		return " AND id = " + f.arg(f.id)
	case f.Search != "":
		return t.within + " AND name_key LIKE " + f.arg(containing(f.Search)) + ` ESCAPE '\'`
	}
	return t.within + " AND " + t.parent + " = " + f.arg(f.FolderID)
}

// after returns the condition for the items of a type after the page before.
func (f *feedStatement) after(kind int, sort string) string {
	switch {
	case f.After == nil || kind > 0 && f.After.Type == FolderItem:
		return ""
	case kind == 0:
		return " AND (position, id) > (" + f.arg(f.After.Position) + ", " + f.arg(f.After.ID) + ")"
	}
	operator := " > "
	if f.Descending {
		operator = " < "
	}
	last := slices.Index(itemTypes, f.After.Type)
	switch {
	case kind == last:
		return " AND (" + sort + ", id)" + operator + "(" + f.arg(f.After.value(f.Order)) + ", " + f.arg(f.After.ID) + ")"
	case kind > last != f.Descending: // it comes after items of the last type that are equal otherwise
		return " AND " + sort + strings.TrimSpace(operator) + "= " + f.arg(f.After.value(f.Order))
	}
	return " AND " + sort + operator + f.arg(f.After.value(f.Order))
}

// value returns what the item is ordered by. A cursor is bound to the order of its feed.
func (k *FeedKey) value(order string) any {
	switch {
	case order == ByName && k.Name != nil:
		return *k.Name
	case order == ByName:
		return ""
	case k.At != nil:
		return *k.At
	}
	return int64(0)
}

// read reads the items until their opaque parts exceed what a page may have, and reports whether there are more.
func (f *feedStatement) read(ctx context.Context, q store.Querier, query string) (items []Item, more bool, err error) {
	rows, err := q.QueryContext(ctx, query, f.args...)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = rows.Close() }()
	total, row := 0, newFeedRow(f.Order)
	items = make([]Item, 0, min(f.Limit, 100))
	for rows.Next() {
		if err := rows.Scan(row.into...); err != nil {
			return nil, false, err
		}
		if total += row.size; len(items) == f.Limit || total > maxPageBytes && len(items) > 0 {
			return items, true, nil
		}
		items = append(items, f.item(row))
	}
	return items, false, rows.Err()
}

// feedRow is a row of the statement. One is scanned again for each item: variables of a scan are on the heap.
type feedRow struct {
	item             Item
	kind, size       int
	created, updated int64
	meta             sql.NullString
	into             []any
}

// newFeedRow returns a row of a feed in an order.
func newFeedRow(order string) *feedRow {
	r := &feedRow{}
	i := &r.item
	r.into = []any{&r.kind, &i.ID, &i.FolderID, &i.Level, &i.Name, &i.Position, &i.Code, &i.Owner, &r.created, &r.updated, &i.at, &r.size, &r.meta}
	if order == ByName {
		r.into[10] = &i.name
	}
	return r
}

// item returns the item of a row, of which the meta is empty if it is long.
func (f *feedStatement) item(r *feedRow) Item {
	i := r.item
	i.Level, i.Meta = f.By.Access.Limited(i.Level), r.meta.String
	i.Type, i.CreatedAt, i.UpdatedAt = itemTypes[r.kind], time.UnixMicro(r.created).UTC(), time.UnixMicro(r.updated).UTC()
	return i
}

// complete reads what the statement does not: long opaque parts, and what the viewer has read and marked. Items that were deleted
// meanwhile are left out.
func (f *feedStatement) complete(ctx context.Context, q store.Querier, items []Item) ([]Item, error) {
	byObject := map[ItemType]map[int64]*Item{WorkbookItem: {}, ReportItem: {}}
	for i := range items {
		if of := byObject[items[i].Type]; of != nil {
			of[items[i].ID] = &items[i]
		}
	}
	for kind, t := range itemTypes {
		if err := f.readLong(ctx, q, branchTables[kind].table, byObject[t]); err != nil {
			return nil, err
		}
	}
	if err := f.readViewer(ctx, q, byObject); err != nil {
		return nil, err
	}
	items = slices.DeleteFunc(items, func(i Item) bool { return i.Meta == "" })
	for n := range items {
		i := &items[n]
		if i.Type != WorkbookItem || i.Level >= access.Edit || f.By.Access.All {
			continue
		}
		var err error
		if i.Meta, err = withoutDraft(i.Meta); err != nil {
			return nil, fmt.Errorf("meta of workbook %d: %w", i.ID, err)
		}
	}
	return items, nil
}
