package servers

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
)

// InstalledREST returns a client of the API server that runs in the cluster behind its Service, which both replicas stand
// for. It creates an API key as StartREST does.
func InstalledREST(ctx context.Context, c *cluster.Cluster, account, host string) *REST {
	GinkgoHelper()
	address := serviceAddress(ctx, c, "quoin-apiserver")
	f := &REST{Host: host, CAFile: filepath.Join(c.Dir, "installed-apiserver-ca.crt"), addresses: [2]string{address, address}}
	f.connect(ctx, c, account)
	return f
}

// InstalledGateways returns clients of the gateways that run in the cluster behind their Service, which both replicas stand
// for.
func InstalledGateways(ctx context.Context, c *cluster.Cluster) *Gateways {
	GinkgoHelper()
	address := serviceAddress(ctx, c, "quoin-gateway")
	a := &Gateways{roots: x509.NewCertPool(), CAFile: filepath.Join(c.Dir, "installed-gateway-ca.crt"), addresses: [2]string{address, address}}
	a.trust(ctx, c)
	return a
}

// ForwardInstalled forwards connections from the reserved ports of this machine to the API server and the gateways that run
// in the cluster, until the end of the journey: the URLs of accounts have these ports.
func ForwardInstalled(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	for port, service := range map[int]string{c.RESTPort(): "quoin-apiserver", c.GatewayPort(): "quoin-gateway"} {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(listener.Close)
		go forward(listener, serviceAddress(ctx, c, service))
	}
}

// forward forwards the connections of a listener to an address.
func forward(listener net.Listener, address string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer client.Close()
			server, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			defer server.Close()
			ended := make(chan struct{}, 2)
			for _, way := range [][2]net.Conn{{server, client}, {client, server}} {
				go func() {
					_, _ = io.Copy(way[0], way[1])
					ended <- struct{}{}
				}()
			}
			<-ended
		}()
	}
}

// serviceAddress returns the address for HTTPS of a Service. This machine is the node, and reaches it as pods do.
func serviceAddress(ctx context.Context, c *cluster.Cluster, name string) string {
	GinkgoHelper()
	service := &corev1.Service{}
	Expect(c.API.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: name}, service)).To(Succeed())
	return net.JoinHostPort(service.Spec.ClusterIP, "443")
}
