package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/node"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
	"github.com/quoin-dev/quoin/hack/localcluster/progress"
)

// startOrder is the order in which the daemons of a cluster start. They stop in
// reverse order, so that no daemon waits for one that has stopped.
var startOrder = []string{
	"etcd", "registry", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
	"kwok", "containerd", "kubelet", "kube-proxy", "coredns", "warehouse", "git", "quoin-controller", "quoin-apiserver", "quoin-gateway",
}

// expected returns the daemons of a cluster of this kind, without Quoin's.
func expected(c *cluster.Cluster) []string {
	common := []string{"etcd", "registry", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
	if c.Nodes == cluster.NodesReal {
		return append(common, "containerd", "kubelet", "kube-proxy", "coredns")
	}
	return append(common, "kwok")
}

// runDown is the command "down".
func runDown(ctx context.Context, args []string) error {
	flags := newFlagSet("down")
	dir := flags.String("dir", defaultDirectory, "folder of the cluster")
	purge := flags.Bool("purge", false, "also remove the cluster's files: data, logs, credentials")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	c, exists, err := cluster.Load(*dir)
	if err != nil {
		return err
	}
	if !exists {
		progress.Infof("no cluster in %s", c.Dir)
		return nil
	}
	unlock, err := c.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	stopped, err := stop(ctx, c)
	if err != nil {
		return err
	}
	if stopped == 0 {
		progress.Infof("no process of the cluster in %s was running", c.Dir)
	}
	if !*purge {
		return nil
	}
	defer process.RemoveIfExists(c.Path("lock")) //nolint:errcheck // best-effort
	return c.RemoveGenerated()
}

// stop stops every daemon of the cluster in reverse start order and, for a real
// node, its containers and network. It continues after errors, to stop as much
// as possible, and returns the number of daemons that ran.
func stop(ctx context.Context, c *cluster.Cluster) (stopped int, err error) {
	start := time.Now()
	var problems []error
	if c.Nodes == cluster.NodesReal {
		stopped, err = node.DrainReal(ctx, c)
		problems = append(problems, err)
	}
	for _, name := range stopOrder(c.Daemons().Names()) {
		ran, err := c.Daemons().Stop(ctx, name, process.StopTimeout)
		if err != nil {
			problems = append(problems, err)
		}
		if ran {
			stopped++
		}
	}
	if c.Nodes == cluster.NodesReal {
		problems = append(problems, node.CleanReal(ctx, c))
	}
	// The addresses in it are no longer valid.
	problems = append(problems, process.RemoveIfExists(c.Path("env")))
	if stopped > 0 {
		progress.Infof("stopped %d processes of the cluster in %s in %s", stopped, c.Dir, progress.Seconds(time.Since(start)))
	}
	return stopped, errors.Join(problems...)
}

// stopOrder sorts names in reverse start order; unknown names come first,
// because components that were added later depend on earlier ones.
func stopOrder(names []string) []string {
	position := func(name string) int {
		if i := slices.Index(startOrder, name); i >= 0 {
			return i
		}
		return len(startOrder)
	}
	sorted := slices.Sorted(slices.Values(names))
	slices.SortStableFunc(sorted, func(a, b string) int { return position(b) - position(a) })
	return sorted
}
