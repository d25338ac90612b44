package main

import (
	"context"
	"errors"
	"slices"
	"time"
)

// startOrder is the order in which the daemons of a cluster start. They stop
// the other way round, so that none is left waiting for one that is gone.
var startOrder = []string{
	"etcd", "registry", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
	"kwok", "containerd", "kubelet", "kube-proxy", "warehouse", "git", "quoin-controller", "quoin-apiserver", "quoin-gateway",
}

// expected lists the daemons that a cluster of this kind has, without Quoin.
func (c *cluster) expected() []string {
	common := []string{"etcd", "registry", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
	if c.Nodes == nodesReal {
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
	c, exists, err := loadCluster(*dir)
	if err != nil {
		return err
	}
	if !exists {
		say("no cluster in %s", c.Dir)
		return nil
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	stopped, err := c.stop(ctx)
	if err != nil {
		return err
	}
	if stopped == 0 {
		say("nothing of the cluster in %s ran", c.Dir)
	}
	if !*purge {
		return nil
	}
	defer removeIfExists(c.path("lock")) //nolint:errcheck // only tidiness
	return c.removeGenerated()
}

// stop ends every daemon of the cluster in reverse order of starting and, for
// a real node, the containers and the network that it made. It goes on after a
// failure, so that as little as possible is left, and returns how many ran.
func (c *cluster) stop(ctx context.Context) (stopped int, err error) {
	start := time.Now()
	var problems []error
	if c.Nodes == nodesReal {
		stopped, err = c.drainRealNode(ctx)
		problems = append(problems, err)
	}
	for _, name := range stopOrder(c.processes().names()) {
		ran, err := c.processes().stop(ctx, name, stopGrace)
		if err != nil {
			problems = append(problems, err)
		}
		if ran {
			stopped++
		}
	}
	if c.Nodes == nodesReal {
		problems = append(problems, c.cleanRealNode(ctx))
	}
	// The way in is gone with the cluster.
	problems = append(problems, removeIfExists(c.path("env")))
	if stopped > 0 {
		say("stopped %d processes of the cluster in %s in %s", stopped, c.Dir, seconds(time.Since(start)))
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
