package directory

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"sync"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// The version of a resource covers what responses show of other objects: which members of a group exist, their
// types and display names, the groups of a user, and the display name of its manager. Those of a user are a few
// values, of which a digest is computed for each response. Of members there may be tens of thousands, so their
// digests are cached for each chunk: a response costs one lookup for each chunk and one for each member in the
// group itself, and a change of a member only requires the digest of its chunks again.
//
// Digests depend only on content, so all replicas return the same version.

// shownChunks are the digests of the members of chunks, by cache key.
type shownChunks struct {
	mu      sync.Mutex
	digests map[string]*shownChunk
}

// shownChunk is a digest; empty until it is computed. A change removes it from shownChunks, so that a digest
// that is being computed from the previous state is not used again.
type shownChunk struct{ digest []byte }

// forget removes the digests of chunks.
func (s *shownChunks) forget(namespace string, chunks ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range chunks {
		delete(s.digests, keyOf(namespace, name))
	}
}

// of returns the digest of a chunk and computes it if necessary.
func (s *shownChunks) of(key string, compute func() []byte) []byte {
	s.mu.Lock()
	known := s.digests[key]
	if known == nil {
		known = &shownChunk{}
		s.digests[key] = known
	}
	digest := known.digest
	s.mu.Unlock()
	if digest != nil {
		return digest
	}
	digest = compute()
	s.mu.Lock()
	known.digest = digest
	s.mu.Unlock()
	return digest
}

// memberChanged removes the digests of the chunks that contain a user or a group, if an event changes what
// responses show of it.
func (d *Directory) memberChanged(before, after v1alpha1.Object) {
	o := after
	switch {
	case before == nil:
	case after == nil:
		o = before
	case before.GetUID() == after.GetUID() && before.GetGeneration() == after.GetGeneration() && isVisible(before) == isVisible(after):
		return
	}
	if chunks, err := d.chunks.With(o.GetNamespace(), o.GetName()); err == nil {
		d.shown.forget(o.GetNamespace(), chunks...)
	}
}

// shownMembers returns the digest of the members of a group that responses show; empty if the view does not
// need them or there are none.
func shownMembers(v *view, s *v1alpha1.ScimGroupSpec, _ schema.Document) string {
	inPlace := s.EffectiveMembers()
	if !v.wants(attributeMembers) || len(inPlace)+len(s.MemberChunks) == 0 {
		return ""
	}
	sum := sha256.New()
	v.d.writeMembers(sum, v.namespace, inPlace)
	for i := range s.MemberChunks {
		name := s.MemberChunks[i].Name
		o, ok, err := v.d.chunks.Informer.GetIndexer().GetByKey(keyOf(v.namespace, name))
		chunk, isChunk := o.(*v1alpha1.ScimMemberChunk)
		if !ok || !isChunk || err != nil {
			write(sum, name) // not cached yet: the digest changes when it is
			continue
		}
		_, _ = sum.Write(v.d.shown.of(keyOf(v.namespace, name), func() []byte {
			members := sha256.New()
			v.d.writeMembers(members, v.namespace, chunk.Spec.Members)
			return members.Sum(nil)
		}))
	}
	return short(sum)
}

// writeMembers writes what responses show of members to a hash.
func (d *Directory) writeMembers(to hash.Hash, namespace string, members []v1alpha1.ScimMember) {
	for i := range members {
		if r, ok := d.resolve(namespace, &members[i]); ok {
			write(to, members[i].Value, string(r.Type), r.Display)
		}
	}
}

// shownOfUser returns the digest of what responses show of the groups and the manager of a user; empty if there
// is nothing.
func shownOfUser(_ *view, s *v1alpha1.ScimUserSpec, d schema.Document) string {
	sum := sha256.New()
	groups, _ := d["groups"].([]any)
	shown := len(groups) > 0
	for _, item := range groups {
		group, _ := item.(map[string]any)
		for _, name := range []string{"value", "display", "type"} {
			value, _ := group[name].(string)
			write(sum, value)
		}
	}
	if s.Enterprise != nil && s.Enterprise.Manager != nil && s.Enterprise.Manager.DisplayName == "" {
		extension, _ := d[schema.EnterpriseURN].(map[string]any)
		manager, _ := extension["manager"].(map[string]any)
		if display, _ := manager["displayName"].(string); display != "" {
			shown = true
			write(sum, display)
		}
	}
	if !shown {
		return ""
	}
	return short(sum)
}

// write writes texts to a hash, so that different lists of texts differ: no text contains the separator.
func write(to hash.Hash, texts ...string) {
	for _, text := range texts {
		_, _ = to.Write([]byte(text))
		_, _ = to.Write([]byte{0})
	}
}

// short returns a part of a digest that is sufficient for a version.
func short(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)[:6]) }
