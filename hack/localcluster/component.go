package main

import (
	"context"
	"fmt"
	"time"
)

// component is a daemon of the cluster with the way to see that it is ready.
type component struct {
	daemon
	port     portName // where it listens; empty when it listens nowhere
	address  string   // of that port; 127.0.0.1 when empty
	deadline time.Duration
	ready    probe // nil: ready as soon as it runs
}

// startAll starts the components of one group together, then waits for each.
// Components that do not need each other share a group, to save time.
func (c *cluster) startAll(ctx context.Context, group []component) error {
	ended := make([]<-chan struct{}, len(group))
	for i, item := range group {
		var err error
		if ended[i], err = c.processes().start(item.daemon); err != nil {
			return err
		}
	}
	for i, item := range group {
		if item.ready == nil {
			continue
		}
		err := step(item.title(c), func() error {
			return awaitReady(ctx, item.name, c.processes().logPath(item.name), ended[i], item.deadline, item.ready)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// title says which component it is and where it listens.
func (item component) title(c *cluster) string {
	if item.port == "" {
		return item.name
	}
	address := item.address
	if address == "" {
		address = "127.0.0.1"
	}
	return fmt.Sprintf("%s on %s:%d", item.name, address, c.Ports[item.port])
}
