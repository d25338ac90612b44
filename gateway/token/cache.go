package token

import (
	"crypto/sha256"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxChecked bounds how many tokens are remembered; beyond it the oldest are forgotten.
	maxChecked = 8192
	// relayReserve is what a token that takes another's place must have left.
	relayReserve = relayed / 2
)

// memory remembers tokens that were good, so that one that is sent many times is verified once
// for each time that the keys are read. It holds their digests, not the tokens.
type memory struct {
	mu         sync.Mutex
	young, old map[digest]checked
}

type digest [sha256.Size]byte

// checked is what is known of a token.
type checked struct {
	kind  Kind
	relay string
	// keys is when the keys were read that it was verified with: with others it counts for
	// nothing.
	keys time.Time
	// end is when it has to be looked at again; zero is never.
	end time.Time
}

func digestOf(environment types.NamespacedName, token string) digest {
	// No name holds a slash, and no token a zero.
	var room [512]byte
	data := append(room[:0], environment.Namespace...)
	data = append(append(data, '/'), environment.Name...)
	data = append(append(data, 0), token...)
	return sha256.Sum256(data)
}

// check verifies a token, or remembers it.
func (m *memory) check(environment types.NamespacedName, token string, keys heldKeys, now time.Time) (checked, error) {
	id := digestOf(environment, token)
	if c, ok := m.get(id); ok && c.keys.Equal(keys.read) && (c.end.IsZero() || now.Before(c.end)) {
		return c, nil
	}
	kind, claims, err := keys.Check(token, now)
	if err != nil {
		return checked{}, err
	}
	c := checked{kind: kind, keys: keys.read}
	if expiry, err := claims.GetExpirationTime(); err == nil && expiry != nil {
		c.end = expiry.Time
	}
	if kind == Metadata {
		if c.relay, err = keys.Relay(claims, now); err != nil {
			return checked{}, err
		}
		if again := now.Add(relayed - relayReserve); again.Before(c.end) {
			c.end = again
		}
	}
	m.put(id, c)
	return c, nil
}

func (m *memory) get(id digest) (checked, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.young[id]; ok {
		return c, true
	}
	c, ok := m.old[id]
	return c, ok
}

func (m *memory) put(id digest, c checked) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.young == nil || len(m.young) >= maxChecked/2 {
		m.old, m.young = m.young, make(map[digest]checked)
	}
	m.young[id] = c
}
