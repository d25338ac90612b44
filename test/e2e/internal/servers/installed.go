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

// InstalledReplicas is like InstalledREST, for an API server with two pods.
func InstalledReplicas(ctx context.Context, c *cluster.Cluster, account, host string) *REST {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(c.API.List(ctx, pods, client.InNamespace(cluster.Namespace), client.MatchingLabels{"app.kubernetes.io/component": "apiserver"})).To(Succeed())
	f := &REST{Host: host, CAFile: filepath.Join(c.Dir, "installed-apiserver-ca.crt")}
	Expect(pods.Items).To(HaveLen(len(f.Replicas)))
	replicas := map[int]*pod{}
	for i := range pods.Items {
		replicas[i] = newPod(c, &pods.Items[i])
		f.Replicas[i], f.addresses[i] = replicas[i], replicas[i].address
	}
	f.start = func(ctx context.Context, replica int) {
		GinkgoHelper()
		replicas[replica].awaitRestart(ctx)
	}
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
		go forward(listener, "tcp", serviceAddress(ctx, c, service))
	}
}

// ForwardSocket forwards connections from an address, which pods can reach and which it returns, to a Unix socket of this machine
// until the end of the journey.
func ForwardSocket(c *cluster.Cluster, socket string) (address string) {
	GinkgoHelper()
	listener, err := net.Listen("tcp", net.JoinHostPort(c.Address(), "0"))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	go forward(listener, "unix", socket)
	return listener.Addr().String()
}

// forward forwards the connections of a listener to an address.
func forward(listener net.Listener, network, address string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer client.Close()
			server, err := net.Dial(network, address)
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
