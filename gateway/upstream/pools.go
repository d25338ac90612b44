// Package upstream sends requests to the pods of an environment: it tracks the ready pods, picks
// one, and retries requests that no pod has received.
package upstream

import (
	"iter"
	"net"
	"slices"
	"strconv"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-dev/quoin/internal/engine"
)

// Pools are the pools of all environments.
type Pools struct {
	limits  Limits
	metrics *Metrics

	mu    sync.RWMutex
	pools map[poolKey]*Pool
}

type poolKey struct {
	service types.NamespacedName
	port    string
}

// NewPools returns pools that are empty until Set is called.
func NewPools(limits Limits, m *Metrics) *Pools {
	return &Pools{limits: limits, metrics: m, pools: map[poolKey]*Pool{}}
}

// Get returns the pool of a port of an environment's API pods. It exists, without endpoints,
// before the pods do, so that requests can wait in it.
func (p *Pools) Get(namespace, environment, port string) *Pool {
	return p.pool(poolKey{serviceOf(types.NamespacedName{Namespace: namespace, Name: environment}), port})
}

// serviceOf returns the Service of an environment's API pods.
func serviceOf(environment types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: environment.Namespace, Name: engine.APIName(environment.Name)}
}

func (p *Pools) pool(key poolKey) *Pool {
	p.mu.RLock()
	pool := p.pools[key]
	p.mu.RUnlock()
	if pool != nil {
		return pool
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ensure(key)
}

// ensure returns the pool of a key, which it creates if there is none. p.mu must be locked.
func (p *Pools) ensure(key poolKey) *Pool {
	pool := p.pools[key]
	if pool == nil {
		pool = newPool(p.limits, p.metrics)
		p.pools[key] = pool
	}
	return pool
}

// Set replaces the endpoints of a Service by those of its slices.
func (p *Pools) Set(service types.NamespacedName, slices []*discoveryv1.EndpointSlice) {
	// Locked as a whole: Prune must not remove a pool before it has its endpoints, which would be lost until the slices
	// change again.
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, port := range []string{engine.PortNameHTTP, engine.PortNameSQL} {
		p.ensure(poolKey{service, port}).set(Addresses(slices, port))
	}
}

// Prune removes the pools of all environments but those that exist. A pool with endpoints is kept: its environment may not
// be known yet.
func (p *Pools) Prune(existing iter.Seq[types.NamespacedName]) {
	keep := map[types.NamespacedName]struct{}{}
	for environment := range existing {
		keep[serviceOf(environment)] = struct{}{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, pool := range p.pools {
		if _, exists := keep[key.service]; !exists && pool.isUnused() {
			delete(p.pools, key)
		}
	}
}

// Addresses returns the sorted addresses of the endpoints that accept new connections on a port.
// Terminating endpoints are excluded, even if they are ready: they only finish the requests that
// they have received.
func Addresses(all []*discoveryv1.EndpointSlice, port string) []string {
	var out []string
	for _, slice := range all {
		number, ok := portOf(slice, port)
		if !ok || slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for _, e := range slice.Endpoints {
			ready := e.Conditions.Ready == nil || *e.Conditions.Ready
			terminating := e.Conditions.Terminating != nil && *e.Conditions.Terminating
			if ready && !terminating && len(e.Addresses) > 0 {
				// All addresses of an endpoint belong to the same pod.
				out = append(out, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(number))))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func portOf(slice *discoveryv1.EndpointSlice, name string) (int32, bool) {
	for _, p := range slice.Ports {
		if p.Name != nil && *p.Name == name && p.Port != nil {
			return *p.Port, true
		}
	}
	return 0, false
}
