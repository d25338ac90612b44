// Package pending limits the connections and requests that have not authenticated yet.
//
// A limit refuses none of them: it ends the one that has been pending longest. Clients with
// credentials authenticate within milliseconds of connecting, so those that an attacker holds open
// are ended first. They are ended some seconds later, in which they can still authenticate: a client that
// replaces closed connections at once would otherwise cause as many as the processors allow.
package pending

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/util/wait"
)

// excessTime is how long a peer that exceeds a limit remains at most. It is ended at a random time in the second half of it, so
// that clients that connect together do not connect again together.
const excessTime = 5 * time.Second

// Limits are the maximum numbers of pending peers.
type Limits struct {
	// Total limits all peers, PerAddress those of the network of a client address, PerDeployment those
	// of a deployment. Up to Total further peers exceed the limits for a few seconds.
	Total, PerAddress, PerDeployment int
}

// Metrics of sets, with the kind of their peers as label.
type Metrics struct {
	open  *prometheus.GaugeVec
	ended *prometheus.CounterVec
}

// NewMetrics creates the metrics of a process and registers them; a nil registerer is allowed.
func NewMetrics(process string, registerer prometheus.Registerer) *Metrics {
	factory := promauto.With(registerer)
	return &Metrics{
		open: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "quoin_" + process + "_unauthenticated",
			Help: "Connections and requests that have not authenticated, by kind: connection, sql_connection or request.",
		}, []string{"kind"}),
		ended: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "quoin_" + process + "_unauthenticated_ended_total",
			Help: "Connections and requests that were ended because too many had not authenticated, by kind: connection, sql_connection or request.",
		}, []string{"kind"}),
	}
}

// Kinds of peers: values of the label kind.
const (
	KindConnection    = "connection"
	KindSQLConnection = "sql_connection"
	KindRequest       = "request"
)

// Set is a set of pending peers.
type Set struct {
	limits Limits
	open   prometheus.Gauge
	ended  prometheus.Counter

	mu     sync.Mutex
	groups map[group]*list.List
	// excess are the peers that have exceeded a limit and will be ended, oldest first.
	excess *list.List
}

// group is what a limit applies to: the zero group holds all peers.
type group struct {
	network    netip.Prefix
	deployment string
}

// Peer is a pending connection or request.
type Peer struct {
	set *Set
	end func()
	// elements are its elements in the lists of its groups, guarded by the set; nil when it is no
	// longer pending.
	elements map[group]*list.Element
	// excess is its element in the list of excess peers, and timer ends it, guarded by the set; nil otherwise.
	excess *list.Element
	timer  *time.Timer
}

// NewSet returns an empty set.
func NewSet(limits Limits, m *Metrics, kind string) *Set {
	return &Set{limits: limits, open: m.open.WithLabelValues(kind), ended: m.ended.WithLabelValues(kind), groups: map[group]*list.List{}, excess: list.New()}
}

// Add adds a peer. end ends it; it is called at most once, and may be called before Add returns. A
// peer with an invalid network counts for no address.
func (s *Set) Add(network netip.Prefix, end func()) *Peer {
	p := &Peer{set: s, end: end, elements: map[group]*list.Element{}}
	s.mu.Lock()
	surplus := []*Peer{s.insert(p, group{}, s.limits.Total)}
	if network.IsValid() {
		surplus = append(surplus, s.insert(p, group{network: network}, s.limits.PerAddress))
	}
	s.open.Inc() // after those that it replaces
	s.mu.Unlock()
	s.endAll(surplus...)
	return p
}

// Join counts the peer for a deployment too.
func (p *Peer) Join(deployment string) {
	s := p.set
	s.mu.Lock()
	var surplus *Peer
	if p.elements != nil {
		surplus = s.insert(p, group{deployment: deployment}, s.limits.PerDeployment)
	}
	s.mu.Unlock()
	s.endAll(surplus)
}

// Done removes the peer: it has authenticated or ended.
func (p *Peer) Done() {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	p.set.remove(p)
	p.set.takeExcess(p)
}

// EndOldest ends a peer at once: the one that has exceeded a limit longest, otherwise the one that has been pending
// longest. It returns false if there is none.
func (s *Set) EndOldest() bool {
	s.mu.Lock()
	var oldest *Peer
	if first := s.excess.Front(); first != nil {
		oldest, _ = first.Value.(*Peer)
		s.takeExcess(oldest)
	} else if all := s.groups[group{}]; all != nil {
		oldest = s.takeOldest(all)
	}
	s.mu.Unlock()
	s.endAll(oldest)
	return oldest != nil
}

// insert adds a peer to a group. If the group exceeds its limit, its oldest peer becomes an excess peer; if there
// are too many of those, insert removes the oldest and returns it.
func (s *Set) insert(p *Peer, g group, limit int) *Peer {
	members := s.groups[g]
	if members == nil {
		members = list.New()
		s.groups[g] = members
	}
	p.elements[g] = members.PushBack(p)
	if members.Len() <= limit {
		return nil
	}
	exceeding := s.takeOldest(members)
	exceeding.excess = s.excess.PushBack(exceeding)
	exceeding.timer = time.AfterFunc(wait.Jitter(excessTime/2, 1), exceeding.expire)
	if s.excess.Len() <= s.limits.Total {
		return nil
	}
	oldest, _ := s.excess.Front().Value.(*Peer)
	s.takeExcess(oldest)
	return oldest
}

// expire ends an excess peer.
func (p *Peer) expire() {
	p.set.mu.Lock()
	remains := p.set.takeExcess(p)
	p.set.mu.Unlock()
	if remains {
		p.set.endAll(p)
	}
}

func (s *Set) takeOldest(members *list.List) *Peer {
	oldest, _ := members.Front().Value.(*Peer)
	s.remove(oldest)
	return oldest
}

// takeExcess removes a peer from the excess peers, or returns false if it is none.
func (s *Set) takeExcess(p *Peer) bool {
	if p.excess == nil {
		return false
	}
	p.timer.Stop()
	s.excess.Remove(p.excess)
	p.excess, p.timer = nil, nil
	return true
}

func (s *Set) remove(p *Peer) {
	if p.elements == nil {
		return
	}
	for g, element := range p.elements {
		members := s.groups[g]
		if members.Remove(element); members.Len() == 0 {
			delete(s.groups, g)
		}
	}
	p.elements = nil
	s.open.Dec()
}

// endAll ends peers that were removed. Elements may be nil.
func (s *Set) endAll(peers ...*Peer) {
	for _, p := range peers {
		if p != nil {
			s.ended.Inc()
			p.end()
		}
	}
}
