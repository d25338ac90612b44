package gateway

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/quoin-dev/quoin/gateway/pending"
	"github.com/quoin-dev/quoin/internal/serving"
)

// connections limit the HTTP connections: in total, those of each account, and those on which no
// request has authenticated yet.
type connections struct {
	max     int
	pending *pending.Set
	trusted []netip.Prefix
	open    prometheus.Gauge
	refused prometheus.Counter

	mu       sync.Mutex
	count    int
	accounts map[string]int
}

func newConnections(limit int, set *pending.Set, trusted []netip.Prefix, registerer prometheus.Registerer) *connections {
	factory := promauto.With(registerer)
	return &connections{
		max: limit, pending: set, trusted: trusted, accounts: map[string]int{},
		open: factory.NewGauge(prometheus.GaugeOpts{
			Name: "quoin_gateway_connections",
			Help: "Open HTTP connections of clients.",
		}),
		refused: factory.NewCounter(prometheus.CounterOpts{
			Name: "quoin_gateway_connections_refused_total",
			Help: "HTTP connections of clients that were closed because there are too many.",
		}),
	}
}

// listener limits the connections that it accepts.
type listener struct {
	net.Listener
	*connections
}

// Accept implements net.Listener. With the maximum of connections, it replaces the one that has not
// authenticated for the longest time. If all have authenticated, it closes the new one.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.admit() || l.pending.EndOldest() && l.admit() {
			return l.track(conn), nil
		}
		l.refused.Inc()
		_ = conn.Close()
	}
}

func (c *connections) admit() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count >= c.max {
		return false
	}
	c.count++
	c.open.Inc()
	return true
}

func (c *connections) track(conn net.Conn) net.Conn {
	tracked := &connection{Conn: conn, owner: c}
	// Only the goroutine that accepts connections ends others, so peer is set before it is used.
	tracked.peer = c.pending.Add(peerAddress(conn.RemoteAddr(), c.trusted), func() { _ = tracked.Close() })
	return tracked
}

// peerAddress returns the address that a limit for each address applies to: none for a trusted
// proxy, which has connections for many clients.
func peerAddress(peer net.Addr, trusted []netip.Prefix) netip.Addr {
	address, err := netip.ParseAddrPort(peer.String())
	if err != nil || serving.IsTrusted(peer.String(), trusted) {
		return netip.Addr{}
	}
	return address.Addr()
}

// connection is a counted connection.
type connection struct {
	net.Conn
	owner *connections
	once  sync.Once
	peer  *pending.Peer
	// authenticated is set with the first request that has authenticated, for account.
	authenticated atomic.Bool
	// account and closed are guarded by owner.
	account string
	closed  bool
}

// Close implements net.Conn.
func (c *connection) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// CloseWrite closes the write side.
func (c *connection) CloseWrite() error { return closeWrite(c.Conn) }

// release ends the count of the connection.
func (c *connection) release() {
	c.once.Do(func() {
		c.peer.Done()
		o := c.owner
		o.mu.Lock()
		defer o.mu.Unlock()
		c.closed = true
		o.count--
		o.open.Dec()
		if c.account != "" {
			if o.accounts[c.account]--; o.accounts[c.account] == 0 {
				delete(o.accounts, c.account)
			}
		}
	})
}

type connectionKey struct{}

// context is the ConnContext of the server.
func (c *connections) context(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	if tracked, ok := conn.(*connection); ok {
		return context.WithValue(ctx, connectionKey{}, tracked)
	}
	return ctx
}

// authenticated records that a request on the connection has authenticated. It returns false if the
// account has half of all connections: then the connection must be closed after the response.
func authenticated(ctx context.Context, account string) bool {
	c, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok || c.authenticated.Load() {
		return true
	}
	o := c.owner
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.closed || c.account != "" {
		return true
	}
	if o.accounts[account] >= max(1, o.max/2) {
		return false
	}
	o.accounts[account]++
	c.account = account
	c.authenticated.Store(true)
	c.peer.Done()
	return true
}
