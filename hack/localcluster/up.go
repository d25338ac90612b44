package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// defaultDirectory holds a cluster when --dir is not given.
const defaultDirectory = ".local"

// upOptions are the flags of the command "up".
type upOptions struct {
	nodes           string
	dir             string
	autoPorts       bool
	bare            bool
	warehouse       bool
	installPackages bool
	simulatedNodes  int
}

// runUp is the command "up".
func runUp(ctx context.Context, args []string) error {
	var o upOptions
	flags := newFlagSet("up")
	flags.StringVar(&o.nodes, "nodes", nodesSimulated, "simulated, or real (Linux as root: containerd and kubelet)")
	flags.StringVar(&o.dir, "dir", defaultDirectory, "folder of the cluster")
	flags.BoolVar(&o.autoPorts, "auto-ports", false, "pick free ports instead of the documented ones")
	flags.BoolVar(&o.bare, "bare", false, "start the cluster and the registry only, without Quoin")
	flags.BoolVar(&o.warehouse, "warehouse", false, "with --bare and --nodes real: start the warehouse of the samples too")
	flags.BoolVar(&o.installPackages, "install-packages", false, "with --nodes real: install missing Debian packages")
	flags.IntVar(&o.simulatedNodes, "simulated-nodes", 3, "how many simulated nodes")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if o.nodes != nodesSimulated && o.nodes != nodesReal {
		return fmt.Errorf("--nodes %q: want %s or %s", o.nodes, nodesSimulated, nodesReal)
	}
	if o.warehouse && o.nodes != nodesReal {
		return errors.New("--warehouse: nothing on simulated nodes would ask it; use --nodes real")
	}
	if o.simulatedNodes < 1 || o.simulatedNodes > 500 {
		return errors.New("--simulated-nodes: want 1 to 500")
	}
	return up(ctx, o)
}

// hostPackages are what must be installed before anything starts.
func (o upOptions) hostPackages() []hostPackage {
	if o.bare && !o.warehouse {
		return nodePrograms
	}
	return slices.Concat(nodePrograms, warehousePackages)
}

// up starts the cluster unless it runs, then Quoin unless the cluster is bare.
func up(ctx context.Context, o upOptions) error {
	start := time.Now()
	c, exists, err := loadCluster(o.dir)
	if err != nil {
		return err
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	// Read again under the lock: another up may just have finished.
	if c, exists, err = loadCluster(o.dir); err != nil {
		return err
	}
	if exists && c.healthy(ctx) {
		if c.Nodes != o.nodes {
			return fmt.Errorf("a cluster with %s nodes runs in %s: stop it first (localcluster down --dir %s)", c.Nodes, c.Dir, o.dir)
		}
		if len(c.Ports) < len(defaultPorts) {
			return fmt.Errorf("an earlier localcluster, which knew fewer ports, started the cluster in %s: stop it first (localcluster down --dir %s)", c.Dir, o.dir)
		}
		say("the cluster in %s already runs (API server %s)", c.Dir, c.apiServerURL())
	} else {
		if err := c.startFresh(ctx, o); err != nil {
			return err
		}
		say("cluster ready in %s: export KUBECONFIG=%s", seconds(time.Since(start)), c.path("kubeconfig"))
	}
	if o.warehouse {
		if err := c.startWarehouse(ctx, o.installPackages); err != nil {
			return err
		}
	}
	if o.bare {
		return nil
	}
	return c.startProduct(ctx, o.installPackages)
}

// healthy reports whether all of the cluster's processes run and its API
// server is ready.
func (c *cluster) healthy(ctx context.Context) bool {
	for _, name := range c.expected() {
		if !c.processes().running(name) {
			return false
		}
	}
	client, err := probeClient(c.pki("ca.crt"))
	if err != nil {
		return false
	}
	client.Timeout = 5 * time.Second
	return httpProbe(client, c.apiServerURL()+"/readyz")(ctx) == nil
}

// startFresh removes what is left of an earlier cluster in the folder and
// starts a new one. When that fails everything is stopped again; the logs stay.
func (c *cluster) startFresh(ctx context.Context, o upOptions) error {
	if len(c.processes().names()) > 0 {
		say("removing what is left of an earlier cluster in %s", c.Dir)
	}
	if _, err := c.stop(ctx); err != nil {
		return err
	}
	if o.nodes == nodesReal {
		if err := checkRealNode(ctx, c.Dir, o.hostPackages(), o.installPackages); err != nil {
			return err
		}
	}
	bin, err := buildBinaries(ctx, o.nodes)
	if err != nil {
		return err
	}
	if err := c.removeGenerated(); err != nil {
		return err
	}
	*c = cluster{Dir: c.Dir, Nodes: o.nodes, SimulatedNodes: o.simulatedNodes, Bin: bin, Address: "127.0.0.1"}
	release, err := c.choosePorts(o.autoPorts)
	if err != nil {
		return err
	}
	defer release()
	if err := c.start(ctx); err != nil {
		say("stopping what was started; the logs stay in %s", c.path("logs"))
		_, stopErr := c.stop(context.WithoutCancel(ctx))
		return errors.Join(err, stopErr)
	}
	return nil
}

// choosePorts gives the cluster its ports; release is called once it listens.
func (c *cluster) choosePorts(auto bool) (release func(), err error) {
	if !auto {
		c.Ports = defaultPorts
		return func() {}, checkPorts(c.Ports)
	}
	cache, err := cacheDirectory()
	if err != nil {
		return nil, err
	}
	c.Ports, release, err = pickPorts(cache)
	return release, err
}

// start starts the processes of a new cluster.
func (c *cluster) start(ctx context.Context) error {
	if c.Nodes == nodesReal {
		c.Address = newNodeNetwork(c.Dir).address
	}
	if err := c.save(); err != nil {
		return err
	}
	if c.Nodes == nodesReal {
		if err := newNodeNetwork(c.Dir).create(ctx); err != nil {
			return err
		}
	}
	if err := c.makeCredentials(); err != nil {
		return fmt.Errorf("make the cluster's credentials: %w", err)
	}
	if err := c.startControlPlane(ctx); err != nil {
		return err
	}
	startNodes := c.startSimulatedNodes
	if c.Nodes == nodesReal {
		startNodes = c.startRealNode
	}
	if err := startNodes(ctx); err != nil {
		return err
	}
	http.DefaultClient.CloseIdleConnections()
	return c.setEnvironment(c.variables()...)
}

// variables are what every cluster has in <dir>/env.
func (c *cluster) variables() []variable {
	variables := []variable{
		{"KUBECONFIG", c.path("kubeconfig")},
		{"KUBECACHEDIR", c.kubectlCache()},
		{"QUOIN_REGISTRY", c.registryAddress()},
		{"QUOIN_BIN", c.Bin},
		{"QUOIN_NODES", c.Nodes},
	}
	if c.Nodes == nodesReal {
		variables = append(variables, variable{"QUOIN_NODE_ADDRESS", c.Address})
	}
	return variables
}
