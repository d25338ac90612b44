package kube

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writeID names one object of one kind.
type writeID struct {
	kind schema.GroupKind
	key  client.ObjectKey
}

// writes remembers the resource version of each write until a read has seen it.
type writes struct {
	mu       sync.Mutex
	versions map[writeID]string
}

func newWrites() *writes { return &writes{versions: map[writeID]string{}} }

// remember notes that id was written at a resource version.
func (w *writes) remember(id writeID, version string) {
	if version == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if old, ok := w.versions[id]; ok && !Older(old, version) {
		return
	}
	w.versions[id] = version
}

// behind tells whether a copy of id at the resource version seen (empty: no copy) is older
// than the last write. A copy that is not behind ends the memory of that write.
func (w *writes) behind(id writeID, seen string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	written, ok := w.versions[id]
	if !ok {
		return false
	}
	if seen == "" || Older(seen, written) {
		return true
	}
	delete(w.versions, id)
	return false
}

func (w *writes) forget(id writeID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.versions, id)
}

// Older compares resource versions, which Kubernetes guarantees to be comparable integers.
// Versions that are not comparable count as not older: reads then are as fresh as the cache.
func Older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
