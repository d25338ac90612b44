package postgres

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/gateway/route"
	"github.com/quoin-dev/quoin/gateway/upstream"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/serving/pending"
)

// accepted is the message AuthenticationOk.
const accepted = "R\x00\x00\x00\x08\x00\x00\x00\x00"

// fakePod implements a part of the protocol: it accepts every start-up packet and echoes data.
type fakePod struct {
	net.Listener
	name string

	mu      sync.Mutex
	cancels [][]byte
	starts  [][]byte
}

func newPod(t *testing.T, name string) *fakePod {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &fakePod{Listener: l, name: name}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
	return p
}

func (p *fakePod) serve(conn net.Conn) {
	defer conn.Close()
	first, err := readPacket(conn, nil)
	if err != nil {
		return
	}
	p.mu.Lock()
	if first.code == codeCancel {
		p.cancels = append(p.cancels, first.raw)
		p.mu.Unlock()
		return
	}
	p.starts = append(p.starts, first.raw)
	p.mu.Unlock()
	_, _ = io.WriteString(conn, accepted+p.name+"\n")
	_, _ = io.Copy(conn, conn)
	_, _ = io.WriteString(conn, "end")
}

type fixture struct {
	*Server
	address string
	pools   *upstream.Pools
	roots   *x509.CertPool
	stop    func()
}

func newServer(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"*.sql.example.com"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{roots: x509.NewCertPool()}
	f.roots.AddCert(certificate)
	f.pools = upstream.NewPools(upstream.Limits{Wait: 300 * time.Millisecond, MaxWaiting: 10}, upstream.NewMetrics(prometheus.NewRegistry()))
	o := Options{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
		},
		Environment: func(host string) (route.Environment, error) {
			name, ok := strings.CutSuffix(host, ".sql.example.com")
			if !ok {
				return route.Environment{}, route.ErrHost
			}
			return route.Environment{Account: "acme", Namespace: "acme", Name: name, Deployment: name}, nil
		},
		Pending:     pending.NewSet(pending.Limits{Total: 5, PerAddress: 3, PerDeployment: 5}, pending.NewMetrics("gateway", prometheus.NewRegistry()), pending.KindSQLConnection),
		PeerNetwork: func(peer net.Addr) netip.Prefix { return serving.PeerNetwork(peer, nil) },
		Pools:       f.pools, MaxPerDeployment: 2, MaxConnections: 10, DrainTimeout: 300 * time.Millisecond, Registerer: prometheus.NewRegistry(),
	}
	if change != nil {
		change(&o)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.Server, f.address = New(o), l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); f.Run(ctx, l) }()
	f.stop = func() { cancel(); <-ended }
	t.Cleanup(f.stop)
	return f
}

// setPods sets the pods of an environment.
func (f *fixture) setPods(environment string, pods ...net.Addr) {
	var all []*discoveryv1.EndpointSlice
	for _, pod := range pods {
		address := pod.(*net.TCPAddr)
		all = append(all, &discoveryv1.EndpointSlice{
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address.IP.String()}}},
			Ports:     []discoveryv1.EndpointPort{{Name: ptr.To("sql"), Port: ptr.To(int32(address.Port))}},
		})
	}
	f.pools.Set(types.NamespacedName{Namespace: "acme", Name: engine.APIName(environment)}, all)
}

// plain opens a connection without TLS.
func (f *fixture) plain(t *testing.T) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn.(*net.TCPConn)
}

// secure opens a connection with TLS, after an SSLRequest unless direct.
func (f *fixture) secure(t *testing.T, host string, direct bool, protocols ...string) (*tls.Conn, error) {
	t.Helper()
	conn := f.plain(t)
	if !direct {
		if _, err := conn.Write(startup(codeSSL)); err != nil {
			t.Fatal(err)
		}
		if got := read(t, conn, 1); got != "S" {
			t.Fatalf("response to SSLRequest: %q", got)
		}
	}
	config := &tls.Config{RootCAs: f.roots, ServerName: host, NextProtos: protocols}
	if host == "" {
		config.InsecureSkipVerify = true
	}
	client := tls.Client(conn, config)
	return client, client.Handshake()
}

func read(t *testing.T, r io.Reader, n int) string {
	t.Helper()
	got := make([]byte, n)
	if n, err := io.ReadFull(r, got); err != nil {
		t.Fatalf("%q, %v", got[:n], err)
	}
	return string(got)
}

var hello = startup(196608, []byte("user\x00cube\x00\x00")...)
