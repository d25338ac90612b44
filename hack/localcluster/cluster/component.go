package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/process"
	"github.com/quoin-dev/quoin/hack/localcluster/progress"
)

// Component is a daemon of the cluster with the way to see that it is ready.
type Component struct {
	process.Daemon
	Port    PortName // where it listens; empty when it listens nowhere
	Address string   // of that port; 127.0.0.1 when empty
	Timeout time.Duration
	Ready   process.Probe // nil: ready as soon as it runs
}

// StartAll starts the components of one group together, then waits for each.
// Components that do not need each other share a group, to save time.
func (c *Cluster) StartAll(ctx context.Context, group []Component) error {
	ended := make([]<-chan struct{}, len(group))
	for i, item := range group {
		var err error
		if ended[i], err = c.Daemons().Start(item.Daemon); err != nil {
			return err
		}
	}
	for i, item := range group {
		if item.Ready == nil {
			continue
		}
		err := progress.Step(item.title(c), func() error {
			return process.WaitReady(ctx, item.Name, c.Daemons().LogPath(item.Name), ended[i], item.Timeout, item.Ready)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// title says which component it is and where it listens.
func (item Component) title(c *Cluster) string {
	if item.Port == "" {
		return item.Name
	}
	address := item.Address
	if address == "" {
		address = "127.0.0.1"
	}
	return fmt.Sprintf("%s on %s:%d", item.Name, address, c.Ports[item.Port])
}
