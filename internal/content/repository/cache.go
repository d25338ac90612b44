package repository

import (
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/content"
)

// Bounds of the cache of a process. Objects are immutable, so entries never expire.
const (
	// maxCachedTrees is the size of the commits and trees in the cache, in bytes; maxCachedBlobs that of
	// the others, which must not displace them.
	maxCachedTrees = 16 << 20
	maxCachedBlobs = 16 << 20
	// maxCachedHeads is the number of objects whose type and size are in the cache.
	maxCachedHeads = 100_000
	// entryBytes is the size of an entry beside its content, roughly.
	entryBytes = 256
)

// cacheKey names an object. Scopes do not share entries: whether another one has an object is not for
// a caller to know.
type cacheKey struct {
	account, deployment string
	hash                plumbing.Hash
}

func keyOf(s content.Scope, hash plumbing.Hash) cacheKey {
	return cacheKey{s.Account.UID, s.Deployment.UID, hash}
}

// head is the type and the size of an object.
type head struct {
	kind plumbing.ObjectType
	size int64
}

// cache has the objects that were read lately.
type cache struct {
	mu           sync.Mutex
	trees, blobs generations[*object] // guarded by mu
	heads        generations[head]    // guarded by mu
}

// object returns an object, if it is in the cache.
func (c *cache) object(key cacheKey) (*object, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o, found := c.trees.get(key, maxCachedTrees); found {
		return o, true
	}
	return c.blobs.get(key, maxCachedBlobs)
}

// head returns the type and the size of an object, if they are in the cache.
func (c *cache) head(key cacheKey) (head, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heads.get(key, maxCachedHeads)
}

// add adds an object.
func (c *cache) add(key cacheKey, o *object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heads.put(key, head{o.kind, o.Size()}, 1, maxCachedHeads)
	if cost := o.Size() + entryBytes; o.kind == plumbing.BlobObject {
		c.blobs.put(key, o, cost, maxCachedBlobs)
	} else {
		c.trees.put(key, o, cost, maxCachedTrees)
	}
}

// addHead adds the type and the size of an object.
func (c *cache) addHead(key cacheKey, h head) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heads.put(key, h, 1, maxCachedHeads)
}

// generations is a cache of bounded cost. When the entries of the young generation have half of it,
// they become the old one, and those of the old one that were not used since are dropped.
type generations[V any] struct {
	young, old map[cacheKey]costed[V]
	cost       int64 // of young
}

type costed[V any] struct {
	value V
	cost  int64
}

func (g *generations[V]) get(key cacheKey, limit int64) (V, bool) {
	if found, ok := g.young[key]; ok {
		return found.value, true
	}
	found, ok := g.old[key]
	if ok {
		g.put(key, found.value, found.cost, limit)
	}
	return found.value, ok
}

func (g *generations[V]) put(key cacheKey, value V, cost, limit int64) {
	if _, exists := g.young[key]; exists || cost > limit/4 {
		return
	}
	if g.young == nil || g.cost+cost > limit/2 {
		g.old, g.young, g.cost = g.young, map[cacheKey]costed[V]{}, 0
	}
	g.young[key] = costed[V]{value, cost}
	g.cost += cost
}
