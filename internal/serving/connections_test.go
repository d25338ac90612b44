package serving

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-dev/quoin/internal/serving/pending"
)

// TestAnAccountHasHalfOfTheConnections: the connections beyond the share of an account are closed after the response, and
// are counted with the unauthenticated ones until then.
func TestAnAccountHasHalfOfTheConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	set := pending.NewSet(pending.Limits{Total: 10, PerAddress: 10}, pending.NewMetrics("test", nil), pending.KindConnection)
	handshakes := NewHandshakes("test", prometheus.NewRegistry())
	limited := &limitedListener{l, NewConnections("test", 4, set, handshakes, nil, prometheus.NewRegistry())}
	authenticated := func(ctx context.Context, account string) bool {
		response := httptest.NewRecorder()
		ctx = context.WithValue(ctx, exchangeKey{}, &exchange{ResponseWriter: response})
		Authenticated(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), account)
		return response.Header().Get("Connection") == ""
	}
	accept := func() (net.Conn, context.Context) {
		t.Helper()
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		conn, err := limited.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return conn, connContext(t.Context(), conn)
	}
	_, first := accept()
	second, other := accept()
	third, over := accept()
	for range 2 { // further requests on the same connection
		if !authenticated(first, "a") || !authenticated(other, "a") || authenticated(over, "a") {
			t.Fatal("the share of an account is not two of four")
		}
	}
	if n := testutil.ToFloat64(handshakes.authenticated); n != 2 {
		t.Errorf("%v connections have authenticated, want 2", n)
	}
	if !authenticated(over, "b") {
		t.Error("the share of another account is used")
	}
	_ = second.Close()
	_ = second.Close()
	if authenticated(other, "a"); limited.count != 2 || limited.accounts["a"] != 1 {
		t.Errorf("%d connections, %v", limited.count, limited.accounts)
	}
	_, again := accept()
	if !authenticated(again, "a") {
		t.Error("a closed connection is counted")
	}
	_ = third.Close()
	if len(limited.accounts) != 1 {
		t.Errorf("%v", limited.accounts)
	}
}
