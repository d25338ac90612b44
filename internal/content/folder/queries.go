package folder

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/store"
)

const columns = "id, parent_id, name, position, owner, created_at, created_by, updated_at, updated_by"

// scan reads the columns.
func scan(row interface{ Scan(into ...any) error }, f *Folder) error {
	var created, updated int64
	err := row.Scan(&f.ID, &f.ParentID, &f.Name, &f.Position, &f.Owner, &created, &f.CreatedBy, &updated, &f.UpdatedBy)
	f.CreatedAt, f.UpdatedAt = time.UnixMicro(created).UTC(), time.UnixMicro(updated).UTC()
	return err
}

// Level is a page of the folders in a folder.
type Level struct {
	store.Page[Folder]
	// Path leads from the root to the folder that they are in; empty at the root.
	Path []Folder
	// Total is the number of all folders in it.
	Total int
}

// List returns a page of the folders in a folder, or at the root, that the caller sees, ordered by position and id.
func (f *Folders) List(ctx context.Context, s content.Scope, by access.Caller, parent int64, r store.PageRequest) (level Level, err error) {
	err = f.DB.Read(ctx, func(q store.Querier) error {
		above, err := access.OfVisible(ctx, q, s, by.Access, parent)
		if err != nil {
			return content.Prefixed("parentId", err)
		}
		if level.Path, err = parentPath(ctx, q, s, parent); err != nil {
			return err
		}
		list := siblings(access.Within(s, by.Access, above), parent)
		if level.Page, err = list.Read(ctx, q, r); err != nil {
			return err
		}
		if err := q.QueryRowContext(ctx, list.With+"SELECT COUNT(*) FROM "+list.From, list.Args...).Scan(&level.Total); err != nil {
			return fmt.Errorf("count folders: %w", err)
		}
		return nil
	})
	return level, err
}

// siblings returns the list of the folders in a folder that a subject sees. The statement is for what is in it.
func siblings(st access.Statement, parent int64) store.List[Folder] {
	visible := st.Folders()
	return store.List[Folder]{
		With: st.With, Columns: columns, Args: append(st.Args, parent), Order: []string{"position", "id"},
		From: fmt.Sprintf("folder%s WHERE deployment_uid = $2 AND account_uid = $1 AND parent_id = $%d AND %s", visible.Join, len(st.Args)+1, visible.Visible),
		Scan: func(row *sql.Rows, f *Folder) error { return scan(row, f) },
		Key:  func(f *Folder) []any { return []any{f.Position, f.ID} },
	}
}

// countChildren returns the number of folders in a folder, without one of them; 0 for all.
func countChildren(ctx context.Context, q store.Querier, s content.Scope, parent, except int64) (n int, err error) {
	const query = "SELECT COUNT(*) FROM folder WHERE deployment_uid = $1 AND account_uid = $2 AND parent_id = $3 AND id <> $4"
	if err := q.QueryRowContext(ctx, query, s.Deployment.UID, s.Account.UID, parent, except).Scan(&n); err != nil {
		return 0, fmt.Errorf("count folders: %w", err)
	}
	return n, nil
}

// Ancestors returns the path to a folder that the caller sees: from the root, the folder itself last.
func (f *Folders) Ancestors(ctx context.Context, s content.Scope, by access.Caller, id int64) (path []Folder, err error) {
	err = f.DB.Read(ctx, func(q store.Querier) error {
		if _, err := access.OfVisible(ctx, q, s, by.Access, id); err != nil {
			return err
		}
		path, err = ancestors(ctx, q, s, id)
		return err
	})
	return path, err
}

func ancestors(ctx context.Context, q store.Querier, s content.Scope, id int64) (path []Folder, err error) {
	// The limit ends the recursion in a table with a cycle, which the rules prevent.
	const query = `WITH RECURSIVE path (level, ` + columns + `) AS (
		SELECT 1, ` + columns + ` FROM folder WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3
		UNION ALL
		SELECT path.level + 1, up.id, up.parent_id, up.name, up.position, up.owner, up.created_at, up.created_by, up.updated_at, up.updated_by
		FROM path JOIN folder AS up ON up.account_uid = $1 AND up.deployment_uid = $2 AND up.id = path.parent_id WHERE path.level < $4
	) SELECT ` + columns + ` FROM path ORDER BY level`
	rows, err := q.QueryContext(ctx, query, s.Account.UID, s.Deployment.UID, id, MaxDepth)
	if err != nil {
		return nil, fmt.Errorf("read the path of a folder: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var f Folder
		if err := scan(rows, &f); err != nil {
			return nil, fmt.Errorf("read the path of a folder: %w", err)
		}
		path = append(path, f)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the path of a folder: %w", err)
	}
	if len(path) == 0 {
		return nil, notFound(id)
	}
	slices.Reverse(path)
	return path, nil
}

// get returns a folder.
func get(ctx context.Context, q store.Querier, s content.Scope, id int64) (*Folder, error) {
	const query = "SELECT " + columns + " FROM folder WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3"
	f := &Folder{}
	err := scan(q.QueryRowContext(ctx, query, s.Account.UID, s.Deployment.UID, id), f)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, notFound(id)
	}
	if err != nil {
		return nil, fmt.Errorf("read folder %d: %w", id, err)
	}
	return f, nil
}

// height returns the number of levels of the tree below a folder, the folder included.
func height(ctx context.Context, q store.Querier, s content.Scope, id int64) (levels int, err error) {
	const query = `WITH RECURSIVE below (id, level) AS (
		SELECT CAST($3 AS BIGINT), 1
		UNION ALL
		SELECT folder.id, below.level + 1 FROM below JOIN folder
		ON folder.deployment_uid = $2 AND folder.account_uid = $1 AND folder.parent_id = below.id WHERE below.level <= $4
	) SELECT MAX(level) FROM below`
	if err := q.QueryRowContext(ctx, query, s.Account.UID, s.Deployment.UID, id, MaxDepth).Scan(&levels); err != nil {
		return 0, fmt.Errorf("read the tree below folder %d: %w", id, err)
	}
	return levels, nil
}
