package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/quoin-dev/quoin/test/e2e/internal/command"
)

// BuildHelm builds the pinned Helm, unless it exists.
func (c *Cluster) BuildHelm(ctx context.Context) error {
	if _, err := os.Stat(Repository("bin", "helm")); err == nil {
		return nil
	}
	_, err := command.Output(exec.CommandContext(ctx, Repository("hack", "tools", "helm", "build.sh"), Repository("bin", "helm")))
	return err
}

// Helm runs Helm as an administrator in Quoin's namespace and returns its output.
func (c *Cluster) Helm(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, Repository("bin", "helm"), append(args, "--namespace", Namespace)...)
	home := filepath.Join(c.Dir, "helm")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Env["KUBECONFIG"], "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	return command.Output(cmd)
}

// MustHelm runs Helm and fails the test on errors.
func (c *Cluster) MustHelm(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := c.Helm(ctx, args...)
	Expect(err).NotTo(HaveOccurred())
	return out
}

// registryHosts makes containerd pull images with the address of the proxy from the registry itself.
const registryHosts = `server = "http://%[1]s"
[host."http://%[1]s"]
  capabilities = ["pull", "resolve"]
`

// ProxyRegistry serves the registry, which listens on loopback, on the address of a real node until the end of the journey,
// for controllers in pods. It returns the address of the proxy.
func (c *Cluster) ProxyRegistry() string {
	GinkgoHelper()
	registry := c.Env["QUOIN_REGISTRY"]
	listener, err := net.Listen("tcp", net.JoinHostPort(c.Address(), "0"))
	Expect(err).NotTo(HaveOccurred())
	address := listener.Addr().String()
	server := &http.Server{
		Handler:           httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: registry}),
		ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = server.Serve(listener) }() // until it is closed
	DeferCleanup(server.Close)
	folder := filepath.Join(c.Dir, "cluster", "containerd", "certs.d", address)
	Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(folder, "hosts.toml"), fmt.Appendf(nil, registryHosts, registry), 0o644)).To(Succeed())
	return address
}
