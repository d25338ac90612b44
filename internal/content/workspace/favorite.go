package workspace

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/store"
)

// MaxFavorites is the maximum number of workbooks of a deployment that a person can mark.
const MaxFavorites = 1000

// SetFavorite marks a workbook for the caller, who needs the level view, or removes the mark, which the caller may do without it: it
// counts for MaxFavorites. It has no event: it concerns only what the caller sees.
func (w *Workspace) SetFavorite(ctx context.Context, s content.Scope, by Caller, id int64, isFavorite bool) error {
	return w.change(ctx, s, func(tx *store.Tx) error {
		if !isFavorite {
			const statement = "DELETE FROM favorite WHERE account_uid = $1 AND deployment_uid = $2 AND owner = $3 AND workbook_id = $4"
			removed, err := subject.Changed(tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, by.Owner, id))
			if err != nil {
				return fmt.Errorf("remove the mark of workbook %d: %w", id, err)
			}
			if removed > 0 {
				return nil
			}
		}
		if _, err := workbookFor(ctx, tx, s, by, id, access.View); err != nil || !isFavorite {
			return err
		}
		const query = "SELECT COUNT(*) FROM favorite WHERE account_uid = $1 AND deployment_uid = $2 AND owner = $3 AND workbook_id <> $4"
		var others int
		if err := tx.QueryRowContext(ctx, query, s.Account.UID, s.Deployment.UID, by.Owner, id).Scan(&others); err != nil {
			return fmt.Errorf("count favorites: %w", err)
		}
		if others >= MaxFavorites {
			return content.Errorf(content.Conflict, "there are %d favorites in the deployment already; allowed: %d", others, MaxFavorites)
		}
		const statement = `INSERT INTO favorite (account_uid, deployment_uid, owner, workbook_id, created_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (account_uid, owner, workbook_id) DO NOTHING`
		if _, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, by.Owner, id, w.now().UnixMicro()); err != nil {
			return fmt.Errorf("mark workbook %d: %w", id, err)
		}
		return nil
	})
}

// Favorites returns which of some workbooks a person has marked.
func (w *Workspace) Favorites(ctx context.Context, s content.Scope, person string, ids ...int64) (marked map[int64]bool, err error) {
	const query = "SELECT workbook_id FROM favorite WHERE account_uid = $1 AND deployment_uid = $2 AND owner = $3 AND workbook_id IN (%s)"
	marked = map[int64]bool{}
	err = w.DB.Read(ctx, func(q store.Querier) error {
		return eachOf(ctx, q, query, []any{s.Account.UID, s.Deployment.UID, person}, ids, func(rows *sql.Rows) error {
			var id int64
			err := rows.Scan(&id)
			marked[id] = true
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read favorites: %w", err)
	}
	return marked, nil
}

// forget deletes the marks and the views of an object that is deleted.
func forget(ctx context.Context, tx *store.Tx, s content.Scope, object ItemType, id int64) error {
	statements := []string{"DELETE FROM view_event WHERE account_uid = $1 AND object_type = $2 AND object_id = $3"}
	if object == WorkbookItem {
		statements = append(statements, "DELETE FROM favorite WHERE account_uid = $1 AND $2 = 'WORKBOOK' AND workbook_id = $3")
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement, s.Account.UID, object, id); err != nil {
			return fmt.Errorf("delete who has marked and read %s %d: %w", object, id, err)
		}
	}
	return nil
}
