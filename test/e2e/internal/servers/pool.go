package servers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
)

// leadsToTerminating is how long a Service leads to a pod that is terminating: nodes learn that late.
const leadsToTerminating = time.Second

// Pool is replicas of a server of Quoin, which clients reach as they reach pods behind a Service: a new connection is to
// any of them.
type Pool struct {
	cluster *cluster.Cluster
	command string
	flags   []string

	mu       sync.Mutex
	replicas []replica
	next     int
}

type replica struct {
	address string
	process *cluster.Process
}

// StartPool starts two replicas of a subcommand of bin/quoin with its ServiceAccount. Their shutdown takes as long as that
// of pods.
func StartPool(ctx context.Context, c *cluster.Cluster, command string, flags ...string) *Pool {
	GinkgoHelper()
	kubeconfig := filepath.Join(c.Dir, command+".kubeconfig")
	token := strings.TrimSpace(c.MustKubectl(ctx, "create", "token", "quoin-"+command, "--namespace", cluster.Namespace, "--duration=2h"))
	Expect(c.WriteKubeconfig(kubeconfig, token)).To(Succeed())
	p := &Pool{cluster: c, command: command, flags: append([]string{"--kubeconfig=" + kubeconfig, "--namespace=" + cluster.Namespace}, flags...)}
	DeferCleanup(p.stop)
	p.add(ctx)
	p.add(ctx)
	return p
}

// add starts a replica. It gets connections when it is ready.
func (p *Pool) add(ctx context.Context) {
	GinkgoHelper()
	r := replica{address: cluster.FreeAddress()}
	r.process = p.cluster.Run(ctx, p.command, append([]string{"--bind-address=" + r.address}, p.flags...)...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replicas = append(p.replicas, r)
}

// Replace replaces the replicas one by one, as a Deployment does with maxUnavailable 0: a new one is ready before an old one
// gets SIGTERM.
func (p *Pool) Replace(ctx context.Context) {
	GinkgoHelper()
	for _, old := range p.all() {
		p.add(ctx)
		forget := time.AfterFunc(leadsToTerminating, func() { p.remove(old) })
		old.process.Stop()
		forget.Stop()
		p.remove(old)
	}
}

func (p *Pool) all() []replica {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.replicas)
}

func (p *Pool) remove(old replica) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replicas = slices.DeleteFunc(p.replicas, func(r replica) bool { return r.address == old.address })
}

func (p *Pool) stop() {
	for _, r := range p.all() {
		r.process.Kill()
	}
}

// address returns the address of a replica, each in its turn.
func (p *Pool) address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	return p.replicas[p.next%len(p.replicas)].address
}

// Client returns a client that keeps its connections, whatever the host of the URL. It trusts the CA of a Secret in Quoin's
// namespace.
func (p *Pool) Client(ctx context.Context, secret string) *http.Client {
	GinkgoHelper()
	certificate := &corev1.Secret{}
	Expect(p.cluster.API.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: secret}, certificate)).To(Succeed())
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(certificate.Data["ca.crt"])).To(BeTrue())
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, p.address())
		},
	}}
}

// REST returns a client of the current replicas, which are servers of the REST API. It creates an API key as StartREST does.
func (p *Pool) REST(ctx context.Context, account, host string) *REST {
	GinkgoHelper()
	replicas := p.all()
	Expect(replicas).To(HaveLen(2))
	f := &REST{Host: host, CAFile: filepath.Join(p.cluster.Dir, fmt.Sprintf("pool-%s-ca.crt", p.command))}
	f.addresses = [2]string{replicas[0].address, replicas[1].address}
	f.connect(ctx, p.cluster, account)
	return f
}
