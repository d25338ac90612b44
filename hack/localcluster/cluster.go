package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Which nodes a cluster has, and so which binaries it needs.
const (
	nodesNone      = "none"      // API server, etcd and kubectl only: enough for envtest
	nodesSimulated = "simulated" // KWOK plays the kubelets
	nodesReal      = "real"      // containerd and kubelet on this machine
)

// cluster is one local cluster: everything that belongs to it lies below Dir.
// It is stored as <Dir>/cluster.json so that later commands find it again.
type cluster struct {
	Dir            string           `json:"dir"`
	Nodes          string           `json:"nodes"`
	SimulatedNodes int              `json:"simulatedNodes,omitempty"`
	Address        string           `json:"address"` // where the API server listens
	Bin            string           `json:"bin"`     // folder of the pinned binaries
	Ports          map[portName]int `json:"ports"`
	// Dataplane: push takes the real server, because the samples run it.
	Dataplane bool `json:"dataplane,omitempty"`
}

// Network ranges inside the cluster. Nothing outside of it routes to them, so
// that clusters side by side may share them. A /18 for each node has room for
// more pods than a simulated node takes.
const (
	serviceCIDR      = "10.96.0.0/16"
	serviceAddress   = "10.96.0.1" // of the Service "kubernetes": the first of the range
	simulatedPodCIDR = "10.128.0.0/9"
	simulatedMask    = 18

	// One node's worth of pods: the controllers give the first node the first
	// range of realPodMask bits, which the bridge of the real node serves.
	realPodCIDR = "10.244.0.0/16"
	realPodMask = 24
)

// generated are the names below Dir that a cluster makes. down --purge and a
// new up remove these and nothing else: Dir may be any folder of the user.
var generated = []string{
	"apiserver.kubeconfig", "audit", "bin", "ca.crt", "cluster.json", "cni", "containerd", "controller.kubeconfig", "env", "etcd",
	"gateway-ca.crt", "gateway.kubeconfig", "git", "kubeconfig", "kubeconfigs", "kubectl-cache", "logs", "manifests", "pids", "pki", "registry", "resolv.conf", "samples",
}

func (c *cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.Dir}, elements...)...)
}

func (c *cluster) pki(file string) string { return c.path("pki", file) }

func (c *cluster) binary(name string) string { return filepath.Join(c.Bin, name) }

func (c *cluster) processes() processes {
	return processes{logs: c.path("logs"), pids: c.path("pids")}
}

// registryAddress is host:port of the cluster's OCI registry.
func (c *cluster) registryAddress() string { return loopback(c.Ports[portRegistry]) }

// apiServerURL is where clients on this machine reach the API server.
func (c *cluster) apiServerURL() string {
	return fmt.Sprintf("https://%s:%d", c.Address, c.Ports[portAPIServer])
}

// kubectlCache holds what kubectl remembers of the API server. Its own default
// is one folder for each address: a new cluster on the same port would be taken
// for the old one, with the old one's kinds.
func (c *cluster) kubectlCache() string { return c.path("kubectl-cache") }

// kubectl runs the pinned kubectl as cluster admin and returns its output.
func (c *cluster) kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.binary("kubectl"), append([]string{"--kubeconfig", c.path("kubeconfig")}, args...)...)
	cmd.Env = append(cleanEnvironment(os.Environ()), "KUBECACHEDIR="+c.kubectlCache())
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// save stores c for later commands.
func (c *cluster) save() error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return c.writeFile(append(text, '\n'), 0o644, "cluster.json")
}

// loadCluster returns the cluster that was started in dir; ok is false when
// there is none.
func loadCluster(dir string) (c *cluster, ok bool, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, false, err
	}
	c = &cluster{Dir: dir}
	text, err := os.ReadFile(c.path("cluster.json"))
	if errors.Is(err, os.ErrNotExist) {
		return c, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, false, fmt.Errorf("read %s: %w", c.path("cluster.json"), err)
	}
	c.Dir = dir // the folder may have been moved since
	return c, true, nil
}

// writeFile writes a file below Dir and makes its folder.
func (c *cluster) writeFile(content []byte, mode os.FileMode, elements ...string) error {
	path := c.path(elements...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, mode)
}

// removeGenerated deletes what a cluster has made below Dir.
func (c *cluster) removeGenerated() error {
	var problems []error
	for _, name := range generated {
		problems = append(problems, os.RemoveAll(c.path(name)))
	}
	return errors.Join(problems...)
}

// lock makes sure that one command at a time changes the cluster in Dir.
func (c *cluster) lock(ctx context.Context) (unlock func(), err error) {
	return acquireLock(ctx, c.path("lock"), "another localcluster works in "+c.Dir+": waiting for it")
}

// isLocked reports whether a command changes the cluster in Dir now.
func (c *cluster) isLocked() bool {
	if _, err := os.Stat(c.path("lock")); err != nil {
		return false
	}
	unlock, err := tryLock(c.path("lock"))
	if err != nil {
		return errors.Is(err, errLocked)
	}
	unlock()
	return false
}

// nodeName is the name of the real node.
const nodeName = "localnode"
