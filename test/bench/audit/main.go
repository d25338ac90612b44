// Command audit measures the audit log at a million events, in PostgreSQL and in SQLite:
//
//   - the export as CSV, beside `psql \copy` of the same rows, taking turns, and its memory
//   - full-text searches
//   - what storing a change costs (Begin and End), alone and with many at once, beside a bare
//     write and fsync of the same disk
//
// Ratios are what Quoin is worth; rows a second say more about the machine. PostgreSQL is a real
// one, with its defaults: it waits for the disk.
//
//	make bench-audit
//	go run ./test/bench/audit -events 100000
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/quoin-dev/quoin/internal/store/postgrestest"
)

// options are the flags.
type options struct {
	events, turns           int
	searches                int
	changes, callers, alone int
	folder                  string
}

func main() {
	o := options{}
	child := exportFlags{}
	flag.IntVar(&o.events, "events", 1_000_000, "`number` of events")
	flag.IntVar(&o.turns, "turns", 3, "how `often` export and \\copy take turns")
	flag.IntVar(&o.searches, "searches", 200, "`number` of searches of each kind")
	flag.IntVar(&o.alone, "alone", 500, "`number` of changes stored one after the other")
	flag.IntVar(&o.changes, "changes", 10_000, "`number` of changes stored by many callers")
	flag.IntVar(&o.callers, "callers", 64, "`number` of callers at once")
	flag.StringVar(&o.folder, "folder", os.TempDir(), "`folder` for SQLite and the exports; PostgreSQL is in the one for temporary files")
	flag.StringVar(&child.url, "export", "", "be the process that exports the database at this `URL`, for this program itself")
	flag.StringVar(&child.file, "to", "", "`file` that it writes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	work := func() error { return run(ctx, o) }
	if child.url != "" {
		work = func() error { return child.run(ctx) }
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "audit:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if err := o.check(); err != nil {
		return err
	}
	folder, err := os.MkdirTemp(o.folder, "quoin-audit-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	r := &report{}
	before := load()
	err = measure(ctx, o, folder, r)
	if len(r.rows) == 0 {
		return err
	}
	// What was found before something failed is shown too.
	fmt.Printf("%d events; %d cores, %s %s/%s; load before %s, after %s\n\n", o.events, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, before, load())
	r.print(os.Stdout)
	return err
}

func (o options) check() error {
	for _, f := range []struct {
		name         string
		value, least int
	}{{"events", o.events, 10_000}, {"turns", o.turns, 1}, {"searches", o.searches, 1}, {"alone", o.alone, 1}, {"changes", o.changes, 1}, {"callers", o.callers, 1}} {
		if f.value < f.least {
			return fmt.Errorf("-%s is %d, must be %d or more", f.name, f.value, f.least)
		}
	}
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	return nil
}

// measure does everything with each database.
func measure(ctx context.Context, o options, folder string, r *report) error {
	server, err := postgrestest.New()
	if err != nil {
		return err
	}
	defer server.Stop()
	url, err := server.NewDatabase()
	if err != nil {
		return err
	}
	if err := measureDisk(folder, r); err != nil {
		return err
	}
	psql := &psql{program: server.Program("psql"), url: url, file: filepath.Join(folder, "copy.csv")}
	for _, d := range []*database{
		{name: "PostgreSQL", url: url},
		{name: "SQLite", url: "sqlite://" + filepath.Join(folder, "content.db")},
	} {
		b := &bench{options: o, database: d, report: r, psql: psql, folder: folder}
		for _, step := range []struct {
			what string
			run  func(context.Context) error
		}{
			{fmt.Sprintf("storing %d events", o.events), b.fill},
			{"exporting, beside psql \\copy", b.compareExports},
			{"searching", b.search},
			{"storing changes", b.storeChanges},
		} {
			progress("%s: %s", d.name, step.what)
			if err := step.run(ctx); err != nil {
				return fmt.Errorf("%s: %s: %w", d.name, step.what, err)
			}
		}
	}
	return nil
}

// database is one of the two.
type database struct{ name, url string }

// bench is what the steps share.
type bench struct {
	options
	*database
	report *report
	psql   *psql
	folder string
}

var began = time.Now()

// progress tells on stderr what happens now.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%7s  %s\n", time.Since(began).Round(100*time.Millisecond), fmt.Sprintf(format, args...))
}
