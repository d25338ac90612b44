package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/gateway"
)

// TestRefusedRequestsKeepNoConnections: a client sends requests that are refused, and announces a body that never
// follows. net/http waits for the rest of a body to use the connection again, so each of them would keep a connection,
// and a goroutine, forever.
func TestRefusedRequestsKeepNoConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.deploy(victim, w.pod(func(http.ResponseWriter, *http.Request) {}), w.listenAsPod().Addr())
	for name, request := range map[string]string{
		"no token":             "POST /cubejs-api/v1/load HTTP/1.1\r\nHost: %s\r\nContent-Length: 100\r\n\r\n",
		"invalid token":        "POST /cubejs-api/v1/load HTTP/1.1\r\nHost: %s\r\nAuthorization: x.y.z\r\nContent-Length: 100\r\n\r\n",
		"chunks":               "POST /cubejs-api/v1/load HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\n",
		"a path without route": "POST /other HTTP/1.1\r\nHost: %s\r\nContent-Length: 100\r\n\r\n",
		"expects 100-continue": "POST /cubejs-api/v1/load HTTP/1.1\r\nHost: %s\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n",
		"a large body":         "POST /cubejs-api/v1/load HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000000\r\n\r\n",
		"too large a body":     "POST /cubejs-api/v1/load HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000000000\r\n\r\n",
		"a WebSocket's body":   "GET /cubejs-api/v1/load HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 100\r\n\r\n",
		"a preflight's body":   "OPTIONS /cubejs-api/v1/load HTTP/1.1\r\nHost: %s\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: POST\r\nContent-Length: 100\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := w.raw(attacker, victim)
			_, _ = fmt.Fprintf(conn, request, w.host(victim))
			r := bufio.NewReader(conn)
			response, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			if response.StatusCode < 400 && name != "a preflight's body" {
				t.Errorf("status %d", response.StatusCode)
			}
			if _, err := io.Copy(io.Discard, r); err != nil && strings.Contains(err.Error(), "timeout") {
				t.Errorf("the connection is open: %v", err)
			}
		})
	}
}

// TestRefusedRequestKeepsTheConnectionOfACustomer: a client that sends the body of its request uses the connection again,
// even if the request was refused.
func TestRefusedRequestKeepsTheConnectionOfACustomer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.deploy(victim, w.pod(func(http.ResponseWriter, *http.Request) {}), w.listenAsPod().Addr())
	conn := w.raw(customer, victim)
	r := bufio.NewReader(conn)
	for i := range 3 {
		_, _ = fmt.Fprintf(conn, "POST /cubejs-api/v1/load HTTP/1.1\r\nHost: %s\r\nContent-Length: 2\r\n\r\n{}", w.host(victim))
		response, err := http.ReadResponse(r, nil)
		if err != nil || response.StatusCode != http.StatusUnauthorized || response.Close {
			t.Fatalf("request %d: %v, %v", i, response, err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
}

// TestConnectionsWithoutARequest: a client opens connections and sends nothing, or a part of a TLS handshake, from one
// address and from many, until the gateway has as many as it accepts. Users rely on being able to connect.
func TestConnectionsWithoutARequest(t *testing.T) {
	t.Parallel()
	const perAddress, unauthenticated, total = 5, 20, 25
	w := newWorld(t, func(c *gateway.Config) {
		c.MaxConnections, c.MaxUnauthenticated, c.MaxUnauthenticatedPerAddress = total, unauthenticated, perAddress
	})
	w.deploy(victim, w.pod(func(http.ResponseWriter, *http.Request) {}), w.listenAsPod().Addr())
	user := w.client(customer)
	for i := range 60 {
		address := attacker
		if i >= 20 {
			address = fmt.Sprintf("127.0.1.%d", 1+i)
		}
		conn, err := w.dialFrom(t.Context(), address, w.addresses.HTTPS)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = conn.Write([]byte{0x16, 3, 1})
		if i%10 != 9 {
			continue
		}
		if status, body := w.get(user, victim, "/v1/load"); status != http.StatusOK {
			t.Fatalf("after %d connections of the attacker, a user's request: %d %s", i+1, status, body)
		}
		user = w.client(fmt.Sprintf("127.0.0.%d", 7+i)) // with a new connection
		if got := w.gauge("quoin_gateway_unauthenticated", "connection"); got > unauthenticated || i < 20 && got > perAddress {
			t.Errorf("after %d connections of the attacker, %v have no request", i+1, got)
		}
		if got := w.gauge("quoin_gateway_connections", ""); got > total {
			t.Errorf("%v connections, want at most %d", got, total)
		}
	}
}
