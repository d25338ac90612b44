package agentfiles

import (
	"container/list"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/agent/project"
)

const (
	// maxProjects is the maximum number of projects that are kept.
	maxProjects = 1000
	// maxCachedBytes is the maximum size of the files of all projects that are kept; projects take about as much.
	maxCachedBytes = 32 << 20
	// entryBytes is the size of a project without files.
	entryBytes = 1 << 10
)

// key identifies a project. A commit does not change.
type key struct {
	deployment   string
	commit       plumbing.Hash
	root, folder string
}

// cache keeps the projects that were used last. It is safe for concurrent use.
type cache struct {
	most      int
	mostBytes int64

	mu      sync.Mutex
	entries map[key]*list.Element // guarded by mu
	used    *list.List            // guarded by mu; of entry, that used last in front
	bytes   int64                 // guarded by mu
}

type entry struct {
	key
	project *project.Project
	bytes   int64
}

func newCache(most int, mostBytes int64) *cache {
	return &cache{most: most, mostBytes: mostBytes, entries: map[key]*list.Element{}, used: list.New()}
}

// get returns a project; nil if it is not kept.
func (c *cache) get(k key) *project.Project {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[k]
	if e == nil {
		return nil
	}
	c.used.MoveToFront(e)
	return e.Value.(entry).project //nolint:forcetypeassert // the list has no other values
}

// put keeps a project with files of a size.
func (c *cache) put(k key, p *project.Project, size int64) {
	size += entryBytes
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[k] != nil || size > c.mostBytes {
		return
	}
	c.entries[k] = c.used.PushFront(entry{k, p, size})
	c.bytes += size
	for len(c.entries) > c.most || c.bytes > c.mostBytes {
		last := c.used.Back()
		old := c.used.Remove(last).(entry) //nolint:forcetypeassert // the list has no other values
		delete(c.entries, old.key)
		c.bytes -= old.bytes
	}
}
