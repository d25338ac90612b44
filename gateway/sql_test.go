package gateway_test

import (
	"encoding/binary"
	"encoding/pem"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/quoin-dev/quoin/internal/apitest"
)

// newSQLPod starts a server with a part of the PostgreSQL protocol. It answers every query with its
// own name and the query.
func (f *fixture) newSQLPod(name string) net.Addr {
	f.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(apitest.PodIP(f), "0"))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); answerSQL(conn, name) }()
		}
	}()
	return l.Addr()
}

func message(kind byte, parts ...string) []byte {
	body := strings.Join(parts, "")
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...)
}

func answerSQL(conn net.Conn, name string) {
	length := make([]byte, 4)
	if _, err := io.ReadFull(conn, length); err != nil {
		return
	}
	if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(length))-4); err != nil {
		return
	}
	const number = "\x00\x00\x00\x01"
	ready := message('Z', "I")
	_, _ = conn.Write(append(append(message('R', "\x00\x00\x00\x00"), message('K', number, number)...), ready...))
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(conn, head); err != nil || head[0] == 'X' {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		value := name + ": " + strings.TrimRight(string(body), "\x00")
		size := string(binary.BigEndian.AppendUint32(nil, uint32(len(value))))
		out := message('T', "\x00\x01", "answer\x00", "\x00\x00\x00\x00", "\x00\x00", "\x00\x00\x00\x19", "\xff\xff", "\xff\xff\xff\xff", "\x00\x00")
		out = append(out, message('D', "\x00\x01", size, value)...)
		out = append(out, message('C', "SELECT 1\x00")...)
		_, _ = conn.Write(append(out, ready...))
	}
}

// TestSQL: psql, with sslmode=verify-full, connects to the deployment of the host.
func TestSQL(t *testing.T) {
	psql, err := exec.LookPath("psql")
	if err != nil {
		t.Skip("SKIPPED: psql is not installed")
	}
	f := newFixture(t, nil)
	for _, name := range []string{"sales", "other"} {
		f.createDeployment(name, nil)
		f.addEndpoint(name+"-production", f.newSQLPod(name).String())
		f.waitForRoute(name, "/cubejs-api")
	}
	secret := &corev1.Secret{}
	f.get("quoin-gateway-tls", secret)
	if block, _ := pem.Decode(secret.Data["ca.crt"]); block == nil {
		t.Fatal("no CA")
	}
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, secret.Data["ca.crt"], 0o600); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(f.addresses.SQL.String())
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		host, mode, want string
		fails            bool
	}{
		"a deployment":       {"sales.sql." + f.domain, "verify-full", "sales: SELECT 1", false},
		"another one":        {"other.sql." + f.domain, "verify-full", "other: SELECT 1", false},
		"unknown":            {"nobody.sql." + f.domain, "verify-full", "no deployment is served on this host", true},
		"without TLS":        {"sales.sql." + f.domain, "disable", "TLS is required", true},
		"with TLS preferred": {"sales.sql." + f.domain, "prefer", "sales: SELECT 1", false},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), psql, "-X", "-A", "-t", "-c", "SELECT 1",
				"host="+tc.host+" hostaddr=127.0.0.1 port="+port+" user=cube dbname=db connect_timeout=10 sslmode="+tc.mode+" sslrootcert="+ca).CombinedOutput()
			if (err != nil) != tc.fails || !strings.Contains(string(out), tc.want) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
