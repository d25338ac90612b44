package serving

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/quoin-dev/quoin/internal/serving/pending"
)

// Connections limits the HTTP connections of clients: in total, those of each account, and those on which no
// request has authenticated yet. Create it with NewConnections.
type Connections struct {
	max        int
	pending    *pending.Set
	handshakes *Handshakes
	trusted    []netip.Prefix
	open       prometheus.Gauge
	refused    prometheus.Counter

	mu       sync.Mutex
	count    int
	accounts map[string]int
}

// NewConnections returns the limits of a process: limit in total, half of it for each account, and those of set
// for connections on which no request has authenticated; their TLS handshakes have those of handshakes, nil for
// none. Trusted proxies have no limit for their address: they have connections for many clients. process is in the
// names of the metrics.
func NewConnections(process string, limit int, set *pending.Set, handshakes *Handshakes, trusted []netip.Prefix, registerer prometheus.Registerer) *Connections {
	factory := promauto.With(registerer)
	return &Connections{
		max: limit, pending: set, handshakes: handshakes, trusted: trusted, accounts: map[string]int{},
		open: factory.NewGauge(prometheus.GaugeOpts{
			Name: "quoin_" + process + "_connections",
			Help: "Open HTTP connections of clients.",
		}),
		refused: factory.NewCounter(prometheus.CounterOpts{
			Name: "quoin_" + process + "_connections_refused_total",
			Help: "HTTP connections of clients that were closed because there are too many.",
		}),
	}
}

// limitedListener limits the connections that it accepts.
type limitedListener struct {
	net.Listener
	*Connections
}

// limit returns a listener with the limits; nil Connections have none.
func (c *Connections) limit(l net.Listener) net.Listener {
	if c == nil {
		return l
	}
	return &limitedListener{l, c}
}

// Accept implements net.Listener. With the maximum of connections, it replaces the one that has not
// authenticated for the longest time. If all have authenticated, it closes the new one.
func (l *limitedListener) Accept() (net.Conn, error) {
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

func (c *Connections) admit() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count >= c.max {
		return false
	}
	c.count++
	c.open.Inc()
	return true
}

func (c *Connections) track(conn net.Conn) net.Conn {
	tracked := &connection{HandshakeConn: HandshakeConn{Conn: conn}, owner: c, done: make(chan struct{})}
	network := PeerNetwork(conn.RemoteAddr(), c.trusted)
	tracked.Handshake.Limit(c.handshakes, network, tracked.done)
	// Only the goroutine that accepts connections ends others, so peer is set before it is used.
	tracked.peer = c.pending.Add(network, func() { _ = tracked.Close() })
	return tracked
}

// PeerNetwork returns the network that a limit for each client address applies to: that of the peer, and none for
// a trusted proxy, which has connections for many clients.
func PeerNetwork(peer net.Addr, trusted []netip.Prefix) netip.Prefix {
	address, err := netip.ParseAddrPort(peer.String())
	if err != nil || IsTrusted(peer.String(), trusted) {
		return netip.Prefix{}
	}
	return Network(address.Addr())
}

// HandshakeConn is a connection whose TLS handshake is limited.
type HandshakeConn struct {
	net.Conn
	Handshake Handshake
}

// Read implements net.Conn.
func (c *HandshakeConn) Read(b []byte) (int, error) { return c.Handshake.Read(c.Conn, b) }

// Write implements net.Conn.
func (c *HandshakeConn) Write(b []byte) (int, error) {
	c.Handshake.Answer()
	return c.Conn.Write(b)
}

// CloseWrite closes the write side; errors.ErrUnsupported if the connection has none.
func (c *HandshakeConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// connection is a counted connection.
type connection struct {
	HandshakeConn
	owner *Connections
	once  sync.Once
	peer  *pending.Peer
	// done is closed with the connection.
	done chan struct{}
	// authenticated is set with the first request that has authenticated, for account.
	authenticated atomic.Bool
	// account and closed are guarded by owner.
	account string
	closed  bool
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.Handshake.End()
	defer c.release()
	return c.Conn.Close()
}

// CloseWrite closes the write side, or the connection if it has none.
func (c *connection) CloseWrite() error {
	err := c.HandshakeConn.CloseWrite()
	if errors.Is(err, errors.ErrUnsupported) {
		return c.Close()
	}
	return err
}

// release ends the count of the connection.
func (c *connection) release() {
	c.once.Do(func() {
		close(c.done)
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

// connContext is the ConnContext of the server.
func connContext(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	if tracked, ok := conn.(*connection); ok {
		return context.WithValue(ctx, connectionKey{}, tracked)
	}
	return ctx
}

// Authenticated reports that the caller of a request has been authenticated for an account. The request no longer
// counts against WrapOptions.MaxUnauthenticated, and its connection counts against the share of the account: if
// that is used, the connection is closed after the response.
func Authenticated(r *http.Request, account string) {
	e := exchangeOf(r.Context())
	e.isAuthenticated.Store(true)
	if e.authenticated != nil {
		e.authenticated()
	}
	c, ok := r.Context().Value(connectionKey{}).(*connection)
	if ok && !c.authenticate(account) && e.ResponseWriter != nil && e.status == 0 {
		e.Header().Set("Connection", "close")
	}
}

// authenticate counts the connection for an account, unless a request has done so before. It returns false if the
// account has half of all connections.
func (c *connection) authenticate(account string) bool {
	if c.authenticated.Load() {
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
	c.Handshake.Authenticated()
	c.peer.Done()
	return true
}
