package gateway_test

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/gateway"
)

// Messages of the PostgreSQL protocol.
const (
	startup         = "\x00\x00\x00\x13\x00\x03\x00\x00user\x00cube\x00\x00"
	askForPassword  = "R\x00\x00\x00\x08\x00\x00\x00\x03"
	password        = "p\x00\x00\x00\x0bsecret\x00"
	authenticatedOK = "R\x00\x00\x00\x08\x00\x00\x00\x00"
)

// sqlPod asks for the password, as the server does, and then sends back what it receives.
func (w *world) sqlPod() net.Addr {
	l := w.listenAsPod()
	w.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.ReadFull(conn, make([]byte, len(startup)))
				_, _ = io.WriteString(conn, askForPassword)
				given := make([]byte, len(password))
				if _, err := io.ReadFull(conn, given); err != nil || string(given) != password {
					return
				}
				_, _ = io.WriteString(conn, authenticatedOK)
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr()
}

// sql opens a connection with TLS and sends the start-up packet.
func (w *world) sql(address string) net.Conn {
	w.Helper()
	conn, err := w.dialFrom(w.Context(), address, w.addresses.SQL)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute)) // for a test that fails
	client := tls.Client(conn, &tls.Config{RootCAs: w.roots, ServerName: victim + ".sql.data." + w.account + ".example.com", NextProtos: []string{"postgresql"}})
	if _, err := io.WriteString(client, startup); err != nil {
		w.Fatal(err)
	}
	return client
}

// expect reads a message.
func (w *world) expect(conn net.Conn, want string) error {
	w.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		if n >= 5 && got[0] == 'E' {
			more, _ := io.ReadAll(io.LimitReader(conn, int64(binary.BigEndian.Uint32(got[1:]))))
			return fmt.Errorf("%q", append(got, more...))
		}
		return fmt.Errorf("%q, %w, want %q", got[:n], err, want)
	}
	return nil
}

func (w *world) logIn(address string) (net.Conn, error) {
	w.Helper()
	conn := w.sql(address)
	if err := w.expect(conn, askForPassword); err != nil {
		return nil, err
	}
	_, _ = io.WriteString(conn, password)
	return conn, w.expect(conn, authenticatedOK)
}

// TestSQLConnectionsWithoutLogInTakeNoPlaces: a client that knows the host of a deployment, but no password, opens SQL
// connections and leaves the password out. A deployment has a limited number of places for SQL connections, all of which
// its users rely on.
func TestSQLConnectionsWithoutLogInTakeNoPlaces(t *testing.T) {
	t.Parallel()
	const limit = 4
	w := newWorld(t, func(c *gateway.Config) { c.MaxSQLConnections = limit })
	w.deploy(victim, w.pod(func(http.ResponseWriter, *http.Request) {}), w.sqlPod())
	for range 3 * limit {
		if err := w.expect(w.sql(attacker), askForPassword); err != nil {
			t.Fatal(err)
		}
	}
	var users []net.Conn
	for range limit {
		user, err := w.logIn(customer)
		if err != nil {
			t.Fatalf("a user cannot log in: %v", err)
		}
		users = append(users, user)
	}
	if _, err := w.logIn(customer); err == nil {
		t.Error("more users than places")
	}
	for _, user := range users {
		_, _ = io.WriteString(user, "query")
		if err := w.expect(user, "query"); err != nil {
			t.Errorf("a user's connection: %v", err)
		}
	}
}

// TestSQLConnectionsWithoutLogInEndThemselves: a client opens SQL connections without logging in, some of them without
// anything but the TCP connection, from one address and from many, more than the gateway accepts before authentication.
func TestSQLConnectionsWithoutLogInEndThemselves(t *testing.T) {
	t.Parallel()
	const perAddress, total = 5, 20
	w := newWorld(t, func(c *gateway.Config) { c.MaxUnauthenticated, c.MaxUnauthenticatedPerAddress = total, perAddress })
	w.deploy(victim, w.pod(func(http.ResponseWriter, *http.Request) {}), w.sqlPod())
	early, err := w.logIn(customer)
	if err != nil {
		t.Fatal(err)
	}
	w.eventually("the user has logged in", func() bool { return w.gauge("quoin_gateway_unauthenticated", "sql_connection") == 0 })
	for i := range 60 {
		address := attacker
		if i >= 20 {
			address = fmt.Sprintf("127.0.1.%d", 1+i)
		}
		if i%2 == 0 {
			w.sql(address)
		} else if conn, err := w.dialFrom(t.Context(), address, w.addresses.SQL); err == nil {
			defer conn.Close()
		}
		if got := w.gauge("quoin_gateway_unauthenticated", "sql_connection"); got > total || i < 20 && got > perAddress {
			t.Errorf("%v connections have not logged in", got)
		}
	}
	if _, err := w.logIn(customer); err != nil {
		t.Errorf("a user cannot log in: %v", err)
	}
	w.eventually("the connections of the attacker are bounded", func() bool { return w.gauge("quoin_gateway_sql_connections", "") <= total+2 })
	_, _ = io.WriteString(early, "query")
	if err := w.expect(early, "query"); err != nil {
		t.Errorf("the connection of a user who has logged in was ended: %v", err)
	}
}
