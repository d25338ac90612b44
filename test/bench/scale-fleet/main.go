// Command scale-fleet measures what grows with the number of deployments: the time and the writes of a rollout, the queues of
// the controller, its restart, and the memory of all processes. It measures several numbers of deployments, each with an API
// server of its own, so that what does not grow in proportion shows.
//
// There are no nodes: the bench reports workloads as available as soon as they change, in place of the controllers of
// Kubernetes, the scheduler and the kubelets. The release channel lists versions with digests, so there is no registry either.
//
//	make bench-scale-fleet BENCH_FLAGS=-docs                      # also writes the results into the documentation
//	go run ./test/bench/scale-fleet -sizes 100,400                # KUBEBUILDER_ASSETS is set
package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// options are the flags.
type options struct {
	sizes   measure.Sizes
	workers int
	lists   int
	rest    time.Duration
	timeout time.Duration
	quoin   string
	docs    *bool
}

func main() {
	o := options{sizes: measure.Sizes{300, 1000}, docs: measure.DocsFlag()}
	flag.Var(&o.sizes, "sizes", "`numbers` of deployments, in increasing order")
	flag.IntVar(&o.workers, "workers", 10, "`number` of workers of each controller, and of the bench")
	flag.IntVar(&o.lists, "lists", 500, "`number` of lists over REST")
	flag.DurationVar(&o.rest, "rest", 30*time.Second, "`duration` for which writes are counted in steady state")
	flag.DurationVar(&o.timeout, "timeout", time.Hour, "`timeout` of a step")
	flag.StringVar(&o.quoin, "quoin", filepath.Join("bin", "quoin"), "`binary` to measure")
	flag.Parse()
	process.Main("scale-fleet", func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) error {
	if err := process.CheckFlags(map[string]int{"workers": 1, "lists": 1}); err != nil {
		return err
	}
	results, err := measure.OpenResults("scale-fleet", *o.docs)
	if err != nil {
		return err
	}
	r := &report{workers: o.workers}
	for _, n := range o.sizes {
		measure.Progress("%d deployments", n)
		f := &figures{n: n}
		if err := controlplane.WithAPIServer("fleet", func(server *controlplane.APIServer) error {
			return newWorld(o, server, f).measure(ctx)
		}, allowServices); err != nil {
			if len(r.sizes) > 0 { // print what was measured before the error
				results.Print(r.setup(), r.print)
			}
			return fmt.Errorf("%d deployments: %w", n, err)
		}
		r.sizes = append(r.sizes, f)
	}
	return results.Publish(r.setup(), r.print)
}

// allowServices gives kube-apiserver a range of addresses for the Services of all deployments: the default of envtest has 254.
func allowServices(c *envtest.ControlPlane) {
	c.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0/16")
}
