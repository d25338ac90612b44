package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/binaries"
	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/controlplane"
	"github.com/quoin-dev/quoin/hack/localcluster/host"
	"github.com/quoin-dev/quoin/hack/localcluster/node"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
	"github.com/quoin-dev/quoin/hack/localcluster/product"
	"github.com/quoin-dev/quoin/hack/localcluster/progress"
	"github.com/quoin-dev/quoin/hack/localcluster/warehouse"
)

// defaultDirectory is the default of --dir.
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
	auditPolicy     string
	auditLog        string
}

// runUp is the command "up".
func runUp(ctx context.Context, args []string) error {
	var o upOptions
	flags := newFlagSet("up")
	flags.StringVar(&o.nodes, "nodes", cluster.NodesSimulated, "simulated, or real (Linux as root: containerd and kubelet)")
	flags.StringVar(&o.dir, "dir", defaultDirectory, "folder of the cluster")
	flags.BoolVar(&o.autoPorts, "auto-ports", false, "pick free ports instead of the documented ones")
	flags.BoolVar(&o.bare, "bare", false, "start only the cluster and the registry, without Quoin")
	flags.BoolVar(&o.warehouse, "warehouse", false, "with --bare and --nodes real: also start the warehouse of the samples")
	flags.BoolVar(&o.installPackages, "install-packages", false, "with --nodes real: install missing Debian packages")
	flags.IntVar(&o.simulatedNodes, "simulated-nodes", 3, "number of simulated nodes")
	flags.StringVar(&o.auditPolicy, "audit-policy", "", "file with the audit policy of kube-apiserver; needs --audit-log")
	flags.StringVar(&o.auditLog, "audit-log", "", "file to which kube-apiserver writes its audit log; needs --audit-policy")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if (o.auditPolicy == "") != (o.auditLog == "") {
		return errors.New("--audit-policy and --audit-log: want both or none")
	}
	if o.nodes != cluster.NodesSimulated && o.nodes != cluster.NodesReal {
		return fmt.Errorf("--nodes %q: want %s or %s", o.nodes, cluster.NodesSimulated, cluster.NodesReal)
	}
	if o.warehouse && o.nodes != cluster.NodesReal {
		return errors.New("--warehouse: simulated nodes do not run pods that query it; use --nodes real")
	}
	if o.simulatedNodes < 1 || o.simulatedNodes > 500 {
		return errors.New("--simulated-nodes: want 1 to 500")
	}
	return up(ctx, o)
}

// hostPackages returns the packages that must be installed before the start.
func (o upOptions) hostPackages() []host.Package {
	if o.bare && !o.warehouse {
		return host.NodePackages
	}
	return slices.Concat(host.NodePackages, host.WarehousePackages)
}

// up starts the cluster unless it runs, then Quoin unless the cluster is bare.
func up(ctx context.Context, o upOptions) error {
	start := time.Now()
	c, exists, err := cluster.Load(o.dir)
	if err != nil {
		return err
	}
	unlock, err := c.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	// Load again under the lock: another up may have finished in the meantime.
	if c, exists, err = cluster.Load(o.dir); err != nil {
		return err
	}
	if exists && healthy(ctx, c) {
		if c.Nodes != o.nodes {
			return fmt.Errorf("a cluster with %s nodes runs in %s: stop it first (localcluster down --dir %s)", c.Nodes, c.Dir, o.dir)
		}
		if len(c.Ports) < len(cluster.DefaultPorts) {
			return fmt.Errorf("an earlier version of localcluster, with fewer ports, started the cluster in %s: stop it first (localcluster down --dir %s)", c.Dir, o.dir)
		}
		progress.Infof("the cluster in %s already runs (API server %s)", c.Dir, c.APIServerURL())
	} else {
		if err := startFresh(ctx, c, o); err != nil {
			return err
		}
		progress.Infof("cluster ready in %s: export KUBECONFIG=%s", progress.Seconds(time.Since(start)), c.Path("kubeconfig"))
	}
	if err := c.Link("kubectl", c.Binary("kubectl")); err != nil {
		return err
	}
	// A cluster of an earlier version has another folder.
	if err := c.SetEnvironment(cluster.Variable{Name: "QUOIN_BIN", Value: c.Path("bin")}); err != nil {
		return err
	}
	if o.warehouse {
		if err := warehouse.Start(ctx, c, o.installPackages); err != nil {
			return err
		}
	}
	if o.bare {
		return nil
	}
	return product.Start(ctx, c, o.installPackages)
}

// healthy reports whether all processes of the cluster run and its API server
// is ready.
func healthy(ctx context.Context, c *cluster.Cluster) bool {
	for _, name := range expected(c) {
		if !c.Daemons().Running(name) {
			return false
		}
	}
	client, err := process.ProbeClient(c.PKI("ca.crt"))
	if err != nil {
		return false
	}
	client.Timeout = 5 * time.Second
	return process.HTTPProbe(client, c.APIServerURL()+"/readyz")(ctx) == nil
}

// startFresh removes the remains of an earlier cluster in the folder and starts
// a new one. If that fails it stops all processes; the logs are kept.
func startFresh(ctx context.Context, c *cluster.Cluster, o upOptions) error {
	if len(c.Daemons().Names()) > 0 {
		progress.Infof("removing the remains of an earlier cluster in %s", c.Dir)
	}
	if _, err := stop(ctx, c); err != nil {
		return err
	}
	if o.nodes == cluster.NodesReal {
		if err := node.CheckReal(ctx, c.Dir, o.hostPackages(), o.installPackages); err != nil {
			return err
		}
	}
	bin, err := binaries.Build(ctx, o.nodes)
	if err != nil {
		return err
	}
	if err := c.RemoveGenerated(); err != nil {
		return err
	}
	*c = cluster.Cluster{
		Dir: c.Dir, Nodes: o.nodes, SimulatedNodes: o.simulatedNodes, Bin: bin, Address: "127.0.0.1",
		AuditPolicy: o.auditPolicy, AuditLog: o.auditLog,
	}
	release, err := choosePorts(c, o.autoPorts)
	if err != nil {
		return err
	}
	defer release()
	if err := start(ctx, c); err != nil {
		progress.Infof("stopping all processes; the logs are in %s", c.Path("logs"))
		_, stopErr := stop(context.WithoutCancel(ctx), c)
		return errors.Join(err, stopErr)
	}
	return nil
}

// choosePorts sets the ports of the cluster. The caller calls release when the
// daemons listen.
func choosePorts(c *cluster.Cluster, auto bool) (release func(), err error) {
	if !auto {
		c.Ports = cluster.DefaultPorts
		return func() {}, cluster.CheckPorts(c.Ports)
	}
	cache, err := binaries.CacheDirectory()
	if err != nil {
		return nil, err
	}
	c.Ports, release, err = cluster.PickPorts(cache)
	return release, err
}

// start starts the processes of a new cluster.
func start(ctx context.Context, c *cluster.Cluster) error {
	if c.Nodes == cluster.NodesReal {
		c.Address = node.NewNetwork(c.Dir).Address
	}
	if err := c.Save(); err != nil {
		return err
	}
	if c.Nodes == cluster.NodesReal {
		if err := node.NewNetwork(c.Dir).Create(ctx); err != nil {
			return err
		}
	}
	if err := controlplane.MakeCredentials(c); err != nil {
		return fmt.Errorf("create the cluster's credentials: %w", err)
	}
	if err := controlplane.Start(ctx, c); err != nil {
		return err
	}
	startNodes := node.StartSimulated
	if c.Nodes == cluster.NodesReal {
		startNodes = node.StartReal
	}
	if err := startNodes(ctx, c); err != nil {
		return err
	}
	http.DefaultClient.CloseIdleConnections()
	return c.SetEnvironment(variables(c)...)
}

// variables returns the variables in <dir>/env of every cluster.
func variables(c *cluster.Cluster) []cluster.Variable {
	variables := []cluster.Variable{
		{Name: "KUBECONFIG", Value: c.Path("kubeconfig")},
		{Name: "KUBECACHEDIR", Value: c.KubectlCache()},
		{Name: "QUOIN_REGISTRY", Value: c.RegistryAddress()},
		{Name: "QUOIN_NODES", Value: c.Nodes},
	}
	if c.Nodes == cluster.NodesReal {
		variables = append(variables, cluster.Variable{Name: "QUOIN_NODE_ADDRESS", Value: c.Address})
	}
	return variables
}
