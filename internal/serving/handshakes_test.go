package serving

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

var (
	attacker = netip.MustParsePrefix("192.0.2.1/32")
	visitor  = netip.MustParsePrefix("192.0.2.2/32")
)

// TestHandshakesArePaced: beyond a burst, those of one client address are delayed, at most for a time. Those of others, and
// of trusted proxies, which have no network, are not.
func TestHandshakesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHandshakes("test", prometheus.NewRegistry())
		wait := func(network netip.Prefix, done <-chan struct{}) (time.Duration, error) {
			start := time.Now()
			_, err := h.wait(network, done)
			return time.Since(start), err
		}
		// The excess of all addresses, and the burst of the attacker.
		for range handshakeBurst + h.excess.Burst() {
			if took, err := wait(attacker, nil); took != 0 || err != nil {
				t.Fatalf("a handshake of the burst: %v after %s", err, took)
			}
		}
		if took, err := wait(attacker, nil); took == 0 || err != nil {
			t.Errorf("a further handshake: %v after %s, want a delay", err, took)
		}
		for _, network := range []netip.Prefix{visitor, {}} {
			if took, err := wait(network, nil); took != 0 || err != nil {
				t.Errorf("a handshake of %s: %v after %s", network, err, took)
			}
		}
		waiting := int(handshakeWait.Seconds() * float64(h.excess.Limit()))
		done := make(chan struct{})
		for range waiting {
			go func() { _, _ = wait(attacker, done) }()
		}
		synctest.Wait()
		if took, err := wait(attacker, nil); !errors.Is(err, errTooManyHandshakes) || took != handshakeWait {
			t.Errorf("with many that wait: %v after %s", err, took)
		}
		close(done)
		if _, err := wait(attacker, done); !errors.Is(err, net.ErrClosed) && err != nil {
			t.Errorf("a closed connection: %v", err)
		}
	})
}

// TestHandshakesOfConnectionsThatAuthenticate: an address whose connections authenticate may begin more.
func TestHandshakesOfConnectionsThatAuthenticate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seconds = 60
		h := NewHandshakes("test", prometheus.NewRegistry())
		begin := func(network netip.Prefix) *Handshake {
			client, server := net.Pipe()
			defer func() { _, _ = client.Close(), server.Close() }()
			handshake := &Handshake{}
			handshake.Limit(h, network, nil)
			go func() { _, _ = client.Write([]byte("hello")) }()
			if _, err := handshake.Read(server, make([]byte, 16)); err != nil {
				t.Fatal(err)
			}
			handshake.Answer()
			return handshake
		}
		delayed := map[netip.Prefix]int{}
		for range seconds * handshakesPerSecond {
			for _, network := range []netip.Prefix{attacker, visitor, {}} {
				handshake := begin(network)
				if network.IsValid() && !handshake.counts {
					delayed[network]++
				}
				if network != attacker {
					handshake.Authenticated()
				}
			}
			time.Sleep(time.Second / handshakesPerSecond)
		}
		want := seconds*handshakesPerSecond - handshakeBurst - seconds*unauthenticatedPerSecond
		if n := delayed[attacker]; n < want || n > want+1 || delayed[visitor] > 0 {
			t.Errorf("%d and %d exceed the rate of their address, want %d and none", n, delayed[visitor], want)
		}
		if n := testutil.ToFloat64(h.authenticated); n != 2*seconds*handshakesPerSecond {
			t.Errorf("%v are counted as authenticated", n)
		}
		(&Handshake{}).Authenticated() // without limits
	})
}

// TestHandshakesLeaveProcessors: the server computes the answers of few handshakes at once. The place is free again when the
// answer is sent, while more of the request is awaited, and when the connection is closed, by whichever goroutine.
func TestHandshakesLeaveProcessors(t *testing.T) {
	cases := map[string]func(first *Handshake, conn net.Conn){
		"answer":                 func(first *Handshake, _ net.Conn) { first.Answer() },
		"more of the request":    func(first *Handshake, conn net.Conn) { go func() { _, _ = first.Read(conn, make([]byte, 1)) }() },
		"closed by another":      func(first *Handshake, _ net.Conn) { go first.End() },
		"closed twice, answered": func(first *Handshake, _ net.Conn) { first.End(); first.End() },
	}
	for name, free := range cases {
		synctest.Test(t, func(t *testing.T) {
			h := NewHandshakes("test", prometheus.NewRegistry())
			begin := func(network netip.Prefix) (*Handshake, net.Conn, func() bool) {
				client, server := net.Pipe()
				t.Cleanup(func() { _, _ = client.Close(), server.Close() })
				handshake, read := &Handshake{}, make(chan error, 1)
				handshake.Limit(h, network, nil)
				go func() { _, _ = client.Write([]byte("hello")) }()
				go func() {
					_, err := handshake.Read(server, make([]byte, 16))
					read <- err
				}()
				synctest.Wait()
				return handshake, server, func() bool { return len(read) == 1 }
			}
			var first *Handshake
			var conn net.Conn
			for range max(1, runtime.GOMAXPROCS(0)/2) {
				var computes func() bool
				if first, conn, computes = begin(attacker); !computes() {
					t.Fatalf("%s: a handshake waits although processors are free", name)
				}
			}
			second, _, computes := begin(visitor)
			if computes() {
				t.Fatalf("%s: one more handshake is computed", name)
			}
			free(first, conn)
			synctest.Wait()
			if !computes() {
				t.Errorf("%s: the next handshake waits", name)
			}
			second.End()
			_ = conn.Close()
		})
	}
}
