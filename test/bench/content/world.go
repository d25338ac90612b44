package main

import (
	"context"
	"fmt"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/folder"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// The audit.
const (
	large = "large"
	small = "small"
)

const (
	// listed is the number of items in the folder that is listed: half of them are workbooks, half reports.
	listed = 1000
	// home is the id of that folder.
	home = 1
	// widgets is the number of charts of the dashboard that is published, each with a report of its own.
	widgets = 100
	// memberships is the number of groups that the reader is in.
	memberships = 20
)

// account is what an account has.
type account struct {
	name                   string
	items, folders, groups int
}

// bench is an open database with the audit.
type bench struct {
	options
	name    string
	report  *measure.Report
	store   *store.Store
	folders *folder.Folders
	content *workspace.Workspace
	reader  access.Caller
}

func newBench(o options, name string, r *measure.Report, s *store.Store) *bench {
	record := func(ctx context.Context, tx *store.Tx, e audit.Event) error {
		e.Account, e.Source, e.Actor = "bench", audit.SourceREST, audit.Actor{Kind: audit.ActorKey, ID: "k1"}
		return audit.RecordTx(ctx, tx, e)
	}
	b := &bench{options: o, name: name, report: r, store: s}
	b.folders, b.content = &folder.Folders{DB: s, Record: record}, &workspace.Workspace{DB: s, Record: record}
	b.reader = access.Caller{Principal: "User:reader", Owner: access.User("reader"), Access: access.Subject{Max: access.Manage, Owner: access.User("reader")}}
	for i := range memberships {
		b.reader.Access.Groups = append(b.reader.Access.Groups, access.Group(fmt.Sprint("g", i)))
	}
	return b
}

// scopeOf returns the only deployment of an account.
func scopeOf(name string) content.Scope {
	return content.Scope{Account: store.Account{UID: name, Name: name}, Deployment: store.Deployment{UID: name + "-d", Namespace: name, Name: "sales"}}
}

// fill inserts the folder that is listed with its items, a tree of ten folders each beside it with the other items, of which every
// fifth is a report in a workbook, the workbook that is published, and a grant for each group on a folder. The reader may manage
// the first folder through a group.
func (b *bench) fill(ctx context.Context, a account) error {
	numbers := func(from, to int) string {
		if b.store.Dialect() == store.SQLite {
			return fmt.Sprintf("(WITH RECURSIVE s (n) AS (SELECT %d UNION ALL SELECT n + 1 FROM s WHERE n < %d) SELECT n FROM s) AS s", from, to)
		}
		return fmt.Sprintf("generate_series(%d, %d) AS s (n)", from, to)
	}
	const owner, meta = "'ScimUser:other'", `'{"kind":"table","text":"' || SUBSTR('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 1, 64) || '"}'`
	half := listed / 2
	// in is the folder of the item with number n, among the other folders.
	in := func(first int) string {
		return fmt.Sprintf("CASE WHEN n <= %d THEN %d ELSE %d + n * 31 %% %d END", first, home, home+1, a.folders-1)
	}
	workbooks, reports := a.items/2, a.items-a.items/2
	published := workbooks + 1
	statements := []string{
		fmt.Sprintf(`INSERT INTO folder (account_uid, deployment_uid, id, parent_id, name, name_key, position, owner, created_at, created_by, updated_at, updated_by)
			SELECT $1, $2, n, CASE WHEN n <= 11 THEN 0 ELSE n / 10 END, 'Folder ' || n, 'folder ' || n, n, %s, 1764000000000000 + n, '', 1764000000000000 + n, '' FROM %s`, owner, numbers(1, a.folders)),
		fmt.Sprintf(`INSERT INTO workbook (account_uid, deployment_uid, id, folder_id, slug, name, name_key, meta, version, owner, created_at, created_by, updated_at, updated_by)
			SELECT $1, $2, n, %s, 'slug-' || n, 'Workbook ' || n, 'workbook ' || n, %s, 1, %s, 1764000000000000 + n, '', 1764000000000000 + n, '' FROM %s`, in(half), meta, owner, numbers(1, published)),
		fmt.Sprintf(`INSERT INTO report (account_uid, deployment_uid, id, folder_id, workbook_id, public_id, name, name_key, title, json_query, sql_query, pivot_items, meta, source,
			checksum, version, owner, refreshed_by, created_at, created_by, updated_at, updated_by)
			SELECT $1, $2, n, CASE WHEN n > %[1]d AND n %% 5 = 0 OR n > %[7]d THEN 0 ELSE %[2]s END, CASE WHEN n > %[7]d THEN %[3]d WHEN n > %[1]d AND n %% 5 = 0 THEN n %% %[3]d + 1 ELSE 0 END,
			SUBSTR(CAST(100000000000 + n AS TEXT), 1, 12), 'Report ' || n, 'report ' || n, '', '', 'SELECT 1', '', %[4]s, '', '', 1, %[5]s, '', 1764000000000000 + n, '', 1764000000000000 + n, ''
			FROM %[6]s`, half, in(half), published, meta, owner, numbers(1, reports+widgets), reports),
		fmt.Sprintf(`INSERT INTO access_grant (account_uid, deployment_uid, object_kind, object_id, subject, level, created_at, created_by)
			SELECT $1, $2, 'Folder', CASE WHEN n = 0 THEN %d ELSE %d + n * 37 %% %d END, 'ScimGroup:g' || n, 3, 0, '' FROM %s`, home, home+1, a.folders-1, numbers(0, a.groups-1)),
		fmt.Sprintf("UPDATE workbook SET folder_id = %d WHERE account_uid = $1 AND deployment_uid = $2 AND id = %d", home+1, published),
		fmt.Sprintf("UPDATE workbook SET owner = 'ScimUser:reader' WHERE account_uid = $1 AND deployment_uid = $2 AND id = %d", published),
	}
	s := scopeOf(a.name)
	return b.store.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, s.Account, s.Deployment); err != nil {
			return err
		}
		for _, statement := range statements {
			if _, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	})
}

// published returns the id of the workbook that is published.
func (b *bench) published(name string) int64 {
	if name == small {
		return int64(b.items/10/2 + 1)
	}
	return int64(b.items/2 + 1)
}

// analyze updates the statistics, as autovacuum does later.
func (b *bench) analyze(ctx context.Context) error {
	return b.store.Tx(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "ANALYZE")
		return err
	})
}
