// Command content measures lists of folders in PostgreSQL and in SQLite: a folder of 1,000 items in
// an account of 100,000, beside a SELECT by primary key in the same run, and the same folder in an
// account that has no others. PostgreSQL has its default settings.
//
//	make bench-content
//	go run ./test/bench/content -folders 20000
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/folder"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/test/bench/internal/databases"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

const (
	// items is the number of folders in the folder that is listed.
	items = 1000
	// listed is the id of that folder.
	listed = 1
	// page is the number of items of a smaller page.
	page = 100
)

// options are the flags.
type options struct {
	folders, lists int
	docs           *bool
}

func main() {
	o := options{docs: measure.DocsFlag()}
	flag.IntVar(&o.folders, "folders", 100_000, "`number` of folders in the large account")
	flag.IntVar(&o.lists, "lists", 2000, "`number` of lists of each kind")
	flag.Parse()
	process.Main("content", func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) error {
	if err := process.CheckFlags(map[string]int{"folders": 2 * items, "lists": 100}); err != nil {
		return err
	}
	directory, err := os.MkdirTemp("", "quoin-content-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	results, err := measure.OpenResults("content", *o.docs)
	if err != nil {
		return err
	}
	all, err := databases.Start(directory)
	if err != nil {
		return err
	}
	defer all.Server.Stop()
	r := &measure.Report{}
	for _, d := range []databases.Database{all.PostgreSQL, all.SQLite} {
		if err := measureDatabase(ctx, o, r, d.Name, d.URL); err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	setup := fmt.Sprintf("a folder of %d items in an account of %d; another account of %d items in the same database", items, o.folders, items)
	return results.Publish(setup, func(w io.Writer) {
		r.PrintBars(w)
		r.PrintRows(w, "Times")
	})
}

// bench is an open database with two accounts.
type bench struct {
	options
	name   string
	report *measure.Report
	store  *store.Store
}

func measureDatabase(ctx context.Context, o options, r *measure.Report, name, url string) error {
	s, err := store.Open(ctx, url, nil, audit.Owner, folder.Owner)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	b := &bench{o, name, r, s}
	measure.Progress("%s: creating %d folders", name, o.folders)
	for account, folders := range map[string]int{"large": o.folders, "small": items + 1} {
		if err := b.fill(ctx, scopeOf(account), folders); err != nil {
			return err
		}
	}
	if err := b.analyze(ctx); err != nil {
		return err
	}
	measure.Progress("%s: listing", name)
	return b.measure(ctx)
}

// scopeOf returns the only deployment of an account.
func scopeOf(account string) content.Scope {
	return content.Scope{Account: store.Account{UID: account, Name: account}, Deployment: store.Deployment{UID: account + "-d", Namespace: account, Name: "sales"}}
}

// fill inserts the folder that is listed, its items, and folders of ten items each in it.
func (b *bench) fill(ctx context.Context, s content.Scope, folders int) error {
	numbers := "generate_series(1, CAST($3 AS BIGINT)) AS s (n)"
	if b.store.Dialect() == store.SQLite {
		numbers = "(WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < $3) SELECT n FROM s) AS s"
	}
	return b.store.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, s.Account, s.Deployment); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf(`INSERT INTO folder SELECT $1, $2, n,
			CASE WHEN n = %[1]d THEN 0 WHEN n <= %[2]d + 1 THEN %[1]d ELSE 2 + (n / 10) %% 10000 END,
			'Folder ' || n, 'folder ' || n, n, 1764000000000000 + n, 'key:admin', 1764000000000000 + n, 'key:admin', 'key:admin' FROM `, listed, items)+numbers,
			s.Account.UID, s.Deployment.UID, folders)
		return err
	})
}

// analyze updates the statistics, as autovacuum does later.
func (b *bench) analyze(ctx context.Context) error {
	return b.store.Tx(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "ANALYZE")
		return err
	})
}

// measure alternates lists of the large and the small account with SELECTs by primary key.
func (b *bench) measure(ctx context.Context) error {
	folders := &folder.Folders{DB: b.store}
	list := func(account string, r store.PageRequest, want int) measure.Timed {
		return func(ctx context.Context, _ int) (time.Duration, error) {
			start := time.Now()
			level, err := folders.List(ctx, scopeOf(account), access.Caller{Access: access.Everything}, listed, r)
			if err == nil && (len(level.Items) != want || level.Total != items) {
				err = fmt.Errorf("%d items of %d", len(level.Items), level.Total)
			}
			return time.Since(start), err
		}
	}
	whole, middle := store.PageRequest{Limit: items}, store.PageRequest{After: []any{items / 2, items / 2}, Limit: page}
	kinds := []struct {
		what string
		work measure.Timed
	}{
		{"SELECT by primary key", b.primaryKey},
		{"all items", list("large", whole, items)},
		{"all items, small account", list("small", whole, items)},
		{"page of 100 in the middle", list("large", middle, page)},
		{"page of 100 in the middle, small account", list("small", middle, page)},
	}
	times := make([]measure.Times, len(kinds))
	const rounds = 10
	for round := range rounds + 1 {
		for i, kind := range kinds {
			t, err := measure.Spread(ctx, b.lists/rounds, 1, kind.work)
			if err != nil {
				return fmt.Errorf("%s: %w", kind.what, err)
			}
			if round > 0 { // the first one warms up
				times[i] = times[i].With(t)
			}
		}
	}
	for i, kind := range kinds {
		b.report.Add(b.name+": "+kind.what, times[i], "%.1f × the SELECT at p50", times[i].Milliseconds(.5)/times[0].Milliseconds(.5))
	}
	b.report.AtMost(b.name+": list of 1,000 items, p99", times[1].Milliseconds(.99), 10, "ms")
	b.report.AtMost(b.name+": the same, p50 ÷ p50 in a small account", times[1].Milliseconds(.5)/times[2].Milliseconds(.5), 1.2, "")
	b.report.AtMost(b.name+": page of 100 in the middle, p99", times[3].Milliseconds(.99), 10, "ms")
	b.report.AtMost(b.name+": the same, p50 ÷ p50 in a small account", times[3].Milliseconds(.5)/times[4].Milliseconds(.5), 1.2, "")
	return nil
}

func (b *bench) primaryKey(ctx context.Context, i int) (time.Duration, error) {
	start := time.Now()
	var name sql.NullString
	err := b.store.Reader().QueryRowContext(ctx, "SELECT name FROM folder WHERE account_uid = $1 AND id = $2", "large", i*7919%b.folders+1).Scan(&name)
	return time.Since(start), err
}
