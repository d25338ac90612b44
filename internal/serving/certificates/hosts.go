package certificates

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// hostCertificates issues a certificate for each host when a client first connects to it, and keeps
// it in memory. All are signed by the CA of the Secret, so clients trust those of all replicas. No
// host depends on the others: there is no limit that the hosts of one tenant could exhaust, and no
// certificate discloses the hosts of other tenants.
type hostCertificates struct {
	server  string
	clock   clock.PassiveClock
	current atomic.Pointer[hostSet]
}

// hostSet is the set of hosts that have a certificate. Only their certificates change.
type hostSet struct {
	ca    *authority
	hosts map[string]*hostCertificate
}

// hostCertificate is the certificate of a host; nil until it is needed.
type hostCertificate struct {
	mu     sync.Mutex
	issued *tls.Certificate
}

// update sets the CA and the hosts. Certificates of the same CA are kept.
func (h *hostCertificates) update(ca *authority, hosts []string) {
	before := h.current.Load()
	next := &hostSet{ca: ca, hosts: make(map[string]*hostCertificate, len(hosts))}
	reuse := before != nil && before.ca.certificate.Equal(ca.certificate)
	for _, host := range hosts {
		host = canonicalName(host)
		if !isValidName(host) || net.ParseIP(host) != nil {
			continue // clients that connect to an address send no server name
		}
		if reuse && before.hosts[host] != nil {
			next.hosts[host] = before.hosts[host]
			continue
		}
		next.hosts[host] = &hostCertificate{}
	}
	h.current.Store(next)
}

// certificate returns the certificate for a server name, or nil if it is not that of a host. A
// host "*.example.com" matches names with one more label.
func (h *hostCertificates) certificate(serverName string) (*tls.Certificate, error) {
	set := h.current.Load()
	if set == nil || serverName == "" {
		return nil, nil
	}
	name := canonicalName(serverName)
	host := set.hosts[name]
	if host == nil {
		_, parent, _ := strings.Cut(name, ".")
		name = "*." + parent
		host = set.hosts[name]
	}
	if host == nil {
		return nil, nil
	}
	host.mu.Lock()
	defer host.mu.Unlock()
	now := h.clock.Now()
	if host.issued != nil && !now.After(renewAt(host.issued.Leaf)) {
		return host.issued, nil
	}
	issued, err := h.issue(set.ca, name, now)
	if err != nil {
		return nil, err
	}
	host.issued = issued
	return issued, nil
}

func (h *hostCertificates) issue(ca *authority, name string, now time.Time) (*tls.Certificate, error) {
	certificate, key, err := ca.issue(h.server, []string{name}, now)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate: %w", err)
	}
	return &pair, nil
}
