package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
)

// runStatus is the command "status". It returns an error unless the whole
// cluster runs, for use in scripts.
func runStatus(ctx context.Context, args []string) error {
	flags := newFlagSet("status")
	dir := flags.String("dir", defaultDirectory, "folder of the cluster")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	c, exists, err := cluster.Load(*dir)
	if err != nil {
		return err
	}
	if !exists {
		return fmt.Errorf("no cluster in %s", c.Dir)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(table, "PROCESS\tSTATE\tPID\tPORT\tLOG\n")
	for _, name := range statusNames(c) {
		state, pid, port := "stopped", "-", "-"
		if record, ok := c.Daemons().Read(name); ok && record.Running() {
			state, pid = "running", fmt.Sprint(record.PID)
		}
		if number, ok := c.Ports[cluster.PortName(name)]; ok {
			port = fmt.Sprint(number)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", name, state, pid, port, c.Daemons().LogPath(name))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if !healthy(ctx, c) {
		return errors.New("the cluster is not running completely: localcluster up starts a new one")
	}
	return nil
}

// statusNames returns the expected daemons in start order, then the other
// recorded daemons.
func statusNames(c *cluster.Cluster) []string {
	names := expected(c)
	for _, name := range c.Daemons().Names() {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
