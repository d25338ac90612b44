package controlplane

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
)

func TestCredentials(t *testing.T) {
	c := &cluster.Cluster{Dir: t.TempDir(), Nodes: cluster.NodesReal, Address: "172.30.7.1", Ports: cluster.DefaultPorts}
	if err := MakeCredentials(c); err != nil {
		t.Fatal(err)
	}
	roots := poolOf(t, c.PKI("ca.crt"))

	server := leafOf(t, c, "kube-apiserver")
	for _, host := range []string{"127.0.0.1", "localhost", "10.96.0.1", "172.30.7.1", "kubernetes.default.svc"} {
		options := x509.VerifyOptions{DNSName: host, Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
		if net.ParseIP(host) != nil {
			options.DNSName = "[" + host + "]"
		}
		if _, err := server.Verify(options); err != nil {
			t.Errorf("kube-apiserver does not serve %s: %v", host, err)
		}
	}
	if life := time.Until(server.NotAfter); life < 360*24*time.Hour || life > 366*24*time.Hour {
		t.Errorf("kube-apiserver certificate is valid for %s", life)
	}

	kubelet := leafOf(t, c, "kubelet")
	if kubelet.Subject.CommonName != "system:node:localnode" || !slices.Equal(kubelet.Subject.Organization, []string{"system:nodes"}) {
		t.Errorf("kubelet is %s", kubelet.Subject)
	}

	// A client of the cluster must not be accepted as the front proxy.
	proxies := poolOf(t, c.PKI("front-proxy-ca.crt"))
	asProxy := x509.VerifyOptions{Roots: proxies, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := leafOf(t, c, "front-proxy-client").Verify(asProxy); err != nil {
		t.Errorf("front-proxy-client is not trusted: %v", err)
	}
	if _, err := leafOf(t, c, cluster.AdminUser).Verify(asProxy); err == nil {
		t.Error("the admin's certificate is accepted as the front proxy's")
	}
}

func TestKeysAreReadableByOwnerOnly(t *testing.T) {
	c := &cluster.Cluster{Dir: t.TempDir(), Nodes: cluster.NodesSimulated, Address: "127.0.0.1", Ports: cluster.DefaultPorts}
	if err := MakeCredentials(c); err != nil {
		t.Fatal(err)
	}
	keys, err := filepath.Glob(c.PKI("*.key"))
	if err != nil || len(keys) == 0 {
		t.Fatalf("%d keys, error %v", len(keys), err)
	}
	for _, path := range append(keys, c.Path("kubeconfig")) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s", filepath.Base(path), info.Mode())
		}
	}
}

func leafOf(t *testing.T, c *cluster.Cluster, name string) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(c.PKI(name+".crt"), c.PKI(name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func poolOf(t *testing.T, path string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatalf("no certificate in %s", path)
	}
	return pool
}
