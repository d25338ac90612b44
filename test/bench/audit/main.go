// Command audit measures the audit log at a million events, in PostgreSQL and in SQLite:
//
//   - the export as CSV and its memory, alternating with `psql \copy` of the same rows
//   - full-text searches
//   - the cost of storing a change (Begin and End), sequentially and with concurrent callers, compared
//     to a write and fsync on the same disk
//
// Compare ratios: rows per second depend mostly on the machine. PostgreSQL has its default settings
// and waits for the disk.
//
//	make bench-audit
//	go run ./test/bench/audit -events 100000
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/quoin-dev/quoin/test/bench/internal/databases"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// options are the flags.
type options struct {
	events, turns           int
	searches                int
	changes, callers, alone int
	folder                  string
	docs                    *bool
}

func main() {
	o := options{docs: measure.DocsFlag()}
	child := exportFlags{}
	flag.IntVar(&o.events, "events", 1_000_000, "`number` of events")
	flag.IntVar(&o.turns, "turns", 3, "`number` of rounds of export and \\copy")
	flag.IntVar(&o.searches, "searches", 200, "`number` of searches of each kind")
	flag.IntVar(&o.alone, "alone", 500, "`number` of changes stored sequentially")
	flag.IntVar(&o.changes, "changes", 10_000, "`number` of changes stored by concurrent callers")
	flag.IntVar(&o.callers, "callers", 64, "`number` of concurrent callers")
	flag.StringVar(&o.folder, "folder", os.TempDir(), "`folder` for SQLite and the exports; PostgreSQL uses the default one for temporary files")
	flag.StringVar(&child.url, "export", "", "run as the process that exports the database at this `URL`; used by this program itself")
	flag.StringVar(&child.file, "to", "", "`file` of that export")
	flag.Parse()
	if child.url != "" {
		process.Main("audit", child.run)
		return
	}
	process.Main("audit", func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) error {
	if err := process.CheckFlags(map[string]int{"events": 10_000, "turns": 1, "searches": 1, "alone": 1, "changes": 1, "callers": 1}); err != nil {
		return err
	}
	folder, err := os.MkdirTemp(o.folder, "quoin-audit-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	results, err := measure.OpenResults("audit", *o.docs)
	if err != nil {
		return err
	}
	r := &measure.Report{}
	err = measureAll(ctx, o, folder, r)
	if r.Empty() {
		return err
	}
	setup := fmt.Sprintf("%d events of one account", o.events)
	tables := func(w io.Writer) {
		r.PrintBars(w)
		r.PrintRows(w, "Times")
	}
	if err != nil { // print what was measured before the error
		results.Print(setup, tables)
		return err
	}
	return results.Publish(setup, tables)
}

// measureAll runs all measurements with each database.
func measureAll(ctx context.Context, o options, folder string, r *measure.Report) error {
	all, err := databases.Start(folder)
	if err != nil {
		return err
	}
	defer all.Server.Stop()
	if err := measureDisk(folder, r); err != nil {
		return err
	}
	psql := &psql{program: all.Server.Program("psql"), url: all.PostgreSQL.URL, file: filepath.Join(folder, "copy.csv")}
	for _, d := range []databases.Database{all.PostgreSQL, all.SQLite} {
		b := &bench{options: o, Database: d, report: r, psql: psql, folder: folder}
		for _, step := range []struct {
			what string
			run  func(context.Context) error
		}{
			{fmt.Sprintf("storing %d events", o.events), b.fill},
			{"exporting, alternating with psql \\copy", b.compareExports},
			{"searching", b.search},
			{"storing changes", b.storeChanges},
		} {
			measure.Progress("%s: %s", d.Name, step.what)
			if err := step.run(ctx); err != nil {
				return fmt.Errorf("%s: %s: %w", d.Name, step.what, err)
			}
		}
	}
	return nil
}

// bench is the state that the steps share.
type bench struct {
	options
	databases.Database
	report *measure.Report
	psql   *psql
	folder string
}
