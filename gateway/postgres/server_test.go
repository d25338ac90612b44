package postgres

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-dev/quoin/gateway/route"
	"github.com/quoin-dev/quoin/internal/serving"
)

// authenticatedHandshakes are the metrics of three clients that have logged in.
const authenticatedHandshakes = `
# HELP quoin_gateway_tls_handshakes_authenticated_total TLS handshakes of connections on which a request has authenticated, or whose client has logged in.
# TYPE quoin_gateway_tls_handshakes_authenticated_total counter
quoin_gateway_tls_handshakes_authenticated_total 3
`

func TestConnectionsAreProxied(t *testing.T) {
	registry := prometheus.NewRegistry()
	f := newServer(t, func(o *Options) { o.Handshakes = serving.NewHandshakes("gateway", registry) })
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
			if got := read(t, client, len(accepted)+6); got != accepted+"pod-a\n" {
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
	if err := testutil.GatherAndCompare(registry, strings.NewReader(authenticatedHandshakes), "quoin_gateway_tls_handshakes_authenticated_total"); err != nil {
		t.Error(err)
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
		_ = read(t, client, len(accepted)+4)
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

// TestConnectionsOfAnAccount: the deployments of an account have half of all connections at most, so that others can connect.
func TestConnectionsOfAnAccount(t *testing.T) {
	f := newServer(t, func(o *Options) {
		o.MaxConnections = 4
		environment := o.Environment
		o.Environment = func(host string) (route.Environment, error) {
			e, err := environment(host)
			if e.Name == "other" {
				e.Account = "globex"
			}
			return e, err
		}
	})
	pod := newPod(t, "pod").Addr()
	connect := func(environment string) *tls.Conn {
		t.Helper()
		f.setPods(environment, pod)
		client, err := f.secure(t, environment+".sql.example.com", false)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = client.Write(hello)
		return client
	}
	for _, environment := range []string{"sales", "finance"} {
		_ = read(t, connect(environment), len(accepted)+4)
	}
	if got := fields(t, connect("marketing")); got['C'] != "53300" {
		t.Errorf("%v", got)
	}
	_ = read(t, connect("other"), len(accepted)+4)
	f.stop()
	if len(f.perDeployment) != 0 || len(f.perAccount) != 0 {
		t.Errorf("connections are still counted: %v, %v", f.perDeployment, f.perAccount)
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
	_ = read(t, client, len(accepted)+4)
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

// TestSessionsByDeployment: connections that have logged in are counted by deployment, and a deployment without one has no
// series.
func TestSessionsByDeployment(t *testing.T) {
	registry := prometheus.NewRegistry()
	f := newServer(t, func(o *Options) { o.Registerer = registry })
	f.setPods("sales", newPod(t, "pod").Addr())
	want := func(n float64) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			got := map[string]float64{}
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, family := range families {
				if family.GetName() != "quoin_gateway_deployment_sql_connections" {
					continue
				}
				for _, metric := range family.GetMetric() {
					got[metric.GetLabel()[0].GetValue()+"/"+metric.GetLabel()[1].GetValue()] = metric.GetGauge().GetValue()
				}
			}
			switch {
			case n == 0 && len(got) == 0, n > 0 && len(got) == 1 && got["acme/sales"] == n:
				return
			case time.Now().After(deadline):
				t.Fatalf("connections %v, want %v", got, n)
			}
		}
	}
	want(0)
	var clients []*tls.Conn
	for n := range 2 {
		client, err := f.secure(t, "sales.sql.example.com", false)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			want(0) // it has not logged in
		}
		_, _ = client.Write(hello)
		_ = read(t, client, len(accepted)+4)
		clients = append(clients, client)
		want(float64(n + 1))
	}
	for i, client := range clients {
		_ = client.Close()
		want(float64(len(clients) - 1 - i))
	}
}
