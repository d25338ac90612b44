package token

import (
	"crypto/sha256"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxVerified is the number of tokens in the cache; beyond it the oldest are dropped.
	maxVerified = 8192
	// exchangedReserve is the remaining lifetime of an exchanged token below which it is replaced.
	exchangedReserve = exchangedLifetime / 2
)

// cache holds valid tokens, so that a token that is sent repeatedly is verified only once after
// each read of the keys. It stores digests, not tokens.
type cache struct {
	mu               sync.Mutex
	recent, previous map[digest]verification
}

type digest [sha256.Size]byte

// verification is the result of verifying a token.
type verification struct {
	kind      Kind
	exchanged string
	// keysRead is when the keys were read that verified the token. The entry is invalid for keys
	// that were read at another time.
	keysRead time.Time
	// expires is when the token must be verified again; zero means never.
	expires time.Time
}

func digestOf(environment types.NamespacedName, token string) digest {
	// No name contains a slash, and no token a NUL.
	var buffer [512]byte
	data := append(buffer[:0], environment.Namespace...)
	data = append(append(data, '/'), environment.Name...)
	data = append(append(data, 0), token...)
	return sha256.Sum256(data)
}

// verify returns the cached verification of a token, or verifies it and caches the result.
func (c *cache) verify(environment types.NamespacedName, token string, keys cachedKeys, now time.Time) (verification, error) {
	id := digestOf(environment, token)
	if v, ok := c.get(id); ok && v.keysRead.Equal(keys.read) && (v.expires.IsZero() || now.Before(v.expires)) {
		return v, nil
	}
	kind, claims, err := keys.Check(token, now)
	if err != nil {
		return verification{}, err
	}
	v := verification{kind: kind, keysRead: keys.read}
	if expiry, err := claims.GetExpirationTime(); err == nil && expiry != nil {
		v.expires = expiry.Time
	}
	if kind.May(ofGateway) {
		if v.exchanged, err = keys.Exchange(claims, now); err != nil {
			return verification{}, err
		}
		if replaceAt := now.Add(exchangedLifetime - exchangedReserve); replaceAt.Before(v.expires) {
			v.expires = replaceAt
		}
	}
	c.put(id, v)
	return v, nil
}

func (c *cache) get(id digest) (verification, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.recent[id]; ok {
		return v, true
	}
	v, ok := c.previous[id]
	return v, ok
}

func (c *cache) put(id digest, v verification) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recent == nil || len(c.recent) >= maxVerified/2 {
		c.previous, c.recent = c.recent, make(map[digest]verification)
	}
	c.recent[id] = v
}
