package auth

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// memory remembers answers for a while, and no more than a number of them. Its methods may be
// called from several goroutines.
type memory[V any] struct {
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

func newMemory[V any](clk clock.PassiveClock, keep time.Duration, most int) *memory[V] {
	return &memory[V]{clock: clk, keep: keep, most: most, answers: map[string]answer[V]{}}
}

func (m *memory[V]) get(key string) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.answers[key]
	if !ok || !m.clock.Now().Before(a.until) {
		var none V
		return none, false
	}
	return a.value, true
}

func (m *memory[V]) put(key string, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	if _, known := m.answers[key]; !known && len(m.answers) >= m.most {
		m.makeRoom(now)
	}
	m.answers[key] = answer[V]{value, now.Add(m.keep)}
}

// makeRoom forgets what is out of date, or else anything.
func (m *memory[V]) makeRoom(now time.Time) {
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
