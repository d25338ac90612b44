package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// withHosts returns certificates of a server with the hosts of tenants.
func (c *cluster) withHosts(t *testing.T, hosts func() ([]string, error)) *Certificates {
	t.Helper()
	certificates, err := FromSecret(t.Context(), SecretOptions{
		Client: c, Namespace: secretKey.Namespace, Names: func() []string { return []string{"own"} }, Hosts: hosts, Clock: c.clock, Log: c.log.Logger(),
	})
	must(t, err)
	return certificates
}

// certificateOf returns the certificate for a server name.
func certificateOf(t *testing.T, c *Certificates, name string) *x509.Certificate {
	t.Helper()
	certificate, err := c.GetCertificate(&tls.ClientHelloInfo{ServerName: name})
	must(t, err)
	return certificate.Leaf
}

// Each host has a certificate of its own, which discloses no other host, signed by the CA of all.
func TestHostsHaveTheirOwnCertificates(t *testing.T) {
	c := newCluster(interceptor.Funcs{})
	certificates := c.withHosts(t, func() ([]string, error) {
		return []string{"*.data.acme.test", "BI.acme.test", "_bad", "192.0.2.1", "*.sql.data.acme.test"}, nil
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificates.CA())
	for name, want := range map[string]string{
		"sales.data.acme.test": "*.data.acme.test", "sales.sql.data.acme.test": "*.sql.data.acme.test",
		"bi.acme.test": "bi.acme.test", "BI.ACME.test.": "bi.acme.test", "own": "own",
		"": "own", "a.b.data.acme.test": "own", "data.acme.test": "own", "_bad": "own", "other.test": "own",
	} {
		leaf := certificateOf(t, certificates, name)
		if !slices.Equal(leaf.DNSNames, []string{want}) {
			t.Errorf("%q: certificate for %q, want %q", name, leaf.DNSNames, want)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: c.clock.Now()}); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if leaf := current(t, c.withHosts(t, func() ([]string, error) { return nil, errors.New("no cache") })); !slices.Equal(leaf.DNSNames, []string{"own"}) {
		t.Errorf("without hosts: certificate for %q", leaf.DNSNames)
	}
}

// Certificates of hosts are kept while they are valid, and renewed after two thirds of their lifetime
// or with the CA. A host that is removed gets no certificate any more.
func TestCertificatesOfHostsAreRenewed(t *testing.T) {
	c := newCluster(interceptor.Funcs{})
	hosts, failure := []string{"a.test"}, error(nil)
	certificates := c.withHosts(t, func() ([]string, error) { return hosts, failure })
	written := c.secret(t).ResourceVersion
	first := certificateOf(t, certificates, "a.test")
	hosts = []string{"a.test", "b.test"}
	must(t, certificates.Refresh(t.Context()))
	if !certificateOf(t, certificates, "a.test").Equal(first) || certificateOf(t, certificates, "b.test").DNSNames[0] != "b.test" {
		t.Error("a new host changes the certificate of another one, or has none")
	}
	if c.secret(t).ResourceVersion != written {
		t.Error("the Secret was written for a host")
	}
	failure = errors.New("no cache")
	if err := certificates.Refresh(t.Context()); err == nil || certificateOf(t, certificates, "b.test").DNSNames[0] != "b.test" {
		t.Errorf("error %v; the hosts are not kept", err)
	}
	failure, hosts = nil, []string{"b.test"}
	must(t, certificates.Refresh(t.Context()))
	if names := certificateOf(t, certificates, "a.test").DNSNames; names[0] != "own" {
		t.Errorf("a removed host has the certificate %q", names)
	}
	second := certificateOf(t, certificates, "b.test")
	c.clock.SetTime(c.clock.Now().Add(61 * 24 * time.Hour))
	renewed := certificateOf(t, certificates, "b.test")
	if renewed.Equal(second) {
		t.Error("not renewed")
	}
	must(t, c.Delete(t.Context(), c.secret(t)))
	must(t, certificates.Refresh(t.Context()))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificates.CA())
	if _, err := certificateOf(t, certificates, "b.test").Verify(x509.VerifyOptions{Roots: roots, CurrentTime: c.clock.Now()}); err != nil {
		t.Errorf("after a change of the CA: %v", err)
	}
}

// One tenant with thousands of hosts, whose names sort before all others, takes the certificate of no
// other tenant.
func TestHostsOfOneTenantDoNotDisplaceOthers(t *testing.T) {
	c := newCluster(interceptor.Funcs{})
	var hosts []string
	for i := range 20 * maxNames {
		hosts = append(hosts, fmt.Sprintf("a%05d.attacker.test", i))
	}
	hosts = append(hosts, "z.victim.test")
	certificates := c.withHosts(t, func() ([]string, error) { return hosts, nil })
	for _, host := range []string{hosts[0], hosts[len(hosts)-2], "z.victim.test"} {
		if names := certificateOf(t, certificates, host).DNSNames; !slices.Equal(names, []string{host}) {
			t.Errorf("%s gets the certificate of %q", host, names)
		}
	}
}

// A server that may not create Secrets waits until the controller has created its own, empty; the
// controller overwrites none.
func TestServerWaitsForItsSecret(t *testing.T) {
	refused := 0
	c := newCluster(interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		refused++
		return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, SecretName, errors.New("no"))
	}}, "a")
	ended, stop := context.WithCancel(t.Context())
	stop()
	if _, err := c.open(ended); !errors.Is(err, errMissing) || refused != 1 {
		t.Fatalf("error %v after %d attempts to create the Secret", err, refused)
	}
	controller := newCluster(interceptor.Funcs{})
	empty := &EmptySecrets{Reader: controller, Writer: controller, Namespace: secretKey.Namespace}
	must(t, empty.Once(t.Context()))
	certificate := current(t, controller.mustOpen(t))
	must(t, empty.Once(t.Context()))
	if !current(t, controller.mustOpen(t)).Equal(certificate) {
		t.Error("the controller has overwritten the certificate")
	}
}
