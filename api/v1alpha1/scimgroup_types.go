package v1alpha1

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ScimMemberType is the type of a member of a group.
// +kubebuilder:validation:Enum=User;Group
type ScimMemberType string

// ScimMember is a member of a group (RFC 7643 section 4.2).
type ScimMember struct {
	// value is the id of the user or group, which is the object's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Value string `json:"value"`
	// type of the member; User when absent.
	// +optional
	Type ScimMemberType `json:"type,omitempty"`
	// display is the text in user interfaces.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Display string `json:"display,omitempty"`
}

// ScimMemberChunkReference refers to a ScimMemberChunk.
type ScimMemberChunkReference struct {
	// name of the ScimMemberChunk.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// count of the members in the chunk.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +required
	Count int32 `json:"count"`
	// removed are the positions in the chunk of members that are not members of the group, from 0, in ascending order and
	// separated by commas. It is written over SCIM only: manifests must not contain it.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[0-9]{1,3}(,[0-9]{1,3})*$`
	// +optional
	Removed string `json:"removed,omitempty"`
}

// SetRemoved sets the positions of the members that are not members of the group, which must be in ascending order.
func (r *ScimMemberChunkReference) SetRemoved(positions []int) {
	var text []byte
	for i, p := range positions {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(p), 10)
	}
	r.Removed = string(text)
}

// RemovedPositions iterates over the positions in removed. What is not a number is ignored.
func (r *ScimMemberChunkReference) RemovedPositions() iter.Seq[int] {
	return func(yield func(int) bool) {
		if r.Removed == "" {
			return
		}
		for text := range strings.SplitSeq(r.Removed, ",") {
			if p, err := strconv.ParseUint(text, 10, 16); err == nil && !yield(int(p)) {
				return
			}
		}
	}
}

// Removes reports whether the member at a position of the chunk is not a member of the group.
func (r *ScimMemberChunkReference) Removes(position int) bool {
	for p := range r.RemovedPositions() {
		if p == position {
			return true
		}
	}
	return false
}

// MembersIn returns the members of the chunk, which is that of the reference, that are members of the group. It must not be modified.
func (r *ScimMemberChunkReference) MembersIn(chunk *ScimMemberChunkSpec) []ScimMember {
	all := chunk.AllMembers()
	if r.Removed == "" {
		return all
	}
	removed := make(map[int]bool, strings.Count(r.Removed, ",")+1)
	for p := range r.RemovedPositions() {
		removed[p] = true
	}
	members := make([]ScimMember, 0, len(all))
	for i := range all {
		if !removed[i] {
			members = append(members, all[i])
		}
	}
	return members
}

// ScimGroupSpec is the desired state of a ScimGroup: a SCIM 2.0 Group (RFC 7643 section 4.2).
type ScimGroupSpec struct {
	// displayName is unique in the account, ignoring case.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +required
	DisplayName string `json:"displayName"`
	// externalId is the identifier of the provisioning client.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	ExternalID string `json:"externalId,omitempty"`
	// accountRoles of the members, direct and indirect: names of AccountRole objects and of built-in roles. A role that
	// does not exist has no effect.
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +optional
	AccountRoles []AccountRoleReference `json:"accountRoles,omitempty"`
	// members of a group that is written as YAML.
	// +listType=map
	// +listMapKey=value
	// +kubebuilder:validation:MaxItems=1000
	// +optional
	Members []ScimMember `json:"members,omitempty"`
	// removedMembers are the ids in members that a SCIM client has removed: they are not members while they
	// are listed here. It is written over SCIM only: manifests must not contain it.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	RemovedMembers []string `json:"removedMembers,omitempty"`
	// memberChunkList refers to the members of a large group that is written over SCIM. Each line has the name of
	// a ScimMemberChunk, the number of its members and, if some of them are not members of the group, their positions in it, from 0:
	// "NAME 1000 3,17". The API server handles one string of a thousand lines at a fraction of the cost of a list.
	// +kubebuilder:validation:MaxLength=262144
	// +optional
	MemberChunkList string `json:"memberChunkList,omitempty"`
	// memberChanges are the users that were added last, a line each: "+" and the id of a user that is a member besides those in
	// chunks. A change of one member only writes the group. "-" and the id of a member of a chunk that is not a member is how earlier
	// versions stored it. It is written over SCIM only: manifests must not contain it.
	// +kubebuilder:validation:MaxLength=131072
	// +optional
	MemberChanges string `json:"memberChanges,omitempty"`
	// memberChunks are references like those of memberChunkList, as they were stored by earlier versions.
	// The next change of the chunks moves them there.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +optional
	MemberChunks []ScimMemberChunkReference `json:"memberChunks,omitempty"`
	// extensions are attributes of additional schemas.
	// +listType=map
	// +listMapKey=schema
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Extensions []ScimExtension `json:"extensions,omitempty"`
}

// ScimGroupStatus is the observed state of a ScimGroup.
type ScimGroupStatus struct {
	CommonStatus `json:",inline"`

	// memberCount is the number of members that exist.
	// +optional
	MemberCount int32 `json:"memberCount,omitempty"`
	// removedMembers is spec.removedMembers as a SCIM client wrote it. If the object is replaced by one
	// without it, such as with kubectl replace, spec.removedMembers is restored.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	RemovedMembers []string `json:"removedMembers,omitempty"`
	// lastModified is the time of the last change of an attribute.
	// +optional
	LastModified *metav1.Time `json:"lastModified,omitempty"`
}

// ScimGroup is a group of users of an account. Its name is the SCIM id.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=sgrp,categories=quoin
// +kubebuilder:selectablefield:JSONPath=`.spec.displayName`
// +kubebuilder:selectablefield:JSONPath=`.spec.externalId`
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.displayName`
// +kubebuilder:printcolumn:name="Members",type=integer,JSONPath=`.status.memberCount`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ScimGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ScimGroupSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status ScimGroupStatus `json:"status,omitempty"`
}

// Common implements Object.
func (g *ScimGroup) Common() *CommonStatus { return &g.Status.CommonStatus }

// ScimGroupList is a list of ScimGroups.
//
// +kubebuilder:object:root=true
type ScimGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ScimGroup `json:"items"`
}

// ScimMemberChunkSpec is the content of a ScimMemberChunk.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.members) || has(self.users)",message="members or users is required"
type ScimMemberChunkSpec struct {
	// users are the ids of members that are users, a line each. The API server handles one string at a
	// fraction of the cost of a list.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	// +optional
	Users string `json:"users,omitempty"`
	// members of the chunk that are not in users, such as groups.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +optional
	Members []ScimMember `json:"members,omitempty"`
}

// ScimMemberChunk is an immutable part of the members of a large ScimGroup, named by a hash of its
// content. Users do not write ScimMemberChunks.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=schunk
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ScimMemberChunk struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the content.
	// +required
	Spec ScimMemberChunkSpec `json:"spec"`
}

// ScimMemberChunkList is a list of ScimMemberChunks.
//
// +kubebuilder:object:root=true
type ScimMemberChunkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ScimMemberChunk `json:"items"`
}

// EffectiveMembers returns the members in the group itself: members without removedMembers, and the users that memberChanges adds.
// A member may be among both. It must not be modified.
func (s *ScimGroupSpec) EffectiveMembers() []ScimMember {
	listed := s.ListedMembers()
	added, _ := s.Changes()
	if len(added) == 0 {
		return listed
	}
	effective := make([]ScimMember, 0, len(listed)+len(added))
	effective = append(effective, listed...)
	for _, id := range added {
		effective = append(effective, ScimMember{Value: id})
	}
	return effective
}

// ListedMembers returns members without removedMembers. It must not be modified.
func (s *ScimGroupSpec) ListedMembers() []ScimMember {
	if len(s.RemovedMembers) == 0 {
		return s.Members
	}
	removed := make(map[string]bool, len(s.RemovedMembers))
	for _, value := range s.RemovedMembers {
		removed[value] = true
	}
	effective := make([]ScimMember, 0, len(s.Members))
	for i := range s.Members {
		if !removed[s.Members[i].Value] {
			effective = append(effective, s.Members[i])
		}
	}
	return effective
}

// Prefixes of the lines of memberChanges.
const (
	addedPrefix   = "+"
	removedPrefix = "-"
)

// Changes returns the ids in memberChanges: of users that are members whatever the chunks contain, and of members of chunks
// that are not members of the group.
func (s *ScimGroupSpec) Changes() (added, removed []string) {
	if s.MemberChanges == "" {
		return nil, nil
	}
	for line := range strings.SplitSeq(s.MemberChanges, "\n") {
		if id, ok := strings.CutPrefix(line, addedPrefix); ok && id != "" {
			added = append(added, id)
		} else if id, ok := strings.CutPrefix(line, removedPrefix); ok && id != "" {
			removed = append(removed, id)
		}
	}
	return added, removed
}

// SetChanges replaces memberChanges. No id may contain a line break.
func (s *ScimGroupSpec) SetChanges(added, removed []string) {
	var changes strings.Builder
	write := func(prefix string, ids []string) {
		for _, id := range ids {
			changes.WriteString(prefix)
			changes.WriteString(id)
			changes.WriteByte('\n')
		}
	}
	write(addedPrefix, added)
	write(removedPrefix, removed)
	s.MemberChanges = changes.String()
}

// AddsMember reports whether memberChanges adds a user.
func (s *ScimGroupSpec) AddsMember(id string) bool { return s.changes(addedPrefix, id) }

// RemovesMember reports whether memberChanges removes a member of a chunk.
func (s *ScimGroupSpec) RemovesMember(id string) bool { return s.changes(removedPrefix, id) }

// changes reports whether memberChanges has a line. Unlike Changes it does not copy the others.
func (s *ScimGroupSpec) changes(prefix, id string) bool {
	if id == "" || strings.Contains(id, "\n") {
		return false
	}
	all, line := s.MemberChanges, prefix+id
	return strings.Contains(all, "\n"+line+"\n") || strings.HasPrefix(all, line+"\n") || strings.HasSuffix(all, "\n"+line) || all == line
}

// AnyMember reports whether a function is true for one of the members in the group itself with an id.
func (s *ScimGroupSpec) AnyMember(id string, is func(*ScimMember) bool) bool {
	if s.AddsMember(id) && is(&ScimMember{Value: id}) {
		return true
	}
	listed := s.ListedMembers()
	for i := range listed {
		if listed[i].Value == id && is(&listed[i]) {
			return true
		}
	}
	return false
}

// LostRemovedMembers returns the members that a SCIM client has removed, and that a replacement of the object by one without
// spec.removedMembers made members again.
func (g *ScimGroup) LostRemovedMembers() []string {
	if len(g.Status.RemovedMembers) == 0 || len(g.Spec.RemovedMembers) > 0 || HasSCIMWrite(g) {
		return nil
	}
	listed := make(map[string]bool, len(g.Spec.Members))
	for i := range g.Spec.Members {
		listed[g.Spec.Members[i].Value] = true
	}
	return slices.DeleteFunc(slices.Clone(g.Status.RemovedMembers), func(id string) bool { return !listed[id] })
}

// Size returns the number of members, visible or not.
func (s *ScimGroupSpec) Size() int {
	added, removed := s.Changes()
	n := len(s.Members) + len(added) - len(removed)
	for _, chunk := range s.Chunks() {
		n += int(chunk.Count)
		if chunk.Removed != "" {
			n -= strings.Count(chunk.Removed, ",") + 1
		}
	}
	return max(n, 0)
}

// Chunks returns the references of memberChunkList and memberChunks, the first one to each chunk. A line that has no valid count
// refers to a chunk of unknown size, 0.
func (s *ScimGroupSpec) Chunks() []ScimMemberChunkReference {
	if s.MemberChunkList == "" && len(s.MemberChunks) == 0 {
		return nil
	}
	n := strings.Count(s.MemberChunkList, "\n") + 1 + len(s.MemberChunks)
	references, known := make([]ScimMemberChunkReference, 0, n), make(map[string]bool, n)
	add := func(r ScimMemberChunkReference) {
		if !known[r.Name] {
			known[r.Name] = true
			references = append(references, r)
		}
	}
	for line := range strings.SplitSeq(s.MemberChunkList, "\n") {
		if line == "" {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		size, removed, _ := strings.Cut(rest, " ")
		count, err := strconv.ParseInt(size, 10, 32)
		if err != nil || count < 0 {
			count = 0
		}
		add(ScimMemberChunkReference{Name: name, Count: int32(count), Removed: removed})
	}
	for i := range s.MemberChunks {
		add(s.MemberChunks[i])
	}
	return references
}

// SetChunks replaces the references.
func (s *ScimGroupSpec) SetChunks(references []ScimMemberChunkReference) {
	var list strings.Builder
	for _, reference := range references {
		list.WriteString(reference.Name)
		list.WriteByte(' ')
		list.WriteString(strconv.Itoa(int(reference.Count)))
		if reference.Removed != "" {
			list.WriteByte(' ')
			list.WriteString(reference.Removed)
		}
		list.WriteByte('\n')
	}
	s.MemberChunkList, s.MemberChunks = list.String(), nil
}

// RemovesFrom reports whether the member at a position of a chunk is not a member of the group. Unlike Chunks it does not read the
// references of other chunks.
func (s *ScimGroupSpec) RemovesFrom(chunk string, position int) bool {
	list := s.MemberChunkList
	for at := 0; chunk != ""; {
		i := strings.Index(list[at:], chunk)
		if i < 0 {
			break
		}
		start := at + i
		end := start + len(chunk)
		if (start == 0 || list[start-1] == '\n') && (end == len(list) || list[end] == ' ' || list[end] == '\n') {
			line, _, _ := strings.Cut(list[end:], "\n")
			_, removed, _ := strings.Cut(strings.TrimPrefix(line, " "), " ")
			return (&ScimMemberChunkReference{Removed: removed}).Removes(position)
		}
		at = start + 1
	}
	for i := range s.MemberChunks {
		if s.MemberChunks[i].Name == chunk {
			return s.MemberChunks[i].Removes(position)
		}
	}
	return false
}

// SetMembers sets the members of a chunk. Users are stored in one string if their ids fit in a line.
func (s *ScimMemberChunkSpec) SetMembers(members []ScimMember) {
	s.Users, s.Members = "", nil
	var users strings.Builder
	for _, m := range members {
		if m.Type == "" && m.Display == "" && !strings.Contains(m.Value, "\n") {
			users.WriteString(m.Value)
			users.WriteByte('\n')
		} else {
			s.Members = append(s.Members, m)
		}
	}
	s.Users = users.String()
}

// AllMembers returns the members of a chunk: those in members and in users, in the order of their ids if
// they were set by SetMembers in that order. It must not be modified.
func (s *ScimMemberChunkSpec) AllMembers() []ScimMember {
	if s.Users == "" {
		return s.Members
	}
	all := make([]ScimMember, 0, strings.Count(s.Users, "\n")+1+len(s.Members))
	for value := range strings.SplitSeq(s.Users, "\n") {
		if value != "" {
			all = append(all, ScimMember{Value: value})
		}
	}
	if len(s.Members) > 0 {
		all = append(all, s.Members...)
		slices.SortFunc(all, func(x, y ScimMember) int { return strings.Compare(x.Value, y.Value) })
	}
	return all
}

// HasUser reports whether a user is in a chunk. It is faster than AllMembers.
func (s *ScimMemberChunkSpec) HasUser(id string) bool {
	inUsers := strings.Contains(s.Users, id) && // fast, and false for nearly all ids
		slices.Contains(strings.Split(s.Users, "\n"), id)
	return inUsers || slices.ContainsFunc(s.Members, func(m ScimMember) bool { return m.Value == id && m.Type != "Group" })
}
