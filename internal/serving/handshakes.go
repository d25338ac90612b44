package serving

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"github.com/quoin-dev/quoin/internal/fairsemaphore"
	"github.com/quoin-dev/quoin/internal/processors"
	"github.com/quoin-dev/quoin/internal/ratelimit"
)

// Limits of TLS handshakes. A handshake costs some 0.4 ms of processor time, which is more than a request over an
// open connection does.
const (
	// handshakesPerSecond and handshakeBurst are those of a client address that begin without delay.
	handshakesPerSecond, handshakeBurst = 20, 100
	// unauthenticatedPerSecond are those of connections on which no request has authenticated, with the same burst.
	unauthenticatedPerSecond = 5
	// excessPerProcessor are those of all client addresses beyond that, for each second and processor: together
	// they use some 2 % of the processor time.
	excessPerProcessor = 50
	// handshakeWait is how long a handshake is delayed before its connection is closed.
	handshakeWait = 5 * time.Second
	// maxHandshakeAddresses bounds the memory of the limits.
	maxHandshakeAddresses = 10_000
)

// errTooManyHandshakes ends a connection whose handshake would be delayed for too long.
var errTooManyHandshakes = errors.New("too many TLS handshakes from the address of the client")

// Handshakes limits TLS handshakes, so that clients that begin many do not use the processor time of others. Those of
// a client address beyond its rate are delayed, and half of the processors compute handshakes, in turns between the
// client addresses: the others wait without being runnable, because the Go scheduler would let requests wait for all
// of them. The threads of requests preempt those that compute handshakes. Create it with NewHandshakes.
type Handshakes struct {
	// addresses limits those of an address, and unauthenticated those whose connections have not authenticated.
	addresses, unauthenticated *ratelimit.Limits[netip.Prefix]
	excess                     *rate.Limiter
	processors                 *fairsemaphore.Semaphore
	delayed, authenticated     prometheus.Counter
}

// NewHandshakes returns the limits of a process, which is in the names of the metrics.
func NewHandshakes(process string, registerer prometheus.Registerer) *Handshakes {
	excess := excessPerProcessor * processors.Count
	return &Handshakes{
		addresses:       ratelimit.New[netip.Prefix](handshakesPerSecond, handshakeBurst, maxHandshakeAddresses),
		unauthenticated: ratelimit.New[netip.Prefix](unauthenticatedPerSecond, handshakeBurst, maxHandshakeAddresses),
		excess:          rate.NewLimiter(rate.Limit(excess), max(1, excess/10)),
		processors:      fairsemaphore.New(max(1, processors.Count/2)),
		delayed: promauto.With(registerer).NewCounter(prometheus.CounterOpts{
			Name: "quoin_" + process + "_tls_handshakes_delayed_total",
			Help: "TLS handshakes that were delayed because the address of the client began many.",
		}),
		authenticated: promauto.With(registerer).NewCounter(prometheus.CounterOpts{
			Name: "quoin_" + process + "_tls_handshakes_authenticated_total",
			Help: "TLS handshakes of connections on which a request has authenticated, or whose client has logged in.",
		}),
	}
}

// Handshake is the TLS handshake of a connection. The zero Handshake has no limits.
type Handshake struct {
	limits  *Handshakes
	network netip.Prefix
	done    <-chan struct{}
	// counts is set while the handshake counts as one whose connection has not authenticated.
	counts bool
	// begun is set with the first Read, and answered with the first Write.
	begun    bool
	answered atomic.Bool
	// turn is set while the server computes its answer.
	turn atomic.Pointer[fairsemaphore.Turn]
	// endPreemptible is set while the thread that computes the answer is preemptible. Only the goroutine that reads uses it.
	endPreemptible func()
}

// Limit applies the limits to the handshake of a connection of a client network; an invalid network is not delayed.
// The wait ends when done is closed.
func (h *Handshake) Limit(limits *Handshakes, network netip.Prefix, done <-chan struct{}) {
	h.limits, h.network, h.done = limits, network, done
}

// Read reads from the connection. The first Read waits until the handshake may begin. From the end of a Read until
// the first Write, the server computes its answer.
func (h *Handshake) Read(conn net.Conn, b []byte) (int, error) {
	if h.limits == nil || h.answered.Load() {
		return conn.Read(b)
	}
	h.rest()
	if !h.begun {
		h.begun = true
		var err error
		if h.counts, err = h.limits.wait(h.network, h.done); err != nil {
			return 0, err
		}
	}
	n, err := conn.Read(b)
	if err == nil {
		turn, err := h.limits.processors.Begin(context.Background(), h.network.String()) // a turn takes less than a millisecond
		if err != nil {
			return n, err
		}
		h.turn.Store(turn)
		h.endPreemptible = processors.Preemptible()
	}
	return n, err
}

// Authenticated reports that a request of the connection has authenticated, or that its client has logged in. It is called
// once, after the handshake.
func (h *Handshake) Authenticated() {
	if h.limits == nil {
		return
	}
	h.limits.authenticated.Inc()
	if h.counts {
		h.limits.unauthenticated.Return(h.network, time.Now())
	}
}

// Answer ends the computation. The goroutine that reads calls it before each Write, and at the end of the handshake.
func (h *Handshake) Answer() {
	h.End()
	h.rest()
}

// End ends the computation when the connection is closed. Any goroutine may call it.
func (h *Handshake) End() {
	if !h.answered.Load() {
		h.answered.Store(true)
	}
	h.pause() // also if the connection was closed while its turn began
}

// rest pauses the computation. The goroutine that reads calls it.
func (h *Handshake) rest() {
	h.pause()
	if h.endPreemptible != nil {
		h.endPreemptible()
		h.endPreemptible = nil
	}
}

func (h *Handshake) pause() {
	if h.turn.Load() == nil {
		return
	}
	if turn := h.turn.Swap(nil); turn != nil {
		turn.End()
	}
}

// wait waits until a handshake of a client network may begin, and reports whether it counts as one of a connection that has
// not authenticated. It returns an error after five seconds if that would take longer, or when done is closed.
func (h *Handshakes) wait(network netip.Prefix, done <-chan struct{}) (counts bool, err error) {
	now := time.Now()
	if !network.IsValid() {
		return false, nil
	}
	if h.addresses.Take(network, now) == 0 && h.unauthenticated.Take(network, now) == 0 {
		return true, nil
	}
	return false, h.waitForTurn(now, done)
}

// waitForTurn waits for the turn of a handshake beyond the rate of its client address.
func (h *Handshakes) waitForTurn(now time.Time, done <-chan struct{}) error {
	turn := h.excess.ReserveN(now, 1)
	delay := turn.DelayFrom(now)
	if delay == 0 {
		return nil
	}
	h.delayed.Inc()
	late := delay > handshakeWait
	if late {
		turn.CancelAt(now)
		delay = handshakeWait
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-done:
		turn.Cancel()
		return net.ErrClosed
	case <-timer.C:
	}
	if late {
		return errTooManyHandshakes
	}
	return nil
}
