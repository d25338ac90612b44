package auth

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// expiringCache is a cache of limited size whose entries expire. It is safe for concurrent use.
type expiringCache[V any] struct {
	clock clock.PassiveClock
	keep  time.Duration
	most  int

	mu      sync.Mutex
	answers map[string]answer[V]
}

type answer[V any] struct {
	value V
	until time.Time
}

func newExpiringCache[V any](clk clock.PassiveClock, keep time.Duration, most int) *expiringCache[V] {
	return &expiringCache[V]{clock: clk, keep: keep, most: most, answers: map[string]answer[V]{}}
}

func (m *expiringCache[V]) get(key string) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.answers[key]
	if !ok || !m.clock.Now().Before(a.until) {
		var none V
		return none, false
	}
	return a.value, true
}

func (m *expiringCache[V]) put(key string, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	if _, known := m.answers[key]; !known && len(m.answers) >= m.most {
		m.makeRoom(now)
	}
	m.answers[key] = answer[V]{value, now.Add(m.keep)}
}

// makeRoom deletes expired entries, and arbitrary ones if none has expired.
func (m *expiringCache[V]) makeRoom(now time.Time) {
	for key, a := range m.answers {
		if !now.Before(a.until) {
			delete(m.answers, key)
		}
	}
	for key := range m.answers {
		if len(m.answers) < m.most {
			return
		}
		delete(m.answers, key)
	}
}
