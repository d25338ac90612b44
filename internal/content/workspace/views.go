package workspace

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/store"
)

const (
	// maxPendingViews is the maximum number of views that wait to be stored: further ones are not recorded.
	maxPendingViews = 10_000
	// keptViews is the number of objects of a deployment of which it is kept when a person has read them last.
	keptViews = 1000
	// storeViewsEvery is the interval at which views are stored.
	storeViewsEvery = time.Second
	// lastViews is the timeout for those at shutdown.
	lastViews = 5 * time.Second
)

// Views records who has read which workbooks and reports, and when, in the background. It is best-effort: views that cannot be
// stored are dropped when too many wait. The zero value is ready.
type Views struct {
	mu      sync.Mutex
	pending map[view]seen
}

// view is an object that a person has read.
type view struct {
	scope  content.Scope
	viewer subject.User
	object ItemType
	id     int64
}

// seen is how often it was read, and when it was last.
type seen struct {
	times int64
	last  time.Time
}

// Note records that a person has read a workbook or a report now. It does not wait for the database.
func (v *Views) Note(s content.Scope, viewer subject.User, object ItemType, id int64, now time.Time) {
	v.note(view{s, viewer, object, id}, seen{1, now})
}

func (v *Views) note(of view, s seen) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known, exists := v.pending[of]
	if !exists && len(v.pending) >= maxPendingViews {
		return
	}
	if v.pending == nil {
		v.pending = map[view]seen{}
	}
	if s.times += known.times; known.last.After(s.last) {
		s.last = known.last
	}
	v.pending[of] = s
}

// Run stores the views every second until the context ends, and once more then.
func (v *Views) Run(ctx context.Context, db *store.Store, log *slog.Logger) error {
	err := store.Repeat(ctx, storeViewsEvery, log, "Views of workspace content could not be stored", func(ctx context.Context) error {
		return v.Flush(ctx, db)
	})
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastViews)
	defer cancel()
	if failed := v.Flush(last, db); failed != nil {
		log.Warn("Views of workspace content could not be stored", "cause", failed.Error())
	}
	return err
}

// Flush stores the views that wait, and keeps those that could not be stored.
func (v *Views) Flush(ctx context.Context, db content.Database) error {
	v.mu.Lock()
	pending := v.pending
	v.pending = nil
	v.mu.Unlock()
	scopes := map[content.Scope]map[view]seen{}
	for of, s := range pending {
		if scopes[of.scope] == nil {
			scopes[of.scope] = map[view]seen{}
		}
		scopes[of.scope][of] = s
	}
	var failed error
	for s, views := range scopes {
		if err := storeViews(ctx, db, s, views); err != nil {
			failed = err
			for of, s := range views {
				v.note(of, s)
			}
		}
	}
	return failed
}

// storeViews stores the views of a deployment in one transaction, which does not wait for the disk.
func storeViews(ctx context.Context, db content.Database, s content.Scope, views map[view]seen) error {
	// An object that was deleted meanwhile has no row.
	const statement = `INSERT INTO view_event (account_uid, deployment_uid, viewer, object_type, object_id, viewed_at, views)
		SELECT $1, $2, $3, $4, id, CAST($6 AS BIGINT), CAST($7 AS BIGINT) FROM %s WHERE account_uid = $1 AND deployment_uid = $2 AND id = $5
		ON CONFLICT (account_uid, viewer, object_type, object_id) DO UPDATE SET views = view_event.views + excluded.views,
			viewed_at = CASE WHEN excluded.viewed_at > view_event.viewed_at THEN excluded.viewed_at ELSE view_event.viewed_at END`
	const prune = `DELETE FROM view_event WHERE deployment_uid = $1 AND account_uid = $2 AND viewer = $3 AND viewed_at < (
		SELECT viewed_at FROM view_event WHERE deployment_uid = $1 AND account_uid = $2 AND viewer = $3 ORDER BY viewed_at DESC LIMIT 1 OFFSET $4)`
	return db.TxAsync(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, s.Account, s.Deployment); err != nil {
			return err
		}
		viewers := map[subject.User]bool{}
		for of, n := range views {
			exists, known := viewers[of.viewer]
			if !known {
				err := subject.Confirm(ctx, tx, s.Account, of.viewer)
				if exists = err == nil; err != nil && !errors.Is(err, subject.ErrUnknown) {
					return err
				}
				viewers[of.viewer] = exists
			}
			if !exists {
				continue // the user was deleted meanwhile
			}
			table := branchTables[1].table
			if of.object == ReportItem {
				table = branchTables[2].table
			}
			_, err := tx.ExecContext(ctx, fmt.Sprintf(statement, table), s.Account.UID, s.Deployment.UID, subject.OwnerOf(of.viewer.Name), of.object, of.id, n.last.UnixMicro(), n.times)
			if err != nil {
				return fmt.Errorf("store a view: %w", err)
			}
		}
		for viewer := range maps.Keys(viewers) {
			if _, err := tx.ExecContext(ctx, prune, s.Deployment.UID, s.Account.UID, subject.OwnerOf(viewer.Name), keptViews-1); err != nil {
				return fmt.Errorf("delete old views: %w", err)
			}
		}
		return nil
	})
}

// readViewer reads when the viewer has read the items last, and which workbooks the viewer has marked. Both are limited to a
// thousand rows of a viewer.
func (f *feedStatement) readViewer(ctx context.Context, q store.Querier, items map[ItemType]map[int64]*Item) error {
	if len(items[WorkbookItem])+len(items[ReportItem]) == 0 {
		return nil
	}
	args := []any{f.scope.Account.UID, f.scope.Deployment.UID, f.By.Owner}
	views := "SELECT object_type, object_id, viewed_at FROM view_event WHERE account_uid = $1 AND deployment_uid = $2 AND viewer = $3"
	marks := "SELECT workbook_id FROM favorite WHERE account_uid = $1 AND deployment_uid = $2 AND owner = $3"
	if f.id != 0 {
		args, views, marks = append(args, f.id), views+" AND object_id = $4", marks+" AND workbook_id = $4"
	}
	err := each(ctx, q, views, args, func(rows *sql.Rows) error {
		var t ItemType
		var id, at int64
		err := rows.Scan(&t, &id, &at)
		if i := items[t][id]; err == nil && i != nil {
			i.ViewedAt = time.UnixMicro(at).UTC()
		}
		return err
	})
	if err != nil {
		return err
	}
	return each(ctx, q, marks, args, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		if i := items[WorkbookItem][id]; err == nil && i != nil {
			i.IsFavorite = true
		}
		return err
	})
}

// each calls scan for each row of a query.
func each(ctx context.Context, q store.Querier, query string, args []any, scan func(*sql.Rows) error) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
