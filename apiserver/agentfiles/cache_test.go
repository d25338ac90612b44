package agentfiles

import (
	"testing"

	"github.com/quoin-dev/quoin/internal/agent/project"
)

// TestCache: the cache keeps the projects used last, within both limits.
func TestCache(t *testing.T) {
	c := newCache(2, 10*entryBytes)
	of := func(name string) key { return key{deployment: name} }
	kept := func(want ...string) {
		t.Helper()
		if len(c.entries) != len(want) || c.used.Len() != len(want) {
			t.Errorf("%d entries, %d in the list, want %d", len(c.entries), c.used.Len(), len(want))
		}
		for _, name := range want {
			if c.entries[of(name)] == nil {
				t.Errorf("%s is absent", name)
			}
		}
	}
	p := &project.Project{}
	c.put(of("a"), p, 0)
	c.put(of("b"), p, 0)
	if c.get(of("a")) != p || c.get(of("x")) != nil {
		t.Error("the project is not kept")
	}
	c.put(of("c"), p, 0)
	kept("a", "c")
	c.put(of("a"), &project.Project{}, 0)
	if c.get(of("a")) != p || c.bytes != 2*entryBytes {
		t.Errorf("%d bytes", c.bytes)
	}
	c.put(of("large"), p, 9*entryBytes)
	kept("large")
	c.put(of("too large"), p, 10*entryBytes)
	kept("large")
	if c.bytes != 10*entryBytes {
		t.Errorf("%d bytes", c.bytes)
	}
}
