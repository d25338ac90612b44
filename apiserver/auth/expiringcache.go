package auth

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// expiringCache is a cache of limited size whose entries expire. It is safe for concurrent use.
type expiringCache[K comparable, V any] struct {
	clock      clock.PassiveClock
	ttl        time.Duration
	maxEntries int

	mu      sync.Mutex
	entries map[K]entry[V]
}

type entry[V any] struct {
	value   V
	expires time.Time
}

func newExpiringCache[K comparable, V any](clk clock.PassiveClock, ttl time.Duration, maxEntries int) *expiringCache[K, V] {
	return &expiringCache[K, V]{clock: clk, ttl: ttl, maxEntries: maxEntries, entries: map[K]entry[V]{}}
}

func (c *expiringCache[K, V]) get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok || !c.clock.Now().Before(e.expires) {
		var none V
		return none, false
	}
	return e.value, true
}

func (c *expiringCache[K, V]) put(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if _, known := c.entries[key]; !known && len(c.entries) >= c.maxEntries {
		c.makeRoom(now)
	}
	c.entries[key] = entry[V]{value, now.Add(c.ttl)}
}

func (c *expiringCache[K, V]) delete(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}

// makeRoom deletes expired entries, and arbitrary ones if none has expired.
func (c *expiringCache[K, V]) makeRoom(now time.Time) {
	for key, e := range c.entries {
		if !now.Before(e.expires) {
			delete(c.entries, key)
		}
	}
	for key := range c.entries {
		if len(c.entries) < c.maxEntries {
			return
		}
		delete(c.entries, key)
	}
}
