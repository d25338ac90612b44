// Command model measures data models over REST and over Git, with a real `quoin apiserver`, in PostgreSQL and in SQLite:
//
//   - uploads in both protocols, compared with `git push` of the same files to `git http-backend`, in pairs
//   - the tree and the hashes of many files
//   - the memory of the server while repositories are pushed, cloned, read and uploaded to again and again
//
// Ratios measure Quoin; absolute times depend on the machine.
//
//	make bench-model BENCH_FLAGS=-docs                                # also writes the results into the documentation
//	go run ./test/bench/model -files 200 -listed 1000 -pairs 1       # KUBEBUILDER_ASSETS is set
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"path/filepath"

	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/databases"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// fileBytes is the size of a file that is uploaded.
const fileBytes = 4 << 10

// options are the flags.
type options struct {
	files, pairs, callers int
	listed, lists         int
	rounds, changed       int
	only, program         string
	docs                  *bool
}

func main() {
	o := options{docs: measure.DocsFlag()}
	flag.IntVar(&o.files, "files", 2000, "`number` of files of 4 KiB of an upload")
	flag.IntVar(&o.pairs, "pairs", 3, "`number` of pairs of pushes and uploads")
	flag.IntVar(&o.callers, "callers", 8, "`number` of concurrent requests of the uploads that are not sequential")
	flag.IntVar(&o.listed, "listed", 10_000, "`number` of files of the model that is listed")
	flag.IntVar(&o.lists, "lists", 200, "`number` of lists of each kind")
	flag.IntVar(&o.rounds, "rounds", 10, "`number` of repositories that are pushed, cloned, read and uploaded to while memory is measured")
	flag.IntVar(&o.changed, "changed", 200, "`number` of files that are uploaded to each of them")
	flag.StringVar(&o.only, "only", "", "measure one `database` only: PostgreSQL or SQLite")
	flag.StringVar(&o.program, "quoin", filepath.Join("bin", "quoin"), "`binary` to measure")
	flag.Parse()
	process.Main("model", func(ctx context.Context) error {
		if err := process.CheckFlags(map[string]int{"files": 10, "pairs": 1, "callers": 1, "listed": 10, "lists": 10, "rounds": 4, "changed": 1}); err != nil {
			return err
		}
		return controlplane.WithAPIServer("model", func(server *controlplane.APIServer) error { return run(ctx, o, server) })
	})
}

func run(ctx context.Context, o options, server *controlplane.APIServer) error {
	results, err := measure.OpenResults("model", *o.docs)
	if err != nil {
		return err
	}
	all, err := databases.Start(server.Dir)
	if err != nil {
		return err
	}
	defer all.Server.Stop()
	w, err := newWorld(ctx, o, server)
	if err != nil {
		return err
	}
	defer w.peer.Close()
	r := &measure.Report{}
	for _, d := range []databases.Database{all.PostgreSQL, all.SQLite} {
		if o.only != "" && o.only != d.Name {
			continue
		}
		if err := measureDatabase(ctx, w, r, d); err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	setup := fmt.Sprintf("uploads of %d files of 4 KiB, over HTTP/1.1 and TLS; the hashes of the client, the list of the hashes, the start and the end are part of an upload; "+
		"a list of %d files; etcd, kube-apiserver, the database, Quoin and bench share the machine; databases and kube-apiserver have their default settings, but etcd does not wait for the disk",
		o.files, o.listed)
	return results.Publish(setup, func(out io.Writer) {
		r.PrintBars(out)
		r.PrintRows(out, "Times")
	})
}

// measureDatabase measures a `quoin apiserver` of its own.
func measureDatabase(ctx context.Context, w *world, r *measure.Report, d databases.Database) error {
	measure.Progress("%s: starting quoin apiserver", d.Name)
	b := &bench{world: w, report: r, name: d.Name}
	var err error
	if b.quoin, err = w.start(ctx, d.URL); err != nil {
		return err
	}
	defer b.quoin.Stop()
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{fmt.Sprintf("pushing and uploading %d files", w.files), b.compareUploads},
		{fmt.Sprintf("listing %d files", w.listed), b.list},
		{"measuring memory", b.measureMemory},
	} {
		measure.Progress("%s: %s", d.Name, step.name)
		w.server.Settle(ctx)
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// bench is what is measured with one database.
type bench struct {
	*world
	report *measure.Report
	// name is that of the database system.
	name  string
	quoin *controlplane.Quoin
}
