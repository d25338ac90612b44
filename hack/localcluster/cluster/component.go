package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/process"
	"github.com/quoin-dev/quoin/hack/localcluster/progress"
)

// Component is a daemon of the cluster with its readiness probe.
type Component struct {
	process.Daemon
	Port    PortName // port that it listens on; empty if none
	Address string   // address of that port; default 127.0.0.1
	Timeout time.Duration
	Ready   process.Probe // nil means ready when started
}

// StartAll starts the components of a group together, then waits for each.
// Independent components share a group, to save time.
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

// title returns the component's name and address.
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
