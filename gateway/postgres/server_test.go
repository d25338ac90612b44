package postgres

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
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
)

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
	_, _ = io.WriteString(conn, p.name+"\n")
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
			return route.Environment{Namespace: "acme", Name: name, Deployment: name}, nil
		},
		Pools: f.pools, MaxPerDeployment: 2, MaxConnections: 10, DrainTimeout: 300 * time.Millisecond, Registerer: prometheus.NewRegistry(),
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

func TestConnectionsAreProxied(t *testing.T) {
	f := newServer(t, nil)
	pod := newPod(t, "pod-a")
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = dead.Close()
	f.setPods("sales", dead.Addr(), pod.Addr())
	for name, tc := range map[string]struct {
		direct bool
		before []byte
	}{
		"SSLRequest":    {},
		"direct TLS":    {direct: true},
		"GSSENCRequest": {before: startup(codeGSS)},
	} {
		t.Run(name, func(t *testing.T) {
			conn := f.plain(t)
			if tc.before != nil {
				_, _ = conn.Write(tc.before)
				if got := read(t, conn, 1); got != "N" {
					t.Fatalf("GSS: %q", got)
				}
			}
			if !tc.direct {
				_, _ = conn.Write(startup(codeSSL))
				_ = read(t, conn, 1)
			}
			client := tls.Client(conn, &tls.Config{RootCAs: f.roots, ServerName: "sales.sql.example.com", NextProtos: []string{alpnProtocol}})
			if _, err := client.Write(hello); err != nil {
				t.Fatal(err)
			}
			if got := read(t, client, 6); got != "pod-a\n" {
				t.Fatalf("%q", got)
			}
			large := strings.Repeat("0123456789", 100_000)
			go func() {
				_, _ = io.WriteString(client, large)
				_ = client.CloseWrite() // the pod continues to respond
			}()
			if got := read(t, client, len(large)+3); got != large+"end" {
				t.Error("the echoed data differs")
			}
			if n, err := client.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("after EOF: %d, %v", n, err)
			}
		})
	}
	pod.mu.Lock()
	defer pod.mu.Unlock()
	for _, start := range pod.starts {
		if !bytes.Equal(start, hello) {
			t.Errorf("the pod received %q", start)
		}
	}
}

// fields reads an ErrorResponse.
func fields(t *testing.T, r io.Reader) map[byte]string {
	t.Helper()
	if kind := read(t, r, 1); kind != "E" {
		t.Fatalf("message %q", kind)
	}
	body := read(t, r, int(binary.BigEndian.Uint32([]byte(read(t, r, 4))))-4)
	out := map[byte]string{}
	for field := range strings.SplitSeq(strings.TrimRight(body, "\x00"), "\x00") {
		out[field[0]] = field[1:]
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the connection is not closed: %d, %v", n, err)
	}
	return out
}

func TestConnectionsWithoutTLSAreRejected(t *testing.T) {
	f := newServer(t, nil)
	conn := f.plain(t)
	_, _ = conn.Write(hello)
	if got := fields(t, conn); got['C'] != "28000" || !strings.Contains(got['M'], "TLS is required") {
		t.Errorf("%v", got)
	}
}

func TestConnectionsWithoutAPodAreRejected(t *testing.T) {
	f := newServer(t, nil)
	for name, tc := range map[string]struct{ host, state, message string }{
		"no SNI":       {"", "3D000", "no deployment is served on this host"},
		"unknown host": {"sales.example.com", "3D000", "no deployment is served on this host"},
		"no pod":       {"empty.sql.example.com", "57P03", "no pod of the environment is ready"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := f.plain(t)
			_, _ = conn.Write(startup(codeSSL))
			_ = read(t, conn, 1)
			client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: tc.host})
			_, _ = client.Write(hello)
			if got := fields(t, client); got['C'] != tc.state || got['M'] != tc.message || got['S'] != "FATAL" {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestConnectionsOverTheLimitAreRejected(t *testing.T) {
	f := newServer(t, nil)
	f.setPods("sales", newPod(t, "pod").Addr())
	for range 2 {
		client, err := f.secure(t, "sales.sql.example.com", false)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = client.Write(hello)
		_ = read(t, client, 4)
	}
	client, err := f.secure(t, "sales.sql.example.com", false)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = client.Write(hello)
	if got := fields(t, client); got['C'] != "53300" {
		t.Errorf("%v", got)
	}
}

func TestDirectTLSRequiresALPN(t *testing.T) {
	f := newServer(t, nil)
	f.setPods("sales", newPod(t, "pod").Addr())
	client, err := f.secure(t, "sales.sql.example.com", true)
	if err == nil {
		_, err = client.Read(make([]byte, 1))
	}
	if err == nil {
		t.Error("accepted without ALPN")
	}
}

// Data in plain text after the SSLRequest must not be treated as sent over TLS.
func TestInjectedPlainTextIsRejected(t *testing.T) {
	f := newServer(t, nil)
	f.setPods("sales", newPod(t, "pod").Addr())
	conn := f.plain(t)
	_, _ = conn.Write(append(startup(codeSSL), hello...))
	_ = read(t, conn, 1)
	client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: "sales.sql.example.com"})
	if err := client.Handshake(); err == nil {
		t.Error("accepted")
	}
}

func TestCancelRequestsReachAllPods(t *testing.T) {
	f := newServer(t, nil)
	a, b, other := newPod(t, "a"), newPod(t, "b"), newPod(t, "other")
	f.setPods("sales", a.Addr(), b.Addr())
	f.setPods("other", other.Addr())
	request := startup(codeCancel, 0, 0, 0, 1, 0, 0, 0, 2)
	client, err := f.secure(t, "sales.sql.example.com", false, alpnProtocol)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = client.Write(request)
	if n, err := client.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Error("cancel request was answered")
	}
	for _, pod := range []*fakePod{a, b} {
		pod.mu.Lock()
		if len(pod.cancels) != 1 || !bytes.Equal(pod.cancels[0], request) {
			t.Errorf("%s received %x", pod.name, pod.cancels)
		}
		pod.mu.Unlock()
	}
	plain := f.plain(t)
	_, _ = plain.Write(request)
	if n, err := plain.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Error("cancel request without TLS was answered")
	}
	other.mu.Lock()
	defer other.mu.Unlock()
	if len(other.cancels) > 0 {
		t.Error("another deployment received the cancel request")
	}
}

func TestRunDrains(t *testing.T) {
	f := newServer(t, nil)
	f.setPods("sales", newPod(t, "pod").Addr())
	client, err := f.secure(t, "sales.sql.example.com", false)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = client.Write(hello)
	_ = read(t, client, 4)
	start := time.Now()
	ended := make(chan struct{})
	go func() { f.stop(); close(ended) }()
	time.Sleep(100 * time.Millisecond)
	if _, err := fmt.Fprint(client, "still"); err != nil {
		t.Error(err)
	}
	_ = read(t, client, 5)
	if conn, err := net.Dial("tcp", f.address); err == nil {
		_ = conn.Close()
		t.Error("still listening")
	}
	<-ended
	if took := time.Since(start); took < 300*time.Millisecond || took > 2*time.Second {
		t.Errorf("drained in %s", took)
	}
}
