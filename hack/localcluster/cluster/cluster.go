// Package cluster has the files, ports and components of one local cluster.
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

// The kinds of nodes of a cluster, which determine its binaries.
const (
	NodesNone      = "none"      // API server, etcd and kubectl only: enough for envtest
	NodesSimulated = "simulated" // KWOK simulates the kubelets
	NodesReal      = "real"      // containerd and kubelet on this machine
)

// Cluster is a local cluster. All its files are below Dir; <Dir>/cluster.json
// stores it for later commands.
type Cluster struct {
	Dir            string           `json:"dir"`
	Nodes          string           `json:"nodes"`
	SimulatedNodes int              `json:"simulatedNodes,omitempty"`
	Address        string           `json:"address"` // where the API server listens
	Bin            string           `json:"bin"`     // folder of the pinned binaries
	Ports          map[PortName]int `json:"ports"`
	// Dataplane means that push pushes the real server, because the samples run
	// it.
	Dataplane bool `json:"dataplane,omitempty"`
	// AuditPolicy and AuditLog are files of the audit log of kube-apiserver;
	// empty for none.
	AuditPolicy string `json:"auditPolicy,omitempty"`
	AuditLog    string `json:"auditLog,omitempty"`
}

// Network ranges inside the cluster. They are not routed outside of it, so
// concurrent clusters can share them. A /18 per node has room for more pods
// than a simulated node accepts.
const (
	ServiceCIDR      = "10.96.0.0/16"
	ServiceAddress   = "10.96.0.1" // of the Service "kubernetes": the first of the range
	DNSAddress       = "10.96.0.10"
	SimulatedPodCIDR = "10.128.0.0/9"
	SimulatedMask    = 18

	// The controller manager assigns the first range of RealPodMask bits to the
	// first node; the bridge of the real node has that range.
	RealPodCIDR = "10.244.0.0/16"
	RealPodMask = 24
)

// generated are the names of generated files below Dir. down --purge and a new
// up remove only these, because Dir may be any folder of the user.
var generated = []string{
	"apiserver.kubeconfig", "audit", "bin", "ca.crt", "cluster.json", "cni", "containerd", "controller.kubeconfig", "env", "etcd",
	"gateway-ca.crt", "gateway.kubeconfig", "git", "kubeconfig", "kubeconfigs", "kubectl-cache", "logs", "manifests", "pids", "pki", "registry", "resolv.conf", "samples",
}

// Path returns the path of a file below Dir.
func (c *Cluster) Path(elements ...string) string {
	return filepath.Join(append([]string{c.Dir}, elements...)...)
}

// PKI returns the path of a certificate or key.
func (c *Cluster) PKI(file string) string { return c.Path("pki", file) }

// Binary returns the path of a pinned binary.
func (c *Cluster) Binary(name string) string { return filepath.Join(c.Bin, name) }

// Link links a program into <Dir>/bin, the folder for the user's PATH.
func (c *Cluster) Link(name, target string) error {
	if err := os.MkdirAll(c.Path("bin"), 0o755); err != nil {
		return err
	}
	link := c.Path("bin", name)
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(target, link)
}

// Daemons returns the daemons of the cluster.
func (c *Cluster) Daemons() process.Daemons {
	return process.Daemons{Logs: c.Path("logs"), PIDs: c.Path("pids")}
}

// RegistryAddress returns the host:port of the cluster's OCI registry.
func (c *Cluster) RegistryAddress() string { return Loopback(c.Ports[PortRegistry]) }

// APIServerURL returns the URL of the API server for clients on this machine.
func (c *Cluster) APIServerURL() string {
	return fmt.Sprintf("https://%s:%d", c.Address, c.Ports[PortAPIServer])
}

// KubectlCache returns the folder of kubectl's discovery cache. By default
// kubectl caches by address: a new cluster on the same port would get the kinds
// of the old one.
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

// Load returns the cluster that was started in dir; ok is false if there is
// none.
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
	c.Dir = dir // the folder may have been moved
	return c, true, nil
}

// WriteFile writes a file below Dir and creates its folder.
func (c *Cluster) WriteFile(content []byte, mode os.FileMode, elements ...string) error {
	path := c.Path(elements...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, mode)
}

// RemoveGenerated deletes the generated files below Dir.
func (c *Cluster) RemoveGenerated() error {
	var problems []error
	for _, name := range generated {
		problems = append(problems, os.RemoveAll(c.Path(name)))
	}
	return errors.Join(problems...)
}

// Lock acquires the lock of the cluster in Dir, which commands that change the
// cluster hold.
func (c *Cluster) Lock(ctx context.Context) (unlock func(), err error) {
	return process.Lock(ctx, c.Path("lock"), "another localcluster works in "+c.Dir+": waiting for it")
}

// IsLocked reports whether a command holds the lock of the cluster in Dir.
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
