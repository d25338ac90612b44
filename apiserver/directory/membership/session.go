// Package membership stores the members of SCIM groups: those that a manifest lists and those that were added last in the ScimGroup
// itself, and all others in immutable ScimMemberChunks that the group refers to. A reference has the positions in the chunk of members
// that were removed.
//
// Members is the attribute members of one group. A change of it goes through layout, which plans where they are
// stored (pure), and Session.Save, which writes the new chunks before the group refers to them. Its
// cost does not grow with the size of the group.
package membership

import (
	"cmp"
	"context"
	"slices"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/fairsemaphore"
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
	// Account is the name of the account, with which others take turns.
	Account string
	// Namespace is the namespace of the groups.
	Namespace string
	// Resolve returns what a member refers to, and false if that does not exist.
	Resolve func(*v1alpha1.ScimMember) (Resolved, bool)
	// Unresolved includes members that refer to nothing. Changes need them; readers do not see them.
	Unresolved bool

	err     error
	written []*writtenChunk
	// turn is that of a long change; nil for other work. steps counts its steps.
	turn  *fairsemaphore.Turn
	steps int
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
	end, err := s.begin(value)
	if err != nil {
		return nil, err
	}
	defer end()
	m := s.edited(spec, value)
	return s.save(spec, m, end)
}

// Steps of a change.
const (
	// shortChange is the number of changed members up to which a change needs no turn.
	shortChange = 1000
	// changedStep is the number of changed members after which the work of other accounts may run.
	changedStep = 256
)

// begin begins a change, in turns with the work of other accounts if it is long. The caller must call end, which may be called
// again.
func (s *Session) begin(value any) (end func(), err error) {
	n := 0
	switch value := value.(type) {
	case *Members:
		n = len(value.edits)
	case *schema.Elements:
		n = value.Len()
	case []any:
		n = len(value)
	}
	turn, err := fairsemaphore.Processors.BeginIf(s.Context, n > shortChange, s.Account)
	if err != nil {
		return nil, err
	}
	s.turn = turn
	return func() {
		turn.End()
		s.turn = nil
	}, nil
}

// next lets the work of other accounts run, and reports whether the change goes on.
func (s *Session) next() bool {
	s.steps++
	return s.turn == nil || s.steps%changedStep != 0 || s.turn.Yield() == nil
}

// SaveRemovals is like Save, but only removes members. It returns nil if none is removed.
func (s *Session) SaveRemovals(spec *v1alpha1.ScimGroupSpec, value any) (changes map[string]any, err error) {
	end, err := s.begin(value)
	if err != nil {
		return nil, err
	}
	defer end()
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
	return s.save(spec, kept, end)
}

// edited returns the members of a document: Members, or new ones with the elements of another value.
func (s *Session) edited(spec *v1alpha1.ScimGroupSpec, value any) *Members {
	m, ok := value.(*Members)
	if !ok {
		m = s.Members(spec)
		m.Clear()
		schema.Fill(m, value, s.next)
	}
	return m
}

// save writes the new chunks and sets the members in the spec. It calls end before it writes.
func (s *Session) save(spec *v1alpha1.ScimGroupSpec, m *Members, end func()) (changes map[string]any, err error) {
	if m.err != nil {
		return nil, m.err
	}
	after := m.layout()
	end()
	if err := cmp.Or(s.err, s.Context.Err()); err != nil { // incomplete members must not be written
		return nil, err
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
	references = withRemoved(references, after.parts)
	if !slices.Equal(references, spec.Chunks()) {
		spec.SetChunks(references)
	}
	spec.SetChanges(after.added, after.unplaced)
	return m.changes(), nil
}
