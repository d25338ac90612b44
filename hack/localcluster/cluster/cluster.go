package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/quoin-dev/quoin/hack/localcluster/process"
)

// Which nodes a cluster has, and so which binaries it needs.
const (
	NodesNone      = "none"      // API server, etcd and kubectl only: enough for envtest
	NodesSimulated = "simulated" // KWOK plays the kubelets
	NodesReal      = "real"      // containerd and kubelet on this machine
)

// Cluster is one local cluster: everything that belongs to it lies below Dir.
// It is stored as <Dir>/cluster.json so that later commands find it again.
type Cluster struct {
	Dir            string           `json:"dir"`
	Nodes          string           `json:"nodes"`
	SimulatedNodes int              `json:"simulatedNodes,omitempty"`
	Address        string           `json:"address"` // where the API server listens
	Bin            string           `json:"bin"`     // folder of the pinned binaries
	Ports          map[PortName]int `json:"ports"`
	// Dataplane: push takes the real server, because the samples run it.
	Dataplane bool `json:"dataplane,omitempty"`
}

// Network ranges inside the cluster. Nothing outside of it routes to them, so
// that clusters side by side may share them. A /18 for each node has room for
// more pods than a simulated node takes.
const (
	ServiceCIDR      = "10.96.0.0/16"
	ServiceAddress   = "10.96.0.1" // of the Service "kubernetes": the first of the range
	SimulatedPodCIDR = "10.128.0.0/9"
	SimulatedMask    = 18

	// One node's worth of pods: the controllers give the first node the first
	// range of realPodMask bits, which the bridge of the real node serves.
	RealPodCIDR = "10.244.0.0/16"
	RealPodMask = 24
)

// generated are the names below Dir that a cluster makes. down --purge and a
// new up remove these and nothing else: Dir may be any folder of the user.
var generated = []string{
	"apiserver.kubeconfig", "audit", "bin", "ca.crt", "cluster.json", "cni", "containerd", "controller.kubeconfig", "env", "etcd",
	"gateway-ca.crt", "gateway.kubeconfig", "git", "kubeconfig", "kubeconfigs", "kubectl-cache", "logs", "manifests", "pids", "pki", "registry", "resolv.conf", "samples",
}

func (c *Cluster) Path(elements ...string) string {
	return filepath.Join(append([]string{c.Dir}, elements...)...)
}

func (c *Cluster) PKI(file string) string { return c.Path("pki", file) }

func (c *Cluster) Binary(name string) string { return filepath.Join(c.Bin, name) }

func (c *Cluster) Daemons() process.Daemons {
	return process.Daemons{Logs: c.Path("logs"), Pids: c.Path("pids")}
}

// RegistryAddress is host:port of the cluster's OCI registry.
func (c *Cluster) RegistryAddress() string { return Loopback(c.Ports[PortRegistry]) }

// ApiServerURL is where clients on this machine reach the API server.
func (c *Cluster) ApiServerURL() string {
	return fmt.Sprintf("https://%s:%d", c.Address, c.Ports[PortAPIServer])
}

// KubectlCache holds what kubectl remembers of the API server. Its own default
// is one folder for each address: a new cluster on the same port would be taken
// for the old one, with the old one's kinds.
func (c *Cluster) KubectlCache() string { return c.Path("kubectl-cache") }

// Kubectl runs the pinned kubectl as cluster admin and returns its output.
func (c *Cluster) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.Binary("kubectl"), append([]string{"--kubeconfig", c.Path("kubeconfig")}, args...)...)
	cmd.Env = append(process.CleanEnvironment(os.Environ()), "KUBECACHEDIR="+c.KubectlCache())
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// Save stores c for later commands.
func (c *Cluster) Save() error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return c.WriteFile(append(text, '\n'), 0o644, "cluster.json")
}

// Load returns the cluster that was started in dir; ok is false when
// there is none.
func Load(dir string) (c *Cluster, ok bool, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, false, err
	}
	c = &Cluster{Dir: dir}
	text, err := os.ReadFile(c.Path("cluster.json"))
	if errors.Is(err, os.ErrNotExist) {
		return c, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, false, fmt.Errorf("read %s: %w", c.Path("cluster.json"), err)
	}
	c.Dir = dir // the folder may have been moved since
	return c, true, nil
}

// WriteFile writes a file below Dir and makes its folder.
func (c *Cluster) WriteFile(content []byte, mode os.FileMode, elements ...string) error {
	path := c.Path(elements...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, mode)
}

// RemoveGenerated deletes what a cluster has made below Dir.
func (c *Cluster) RemoveGenerated() error {
	var problems []error
	for _, name := range generated {
		problems = append(problems, os.RemoveAll(c.Path(name)))
	}
	return errors.Join(problems...)
}

// Lock makes sure that one command at a time changes the cluster in Dir.
func (c *Cluster) Lock(ctx context.Context) (unlock func(), err error) {
	return process.Lock(ctx, c.Path("lock"), "another localcluster works in "+c.Dir+": waiting for it")
}

// IsLocked reports whether a command changes the cluster in Dir now.
func (c *Cluster) IsLocked() bool {
	if _, err := os.Stat(c.Path("lock")); err != nil {
		return false
	}
	unlock, err := process.TryLock(c.Path("lock"))
	if err != nil {
		return errors.Is(err, process.ErrLocked)
	}
	unlock()
	return false
}

// NodeName is the name of the real node.
const NodeName = "localnode"
