// Command content measures workspace content in PostgreSQL and in SQLite: lists of a folder, searches, paths, upserts and
// publications in an account of 100,000 items, as a person in some of 1,000 groups. Each is beside the same rows that plain SQL
// reads in the same run, without rights, and beside the same work in an account of 10,000 items. PostgreSQL has its default
// settings.
//
//	make bench-content
//	go run ./test/bench/content -items 20000 -times 200
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/folder"
	"github.com/quoin-dev/quoin/internal/content/managed"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/test/bench/internal/databases"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// options are the flags.
type options struct {
	items, folders, groups, times int
	docs                          *bool
}

func main() {
	o := options{docs: measure.DocsFlag()}
	flag.IntVar(&o.items, "items", 100_000, "`number` of workbooks and reports in the large account")
	flag.IntVar(&o.folders, "folders", 5000, "`number` of folders in the large account")
	flag.IntVar(&o.groups, "groups", 1000, "`number` of groups to which something is granted")
	flag.IntVar(&o.times, "times", 500, "`number` of times that each kind of work is done")
	flag.Parse()
	process.Main("content", func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) error {
	if err := process.CheckFlags(map[string]int{"items": 20 * listed, "folders": 1000, "groups": 10, "times": rounds}); err != nil {
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
	setup := fmt.Sprintf("%d workbooks and reports, %d folders and %d groups in the large account, a tenth of it in the small one; a folder of %d items in both",
		o.items, o.folders, o.groups, listed)
	return results.Publish(setup, func(w io.Writer) {
		r.PrintBars(w)
		r.PrintRows(w, "Times")
	})
}

func measureDatabase(ctx context.Context, o options, r *measure.Report, name, url string) error {
	s, err := store.Open(ctx, url, nil, audit.Owner, folder.Owner, access.Owner, workspace.Owner, managed.Owner)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	b := newBench(o, name, r, s)
	for _, a := range []account{{large, o.items, o.folders, o.groups}, {small, o.items / 10, o.folders / 10, o.groups}} {
		measure.Progress("%s: creating %d items", name, a.items)
		if err := b.fill(ctx, a); err != nil {
			return err
		}
	}
	if err := b.analyze(ctx); err != nil {
		return err
	}
	return b.measure(ctx)
}
