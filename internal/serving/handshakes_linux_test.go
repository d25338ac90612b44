package serving

import (
	"net"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-dev/quoin/internal/processors/processorstest"
)

// TestRequestsPreemptHandshakes: the thread that computes the answer of a handshake has a long time slice, with which others
// preempt it, until the answer is sent or more of the request is awaited, also if another goroutine closes the connection.
func TestRequestsPreemptHandshakes(t *testing.T) {
	usual := processorstest.LockThread(t) // the slices are those of one thread
	for name, end := range map[string]func(*HandshakeConn){
		"answer": func(c *HandshakeConn) { _, _ = c.Write([]byte("answer")) },
		"more of the request": func(c *HandshakeConn) {
			_ = c.Conn.Close() // so that the read fails
			_, _ = c.Read(make([]byte, 16))
		},
		"closed by another": func(c *HandshakeConn) {
			closed := make(chan struct{})
			go func() { c.Handshake.End(); close(closed) }()
			<-closed
			_ = c.Conn.Close()
			_, _ = c.Write([]byte("alert"))
		},
	} {
		client, server := net.Pipe()
		conn := &HandshakeConn{Conn: server}
		conn.Handshake.Limit(NewHandshakes("test", prometheus.NewRegistry()), attacker, nil)
		go func() {
			_, _ = client.Write([]byte("hello"))
			_, _ = client.Read(make([]byte, 16))
		}()
		if _, err := conn.Read(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
		if during := processorstest.Slice(t); during <= usual {
			t.Errorf("%s: the time slice is %d ns, want more than %d", name, during, usual)
		}
		end(conn)
		if after := processorstest.Slice(t); after != usual {
			t.Errorf("%s: afterwards the time slice is %d ns, want %d as before", name, after, usual)
		}
		_, _ = client.Close(), server.Close()
	}
}
