package workspace

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/store"
)

const workbookColumns = "id, folder_id, slug, name, meta, version, owner, created_at, created_by, updated_at, updated_by"

// scanWorkbook reads the columns, and further ones.
func scanWorkbook(row interface{ Scan(into ...any) error }, wb *Workbook, further ...any) error {
	var created, updated int64
	err := row.Scan(append([]any{
		&wb.ID, &wb.FolderID, &wb.Slug, &wb.Name, &wb.Meta, &wb.Version, &wb.Owner, &created, &wb.CreatedBy, &updated, &wb.UpdatedBy,
	}, further...)...)
	wb.CreatedAt, wb.UpdatedAt = time.UnixMicro(created).UTC(), time.UnixMicro(updated).UTC()
	return err
}

func insertWorkbook(ctx context.Context, tx *store.Tx, s content.Scope, wb *Workbook) error {
	const statement = "INSERT INTO workbook (account_uid, deployment_uid, name_key, " + workbookColumns + ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
	_, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, NameKey(wb.Name), wb.ID, wb.FolderID, wb.Slug, wb.Name, wb.Meta, wb.Version,
		wb.Owner, wb.CreatedAt.UnixMicro(), wb.CreatedBy, wb.UpdatedAt.UnixMicro(), wb.UpdatedBy)
	if err != nil {
		return fmt.Errorf("insert a workbook: %w", err)
	}
	return nil
}

func updateWorkbook(ctx context.Context, tx *store.Tx, s content.Scope, wb *Workbook) error {
	const statement = `UPDATE workbook SET folder_id = $4, slug = $5, name = $6, meta = $7, version = $8, updated_at = $9, updated_by = $10, name_key = $11
		WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3`
	_, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, wb.ID, wb.FolderID, wb.Slug, wb.Name, wb.Meta, wb.Version,
		wb.UpdatedAt.UnixMicro(), wb.UpdatedBy, NameKey(wb.Name))
	if err != nil {
		return fmt.Errorf("update workbook %d: %w", wb.ID, err)
	}
	return nil
}

// Place is an entry of the path to content.
type Place struct {
	ID   int64
	Name string
}

// List is a page of content.
type List[T any] struct {
	store.Page[T]
	// Paths are the paths of the folders of the items, from the root, by the id of the folder.
	Paths map[int64][]Place
	// Total is the number of all items of the list.
	Total int
}

// maxPageBytes is the size of the opaque parts of a page in bytes from which on a page ends.
const maxPageBytes = 8 << 20

// Workbooks returns a page of the workbooks of a deployment that the caller sees, or of those in a folder, ordered by id. A page
// may have fewer items than requested if they are large.
func (w *Workspace) Workbooks(ctx context.Context, s content.Scope, by Caller, in *int64, r store.PageRequest) (out List[Workbook], err error) {
	err = w.DB.Read(ctx, func(q store.Querier) error {
		st := access.In(s, by.Access)
		if in != nil {
			level, err := levelShown(ctx, q, s, by, *in)
			if err != nil {
				return err
			}
			st = access.Within(s, by.Access, level)
		}
		list := workbookList(st, by, in)
		if r.Limit, err = bounded(ctx, q, list, "OCTET_LENGTH(meta)", r); err != nil {
			return err
		}
		if out.Page, err = list.Read(ctx, q, r); err != nil {
			return err
		}
		if err := q.QueryRowContext(ctx, list.With+"SELECT COUNT(*) FROM "+list.From, list.Args...).Scan(&out.Total); err != nil {
			return fmt.Errorf("count workbooks: %w", err)
		}
		var folders []int64
		for i := range out.Items {
			folders = append(folders, out.Items[i].FolderID)
		}
		out.Paths, err = paths(ctx, q, s, folders)
		return err
	})
	return out, err
}

// workbookList returns the list of the workbooks that a caller sees, in a folder unless it is nil.
func workbookList(st access.Statement, by Caller, in *int64) store.List[Workbook] {
	rows := st.Workbooks()
	l := store.List[Workbook]{
		With: st.With, Columns: workbookColumns + ", " + rows.Level, Args: st.Args, Order: []string{"id"},
		From: "workbook" + rows.Join + " WHERE deployment_uid = $2 AND account_uid = $1 AND " + rows.Visible,
		Scan: func(row *sql.Rows, wb *Workbook) error {
			err := scanWorkbook(row, wb, &wb.Level)
			wb.Level = by.Access.Limited(wb.Level)
			return err
		},
		Key: func(wb *Workbook) []any { return []any{wb.ID} },
	}
	if in != nil {
		l.Args = append(l.Args, *in)
		l.From += fmt.Sprintf(" AND folder_id = $%d", len(l.Args))
	}
	return l
}

// bounded returns the limit of a page with which its rows stay below maxPageBytes, at least 1. size is the expression
// for the size of a row.
func bounded[T any](ctx context.Context, q store.Querier, l store.List[T], size string, r store.PageRequest) (int, error) {
	sizes := store.List[int64]{
		With: l.With, Columns: size, From: l.From, Args: l.Args, Order: l.Order, Descending: l.Descending,
		Scan: func(row *sql.Rows, n *int64) error { return row.Scan(n) },
		Key:  func(*int64) []any { return nil },
	}
	page, err := sizes.Read(ctx, q, r)
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for i, n := range page.Items {
		if total += n; total > maxPageBytes && i > 0 {
			return i, nil
		}
	}
	return r.Limit, nil
}

// Workbook returns a workbook that the caller sees.
func (w *Workspace) Workbook(ctx context.Context, s content.Scope, by Caller, id int64) (wb *Workbook, err error) {
	err = w.DB.Read(ctx, func(q store.Querier) error {
		wb, err = workbookFor(ctx, q, s, by, id, access.View)
		return err
	})
	return wb, err
}

// workbookFor returns a workbook on which the caller needs a level.
func workbookFor(ctx context.Context, q store.Querier, s content.Scope, by Caller, id int64, needed access.Level) (*Workbook, error) {
	o := access.Object{Kind: access.Workbook, ID: id}
	level, err := access.Of(ctx, q, s, by.Access, o)
	if err != nil {
		return nil, err
	}
	if level == access.None {
		return nil, workbookNotFound(id)
	}
	wb, err := getWorkbook(ctx, q, s, id)
	if err != nil {
		return nil, err
	}
	if wb.Level = level; level < needed {
		return nil, access.TooLow(by.Access, o, needed, level)
	}
	return wb, nil
}

// Path returns the path to a folder from the root, the folder itself last; it is empty for the root.
func (w *Workspace) Path(ctx context.Context, s content.Scope, id int64) (path []Place, err error) {
	err = w.DB.Read(ctx, func(q store.Querier) error {
		found, err := paths(ctx, q, s, []int64{id})
		path = found[id]
		return err
	})
	return path, err
}

// maxListed is the maximum number of ids that one statement lists: the driver of SQLite compares each parameter with all others.
const maxListed = 100

// eachOf calls scan for each row of a query on objects. In the query, %s are the parameters of ids, which follow args; with many
// ids it is run for one part of them after the other.
func eachOf(ctx context.Context, q store.Querier, query string, args []any, ids []int64, scan func(*sql.Rows) error) error {
	for part := range slices.Chunk(ids, maxListed) {
		all, names := slices.Clone(args), make([]string, len(part))
		for i, id := range part {
			all = append(all, id)
			names[i] = "$" + strconv.Itoa(len(all))
		}
		if err := each(ctx, q, fmt.Sprintf(query, strings.Join(names, ", ")), all, scan); err != nil {
			return err
		}
	}
	return nil
}

// paths returns the paths to folders.
func paths(ctx context.Context, q store.Querier, s content.Scope, folders []int64) (map[int64][]Place, error) {
	folders = slices.DeleteFunc(folders, func(id int64) bool { return id == Root })
	slices.Sort(folders)
	const query = `WITH RECURSIVE path (wanted, level, id, parent_id, name) AS (
		SELECT id, 1, id, parent_id, name FROM folder WHERE account_uid = $1 AND deployment_uid = $2 AND id IN (%s)
		UNION ALL
		SELECT path.wanted, path.level + 1, up.id, up.parent_id, up.name
		FROM path JOIN folder AS up ON up.account_uid = $1 AND up.deployment_uid = $2 AND up.id = path.parent_id WHERE path.level < $3
	) SELECT wanted, id, name FROM path ORDER BY wanted, level DESC`
	out := map[int64][]Place{}
	err := eachOf(ctx, q, query, []any{s.Account.UID, s.Deployment.UID, maxDepth}, slices.Compact(folders), func(rows *sql.Rows) error {
		var of int64
		var p Place
		err := rows.Scan(&of, &p.ID, &p.Name)
		out[of] = append(out[of], p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the paths of folders: %w", err)
	}
	return out, nil
}
