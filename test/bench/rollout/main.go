// Command rollout measures how long Quoin takes to bring a new version to many deployments,
// beside patching the same workloads directly with client-go in the same cluster.
//
// It starts a cluster with simulated nodes, installs the deployments and then takes turns:
// a tag is pushed and Quoin rolls it out, pacing off; Quoin is stopped and as many workers
// patch the same workloads to another image. The ratio of a pair is what Quoin costs. How
// long either takes says little: it depends on the machine, and on what else runs on it.
//
//	make bench-rollout
//	go run ./test/bench/rollout -n 100 -pairs 1 -v
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// options are the flags.
type options struct {
	deployments int
	pairs       int
	workers     int
	rest        time.Duration
	patience    time.Duration
	controller  string
	verbose     bool
	keep        bool
}

func main() {
	o := options{}
	flag.IntVar(&o.deployments, "n", 1000, "`number` of deployments")
	flag.IntVar(&o.pairs, "pairs", 3, "how `often` Quoin and direct patching take turns")
	flag.IntVar(&o.workers, "workers", 10, "`number` of workers that patch directly, and of each of the controller's queues")
	flag.DurationVar(&o.rest, "rest", time.Minute, "how `long` writes are counted while nothing happens")
	flag.DurationVar(&o.patience, "patience", 20*time.Minute, "how `long` a step may take before it counts as failed")
	flag.StringVar(&o.controller, "controller", filepath.Join("bin", "quoin"), "`binary` to measure")
	flag.BoolVar(&o.verbose, "v", false, "report progress every few seconds")
	flag.BoolVar(&o.keep, "keep", false, "leave the cluster running")
	flag.Parse()
	process.Main("rollout", func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) error {
	if o.deployments < 1 || o.pairs < 1 || o.workers < 1 || flag.NArg() > 0 {
		return fmt.Errorf("want -n, -pairs and -workers of 1 or more, and nothing else; see -help")
	}
	root, err := repositoryRoot()
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
		return fmt.Errorf("%w\n%s", err, b.controller.process.LastWords())
	}
	b.result.print(os.Stdout)
	return nil
}

// repositoryRoot is the folder with Quoin's go.mod, this one or one above it.
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
