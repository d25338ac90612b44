package servers

import (
	"context"
	"crypto/x509"
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

// serviceAddress returns the address for HTTPS of a Service. This machine is the node, and reaches it as pods do.
func serviceAddress(ctx context.Context, c *cluster.Cluster, name string) string {
	GinkgoHelper()
	service := &corev1.Service{}
	Expect(c.API.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: name}, service)).To(Succeed())
	return net.JoinHostPort(service.Spec.ClusterIP, "443")
}
