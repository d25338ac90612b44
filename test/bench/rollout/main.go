// Command rollout measures how long Quoin takes to roll a new version out to many deployments, compared with patching
// the same workloads directly with client-go in the same cluster.
//
// It starts a cluster with simulated nodes, installs the deployments and then alternates: it pushes a tag, which Quoin
// rolls out; then it stops Quoin, and patches the same workloads to another image. The ratio of a pair is the cost of
// Quoin; absolute times depend on the machine and its load. Both roll out the same number of deployments at a time.
// Without a limit of concurrent rollouts (-limit 0), all of them are slow, and a slow rollout costs more writes.
//
//	make bench-rollout BENCH_FLAGS=-docs      # also writes the results into the documentation
//	go run ./test/bench/rollout -n 100 -pairs 1 -v
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// options are the flags.
type options struct {
	deployments int
	pairs       int
	workers     int
	limit       int
	rest        time.Duration
	timeout     time.Duration
	controller  string
	verbose     bool
	keep        bool
	docs        *bool
}

func main() {
	o := options{docs: measure.DocsFlag()}
	flag.IntVar(&o.deployments, "n", 1000, "`number` of deployments")
	flag.IntVar(&o.pairs, "pairs", 3, "`number` of pairs of a rollout by Quoin and direct patches")
	flag.IntVar(&o.workers, "workers", 10, "`number` of workers of each controller, and of those that patch directly with -limit 0")
	flag.IntVar(&o.limit, "limit", 50, "`number` of concurrent rollouts, by Quoin and directly; 0 is unlimited")
	flag.DurationVar(&o.rest, "rest", time.Minute, "`duration` for which writes are counted in steady state")
	flag.DurationVar(&o.timeout, "timeout", 20*time.Minute, "`timeout` of a step")
	flag.StringVar(&o.controller, "controller", filepath.Join("bin", "quoin"), "`binary` to measure")
	flag.BoolVar(&o.verbose, "v", false, "report progress every few seconds")
	flag.BoolVar(&o.keep, "keep", false, "leave the cluster running")
	flag.Parse()
	process.Main("rollout", func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) error {
	if o.deployments < 1 || o.pairs < 1 || o.workers < 1 || o.limit < 0 || flag.NArg() > 0 {
		return fmt.Errorf("want -n, -pairs and -workers of 1 or more, -limit of 0 or more, and nothing else; see -help")
	}
	root, err := repositoryRoot()
	if err != nil {
		return err
	}
	results, err := measure.OpenResults("rollout", *o.docs)
	if err != nil {
		return err
	}
	c, err := startCluster(ctx, root, o)
	if c != nil {
		defer c.stop(context.WithoutCancel(ctx))
	}
	if err != nil {
		return err
	}
	b, err := newBench(ctx, c, o)
	if err != nil {
		return err
	}
	defer b.controller.stop()
	if err := b.run(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, b.controller.process.LogTail())
	}
	if err := results.Publish(b.result.setup(), b.result.print); err != nil {
		return err
	}
	fmt.Println()
	return b.result.printJSON(os.Stdout)
}

// repositoryRoot returns the root of the repository: the working directory or one above it.
func repositoryRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "hack", "localcluster", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not in the repository", start)
		}
	}
}
