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

// startOrder is the order in which the daemons of a cluster start. They stop
// the other way round, so that none is left waiting for one that is gone.
var startOrder = []string{
	"etcd", "registry", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
	"kwok", "containerd", "kubelet", "kube-proxy", "warehouse", "git", "quoin-controller", "quoin-apiserver", "quoin-gateway",
}

// expected lists the daemons that a cluster of this kind has, without Quoin.
func expected(c *cluster.Cluster) []string {
	common := []string{"etcd", "registry", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
	if c.Nodes == cluster.NodesReal {
		return append(common, "containerd", "kubelet", "kube-proxy")
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
		progress.Infof("nothing of the cluster in %s ran", c.Dir)
	}
	if !*purge {
		return nil
	}
	defer process.RemoveIfExists(c.Path("lock")) //nolint:errcheck // only tidiness
	return c.RemoveGenerated()
}

// stop ends every daemon of the cluster in reverse order of starting and, for
// a real node, the containers and the network that it made. It goes on after a
// failure, so that as little as possible is left, and returns how many ran.
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
	// The way in is gone with the cluster.
	problems = append(problems, process.RemoveIfExists(c.Path("env")))
	if stopped > 0 {
		progress.Infof("stopped %d processes of the cluster in %s in %s", stopped, c.Dir, progress.Seconds(time.Since(start)))
	}
	return stopped, errors.Join(problems...)
}

// stopOrder sorts names by reverse start order; unknown ones come first,
// because what was added later depends on what was there.
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
