// Command scale-users measures what grows with the number of users of an account: the memory of `quoin apiserver`, its start,
// lookups and pages over SCIM, and etcd. It measures several numbers of users, each with an API server of its own.
//
// One user is created over SCIM. The others are copies of its objects, which are written to etcd: a million creates would take
// more than an hour.
//
//	make bench-scale-users BENCH_FLAGS=-docs                      # also writes the results into the documentation
//	go run ./test/bench/scale-users -sizes 1000,3000              # KUBEBUILDER_ASSETS is set
package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// etcdQuota is the quota of etcd, the largest that its documentation suggests.
const etcdQuota = 8 << 30

// options are the flags.
type options struct {
	sizes                   measure.Sizes
	lookups, pages          int
	cached, controllerUsers int
	timeout                 time.Duration
	quoin                   string
	docs                    *bool
}

func main() {
	o := options{sizes: measure.Sizes{10_000, 30_000}, docs: measure.DocsFlag()}
	flag.Var(&o.sizes, "sizes", "`numbers` of users, in increasing order")
	flag.IntVar(&o.lookups, "lookups", 5000, "`number` of lookups of each kind")
	flag.IntVar(&o.pages, "pages", 300, "`number` of pages of each kind")
	flag.IntVar(&o.cached, "watch-cache", 100_000, "largest `number` of users with which kube-apiserver has its watch cache: it takes more memory than all of Quoin")
	flag.IntVar(&o.controllerUsers, "controller", 100_000, "largest `number` of users with which `quoin controller` is measured")
	flag.DurationVar(&o.timeout, "timeout", 15*time.Minute, "`timeout` of the start of a program")
	flag.StringVar(&o.quoin, "quoin", filepath.Join("bin", "quoin"), "`binary` to measure")
	flag.Parse()
	process.Main("scale-users", func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) error {
	if err := process.CheckFlags(map[string]int{"lookups": 1, "pages": 1}); err != nil {
		return err
	}
	if o.sizes[0] < 2*pageSize {
		return fmt.Errorf("-sizes: want %d users or more", 2*pageSize)
	}
	results, err := measure.OpenResults("scale-users", *o.docs)
	if err != nil {
		return err
	}
	r := &report{options: o}
	for _, n := range o.sizes {
		measure.Progress("%d users", n)
		f := &figures{n: n}
		if err := controlplane.WithAPIServer("users", func(server *controlplane.APIServer) error {
			return newWorld(o, server, f).measure(ctx)
		}, o.configure(n)); err != nil {
			if len(r.sizes) > 0 { // print what was measured before the error
				results.Print(r.setup(), r.print)
			}
			return fmt.Errorf("%d users: %w", n, err)
		}
		r.sizes = append(r.sizes, f)
	}
	return results.Publish(r.setup(), r.print)
}

// configure raises the quota of etcd, and disables the watch cache for many users.
func (o options) configure(n int) func(*envtest.ControlPlane) {
	return func(c *envtest.ControlPlane) {
		c.Etcd = &envtest.Etcd{}
		c.Etcd.Configure().Set("quota-backend-bytes", strconv.Itoa(etcdQuota))
		if n > o.cached {
			c.GetAPIServer().Configure().Set("watch-cache", "false")
		}
	}
}
