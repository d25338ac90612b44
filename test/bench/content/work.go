package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// rounds is the number of turns of all kinds of work.
const rounds = 10

// everything are the types of items.
var everything = []workspace.ItemType{workspace.FolderItem, workspace.WorkbookItem, workspace.ReportItem}

// work is a kind of work, and the statements that read or write the same rows without rules.
type work struct {
	what string
	// run does it in an account; i is different each time.
	run func(ctx context.Context, account string, i int) error
	// plain are the statements; $1 is the UID of the account, $2 that of the deployment.
	plain []string
	// isWrite is true for changes, which are not beside plain statements.
	isWrite bool
}

// works returns all kinds of work.
func (b *bench) works() []work {
	feed := func(r workspace.FeedRequest, want int) func(context.Context, string, int) error {
		r.By, r.Types = b.reader, everything
		return func(ctx context.Context, account string, _ int) error {
			page, err := b.content.Feed(ctx, scopeOf(account), r)
			if err == nil && len(page.Items) != want {
				err = fmt.Errorf("%d items, want %d", len(page.Items), want)
			}
			return err
		}
	}
	middle := "workbook 25"
	const columns = "id, folder_id, name, owner, meta, created_at, updated_at"
	items := func(condition string, limit int) []string {
		const each = "SELECT " + columns + " FROM %s WHERE account_uid = $1 AND deployment_uid = $2 AND %s ORDER BY name_key, id LIMIT %d"
		return []string{fmt.Sprintf(each, "workbook", condition, limit), fmt.Sprintf(each, "report", "workbook_id = 0 AND "+condition, limit)}
	}
	in := fmt.Sprintf("folder_id = %d", home)
	return []work{
		{"feed of a folder, 1,000 items", feed(workspace.FeedRequest{FolderID: home, Order: workspace.ByName, Limit: listed}, listed), items(in, listed), false},
		{"feed, page of 100 in the middle", feed(workspace.FeedRequest{
			FolderID: home, Order: workspace.ByName, Limit: 100, After: &workspace.FeedKey{Type: workspace.WorkbookItem, Name: &middle, ID: 25},
		}, 100), items(in+" AND name_key > 'workbook 25'", 100)[:1], false},
		{"feed by last view, page of 100", feed(workspace.FeedRequest{FolderID: home, Order: workspace.ByViewedAt, Limit: 100}, 100), items(in, 100), false},
		{"search, page of 100", feed(workspace.FeedRequest{Search: "book 1", Order: workspace.ByName, Limit: 100}, 100),
			items("name_key LIKE '%book 1%'", 100), false},
		{"search without a match", feed(workspace.FeedRequest{Search: "nothing", Order: workspace.ByName, Limit: 100}, 0), items("name_key LIKE '%nothing%'", 100), false},
		{"list of folders at the root", func(ctx context.Context, account string, _ int) error {
			_, err := b.folders.List(ctx, scopeOf(account), b.reader, 0, store.PageRequest{Limit: 100})
			return err
		}, []string{"SELECT id, parent_id, name, position, owner FROM folder WHERE account_uid = $1 AND deployment_uid = $2 AND parent_id = 0 ORDER BY position, id LIMIT 100"}, false},
		{"ancestors of a folder", func(ctx context.Context, account string, _ int) error {
			_, err := b.folders.Ancestors(ctx, scopeOf(account), b.reader, home)
			return err
		}, []string{fmt.Sprintf("SELECT id, parent_id, name, position, owner FROM folder WHERE account_uid = $1 AND deployment_uid = $2 AND id = %d", home)}, false},
		{"upsert by slug, a change", b.upsert, nil, true},
		{"upsert by slug, no change", func(ctx context.Context, account string, _ int) error {
			_, err := b.content.Upsert(ctx, scopeOf(account), b.reader, "slug-7", workspace.Change{})
			return err
		}, nil, true},
		{"publication of 100 charts", b.publish, nil, true},
	}
}

func (b *bench) upsert(ctx context.Context, account string, i int) error {
	name := fmt.Sprint("Workbook 7 ", i, " ", time.Now().UnixNano())
	_, err := b.content.Upsert(ctx, scopeOf(account), b.reader, "slug-7", workspace.Change{Name: &name})
	return err
}

// publish publishes a dashboard of 100 charts with another title, so that there is a new version.
func (b *bench) publish(ctx context.Context, account string, i int) error {
	charts, first := make([]any, widgets), b.items-b.items/2
	if account == small {
		first = b.items/10 - b.items/10/2
	}
	for n := range charts {
		charts[n] = map[string]any{
			"id": fmt.Sprint("w", n), "type": "CHART", "position": map[string]any{"x": json.Number("0"), "y": json.Number(fmt.Sprint(n)), "w": json.Number("6"), "h": json.Number("1")},
			"config": map[string]any{"reportId": json.Number(fmt.Sprint(first + n + 1))},
		}
	}
	title := fmt.Sprint("Dashboard ", i, " ", time.Now().UnixNano())
	_, err := b.content.Publish(ctx, scopeOf(account), b.reader, b.published(account), workspace.Publication{Config: workspace.Object{"widgets": charts}, Title: &title})
	return err
}

// result is what was measured of a kind of work.
type result struct {
	large, small, plain measure.Times
	allocations         uint64
}

// measure alternates the kinds of work, each in both accounts, with the plain statements.
func (b *bench) measure(ctx context.Context) error {
	works := b.works()
	results := make([]result, len(works))
	for round := range rounds + 1 {
		for i, w := range works {
			r, err := b.turn(ctx, w)
			if err != nil {
				return fmt.Errorf("%s: %w", w.what, err)
			}
			if round > 0 { // the first one warms up
				sum := &results[i]
				sum.large, sum.small, sum.plain, sum.allocations = sum.large.With(r.large), sum.small.With(r.small), sum.plain.With(r.plain), r.allocations
			}
		}
	}
	for i, w := range works {
		b.show(w, &results[i])
	}
	return nil
}

// turn does a kind of work some times.
func (b *bench) turn(ctx context.Context, w work) (r result, err error) {
	n := b.times / rounds
	in := func(account string) measure.Timed {
		return func(ctx context.Context, i int) (time.Duration, error) {
			start := time.Now()
			err := w.run(ctx, account, i)
			return time.Since(start), err
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if r.large, err = measure.Spread(ctx, n, 1, in(large)); err != nil {
		return r, err
	}
	runtime.ReadMemStats(&after)
	r.allocations = (after.Mallocs - before.Mallocs) / uint64(n)
	if r.small, err = measure.Spread(ctx, n, 1, in(small)); err != nil || w.isWrite {
		return r, err
	}
	r.plain, err = measure.Spread(ctx, n, 1, func(ctx context.Context, _ int) (time.Duration, error) {
		start := time.Now()
		err := b.read(ctx, w.plain)
		return time.Since(start), err
	})
	return r, err
}

// read runs statements in the large account and reads all their rows.
func (b *bench) read(ctx context.Context, statements []string) error {
	s := scopeOf(large)
	for _, statement := range statements {
		rows, err := b.store.Reader().QueryContext(ctx, statement, s.Account.UID, s.Deployment.UID)
		if err != nil {
			return err
		}
		if err := scanAll(rows); err != nil {
			return err
		}
	}
	return nil
}

func scanAll(rows *sql.Rows) error {
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range into {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
	}
	return rows.Err()
}

// maxMilliseconds are the bars of DESIGN for p99.
var maxMilliseconds = map[string]float64{"feed of a folder, 1,000 items": 10, "feed, page of 100 in the middle": 10}

// show adds the figures of a kind of work.
func (b *bench) show(w work, r *result) {
	what := b.name + ": " + w.what
	growth := r.large.Milliseconds(.5) / r.small.Milliseconds(.5)
	note := fmt.Sprintf("%d allocations; %.2f × a tenth of the account", r.allocations, growth)
	if !w.isWrite {
		note += fmt.Sprintf("; %.1f × plain SQL at p50 (%.2f ms)", r.large.Milliseconds(.5)/r.plain.Milliseconds(.5), r.plain.Milliseconds(.5))
	}
	b.report.Add(what, r.large, "%s", note)
	if limit, has := maxMilliseconds[w.what]; has {
		b.report.AtMost(what+", p99", r.large.Milliseconds(.99), limit, "ms")
		b.report.AtMost(what+", p50 ÷ p50 in a tenth of the account", growth, 1.2, "")
	}
}
