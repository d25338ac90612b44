package gateway_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/quoin-dev/quoin/gateway"
)

// Client addresses.
const attacker, customer = "127.0.0.66", "127.0.0.7"

// places is a pod that counts the requests in progress and holds those for /v1/slow.
type places struct {
	mu      sync.Mutex
	held    int
	release chan struct{}
}

func (p *places) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("Upgrade") != "":
		acceptWebSocket(rw)
	case strings.HasSuffix(r.URL.Path, "/v1/slow"):
		p.mu.Lock()
		p.held++
		p.mu.Unlock()
		<-p.release
	}
}

func (p *places) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// acceptWebSocket accepts a WebSocket and sends back what it receives.
func acceptWebSocket(rw http.ResponseWriter) {
	conn, buffered, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	_, _ = io.Copy(conn, buffered)
}

const upgrade = "GET /cubejs-api/v1/load HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"

// webSocket opens a WebSocket without a token.
func (w *world) webSocket(address string) (net.Conn, *bufio.Reader) {
	w.Helper()
	conn := w.raw(address, victim)
	_, _ = fmt.Fprintf(conn, upgrade, w.host(victim))
	r := bufio.NewReader(conn)
	response, err := http.ReadResponse(r, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		w.Fatalf("WebSocket: %v, %v", response, err)
	}
	_ = response.Body.Close() // of no content: the connection is the WebSocket
	return conn, r
}

// message is a frame with the token, as clients send it first.
func message(token string) []byte {
	text, _ := json.Marshal(map[string]string{"authorization": token})
	frame := append([]byte{0x81, 0x80 | 126, byte(len(text) >> 8), byte(len(text))}, 0, 0, 0, 0)
	return append(frame, text...)
}

// TestRequestsWithoutATokenTakeNoPlaces: a client without a token opens WebSockets and sends no message, and sends CORS
// preflights that announce a body which never follows. A deployment has a limited number of places for concurrent
// requests, all of which its users, who send tokens, rely on.
func TestRequestsWithoutATokenTakeNoPlaces(t *testing.T) {
	t.Parallel()
	const limit = 4
	w := newWorld(t, func(c *gateway.Config) { c.MaxInFlight = limit })
	p := &places{release: make(chan struct{})}
	w.deploy(victim, w.pod(p.ServeHTTP), w.listenAsPod().Addr())
	for range 2 * limit {
		w.webSocket(attacker)
		conn := w.raw(attacker, victim)
		_, _ = fmt.Fprintf(conn, "OPTIONS /cubejs-api/v1/load HTTP/1.1\r\nHost: %s\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: POST\r\nContent-Length: 100\r\n\r\n{", w.host(victim))
	}
	var all sync.WaitGroup
	for range limit {
		all.Go(func() {
			if status, body := w.get(w.client(customer), victim, "/v1/slow"); status != http.StatusOK {
				t.Errorf("a user's request: %d %s", status, body)
			}
		})
	}
	defer all.Wait()
	defer close(p.release)
	w.eventually("all places are the users'", func() bool { return p.count() == limit })
}

// TestWebSocketsWithoutATokenEndThemselves: a client without a token opens more WebSockets than the gateway has places
// for requests without a token, from few addresses, and keeps opening them. Users, whose WebSockets show their token in
// the first message, rely on being let in at any time; then they hold a place of their deployment.
func TestWebSocketsWithoutATokenEndThemselves(t *testing.T) {
	t.Parallel()
	const perAddress, total = 3, 8
	w := newWorld(t, func(c *gateway.Config) { c.MaxUnauthenticated, c.MaxUnauthenticatedPerAddress = total, perAddress })
	w.deploy(victim, w.pod((&places{}).ServeHTTP), w.listenAsPod().Addr())
	var held []net.Conn
	for i := range 30 {
		conn, _ := w.webSocket(fmt.Sprintf("127.0.0.%d", 66+i/10))
		held = append(held, conn)
		if got := w.gauge("quoin_gateway_unauthenticated", "request"); got > total {
			t.Fatalf("%v requests without a token are in progress, want at most %d", got, total)
		}
	}
	user, answers := w.webSocket(customer)
	if _, err := user.Write(message(w.token(victim))); err != nil {
		t.Fatal(err)
	}
	echo := make([]byte, len(message(w.token(victim))))
	if _, err := io.ReadFull(answers, echo); err != nil {
		t.Fatalf("the user's message is not answered: %v", err)
	}
	for range total { // more than the limit, after the user has authenticated
		w.webSocket(attacker)
	}
	if _, err := user.Write([]byte("later")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(answers, echo[:5]); err != nil {
		t.Errorf("the user's WebSocket was ended: %v", err)
	}
	for i, conn := range held[:20] { // 20: those of addresses that have too many, and the oldest
		if i%10 < 10-perAddress {
			if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
				t.Errorf("WebSocket %d of the attacker is open", i)
			}
		}
	}
}

// TestWebSocketWithoutATokenIsClosed: a client opens a WebSocket and sends messages with invalid tokens, or with the
// token of another deployment, without end.
func TestWebSocketWithoutATokenIsClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.deploy(victim, w.pod((&places{}).ServeHTTP), w.listenAsPod().Addr())
	conn, r := w.webSocket(attacker)
	go func() {
		for {
			if _, err := conn.Write(message(w.token("another"))); err != nil {
				return
			}
		}
	}()
	if _, err := io.Copy(io.Discard, r); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error("the WebSocket is open after a minute")
	}
	w.eventually("no requests are in progress", func() bool { return w.gauge("quoin_gateway_requests_in_flight", "") == 0 })
}
