// Package membership stores the members of SCIM groups: a few in the ScimGroup itself, as written in
// a manifest, and all others in immutable ScimMemberChunks that the group refers to.
//
// Members is the attribute members of one group. A change of it goes through layout, which plans the
// chunks (pure), and Session.Save, which writes the new chunks before the group refers to them. Its
// cost does not grow with the size of the group.
package membership

import (
	"cmp"
	"context"
	"slices"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// Types of members.
const (
	TypeUser  = v1alpha1.ScimMemberType("User")
	TypeGroup = v1alpha1.ScimMemberType("Group")
)

// TypeOf returns the declared type of a member; User if there is none.
func TypeOf(m *v1alpha1.ScimMember) v1alpha1.ScimMemberType { return cmp.Or(m.Type, TypeUser) }

// Resolved is the user or group that a member refers to.
type Resolved struct {
	// Type is the actual type.
	Type v1alpha1.ScimMemberType
	// Display is the display name; may be empty.
	Display string
}

// Session reads and changes the members of groups on behalf of one request. It is not safe for
// concurrent use.
type Session struct {
	// Context is the context of the request.
	Context context.Context
	// Chunks are the chunks of all groups.
	Chunks *Chunks
	// Namespace is the namespace of the groups.
	Namespace string
	// Resolve returns what a member refers to, and false if that does not exist.
	Resolve func(*v1alpha1.ScimMember) (Resolved, bool)
	// Unresolved includes members that refer to nothing. Changes need them; readers do not see them.
	Unresolved bool

	err     error
	written []*writtenChunk
	// ensured are the resource versions of chunks that earlier attempts of the request have written, by name.
	ensured map[string]string
}

// Continue lets the session use the chunks that an earlier attempt of the same request has written: the request ends
// long before they could be deleted as unused. It is called before End of that attempt.
func (s *Session) Continue(earlier *Session) {
	s.ensured = earlier.ensured
	for _, w := range earlier.written {
		if w.resourceVersion == "" {
			continue
		}
		if s.ensured == nil {
			s.ensured = map[string]string{}
		}
		s.ensured[w.name] = w.resourceVersion
	}
}

// fail keeps the first error.
func (s *Session) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// Err returns the first error of methods that cannot return one, such as those of Members. After an
// error the members that were read are incomplete.
func (s *Session) Err() error { return s.err }

// WaitForCache waits until the cache has all chunks that were written. It is best-effort.
func (s *Session) WaitForCache() {
	for _, w := range s.written {
		w.Version(s.Context, w.resourceVersion)
	}
}

// End releases the expectations of written chunks. The session may be used for another change.
func (s *Session) End() {
	for _, w := range s.written {
		w.End()
	}
	s.written = nil
}

// Save writes the new chunks of a changed group and sets the members in its spec. value is the
// attribute members of the group's document: Members; a list or schema.Elements for a new group. Save
// returns the changes for the audit log.
func (s *Session) Save(spec *v1alpha1.ScimGroupSpec, value any) (changes map[string]any, err error) {
	m := s.edited(spec, value)
	return s.save(spec, m)
}

// SaveRemovals is like Save, but only removes members. It returns nil if none is removed.
func (s *Session) SaveRemovals(spec *v1alpha1.ScimGroupSpec, value any) (changes map[string]any, err error) {
	m := s.edited(spec, value)
	kept := s.Members(spec)
	for stored := range s.Members(spec).References() {
		if m.current(stored.Value) == nil {
			kept.Delete(stored.Value)
		}
	}
	if len(kept.edits) == 0 {
		return nil, m.err
	}
	kept.err = m.err
	return s.save(spec, kept)
}

// edited returns the members of a document: Members, or new ones with the elements of another value.
func (s *Session) edited(spec *v1alpha1.ScimGroupSpec, value any) *Members {
	m, ok := value.(*Members)
	if !ok {
		m = s.Members(spec)
		m.Clear()
		schema.Fill(m, value)
	}
	return m
}

// save writes the new chunks and sets the members in the spec.
func (s *Session) save(spec *v1alpha1.ScimGroupSpec, m *Members) (changes map[string]any, err error) {
	if m.err != nil {
		return nil, m.err
	}
	after := m.layout()
	if s.err != nil { // incomplete members must not be written
		return nil, s.err
	}
	if len(after.parts) > maxReferences {
		return nil, scimerror.Bad(scimerror.InvalidValue, "members: a group has at most %d", maxMembers)
	}
	if !slices.Equal(after.listed, spec.Members) {
		spec.Members = after.listed
	}
	if !slices.Equal(after.removed, spec.RemovedMembers) {
		spec.RemovedMembers = after.removed
	}
	references, err := s.write(after.parts)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(references, spec.Chunks()) {
		spec.SetChunks(references)
	}
	return m.changes(), nil
}
