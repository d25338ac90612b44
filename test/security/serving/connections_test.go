package serving_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// connect opens a connection from 127.0.0.<from>, with a TLS handshake unless plain is set.
func connect(t *testing.T, from byte, plain bool) net.Conn {
	t.Helper()
	conn, err := dialer(from).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if plain {
		return conn
	}
	secure := tls.Client(conn, &tls.Config{RootCAs: roots, ServerName: victim, MinVersion: tls.VersionTLS12})
	if err := secure.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return secure
}

// TestIdleConnectionsOfOneClient: a client without credential opens connections from one address and keeps them: some
// without a TLS handshake, some without a request, some after a request with a made-up credential. Each costs the server
// memory and a file descriptor. At most 100 are open; those of other clients, with a request or between two, stay open.
func TestIdleConnectionsOfOneClient(t *testing.T) {
	const perAddress, opened = 100, 240
	idle(t)
	user := connect(t, 1, false) // of a customer, which stays open
	request := "GET /api/v1/deployments HTTP/1.1\r\nHost: " + victim + "\r\nAuthorization: Bearer %s\r\n\r\n"
	status := func(conn net.Conn, key string) int {
		t.Helper()
		if _, err := fmt.Fprintf(conn, request, key); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
	if got := status(user, keys["victim-1"]); got != http.StatusOK {
		t.Fatalf("the customer: %d", got)
	}
	before, endedBefore := gauge(t, "quoin_apiserver_unauthenticated"), gauge(t, "quoin_apiserver_unauthenticated_ended_total")
	for i := range opened {
		conn := connect(t, 9, i%3 == 0)
		if i%3 == 1 {
			if got := status(conn, "made-up"); got != http.StatusUnauthorized {
				t.Fatalf("a made-up credential: %d", got)
			}
		}
	}
	apiclient.Soon(t, func() error { // the last ones have been accepted
		held, ended := gauge(t, "quoin_apiserver_unauthenticated")-before, gauge(t, "quoin_apiserver_unauthenticated_ended_total")-endedBefore
		if held > perAddress || held+ended < opened {
			return fmt.Errorf("the client holds %d connections, %d were closed; want at most %d of %d", held, ended, perAddress, opened)
		}
		return nil
	})
	t.Logf("of %d connections %d are open", opened, gauge(t, "quoin_apiserver_unauthenticated")-before)
	if got := status(user, keys["victim-1"]); got != http.StatusOK {
		t.Errorf("the customer on the same connection: %d", got)
	}
	works(t, map[string]string{victim: "victim-1", other: "other-1"})
}
