package v1alpha1

import (
	"slices"
	"strconv"
	"strings"
)

// EffectiveMembers returns members without removedMembers. It must not be modified.
func (s *ScimGroupSpec) EffectiveMembers() []ScimMember {
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

// Size returns the number of members, visible or not.
func (s *ScimGroupSpec) Size() int {
	n := len(s.Members)
	for _, chunk := range s.Chunks() {
		n += int(chunk.Count)
	}
	return n
}

// Chunks returns the references of memberChunkList and memberChunks. A line that has no valid count refers
// to a chunk of unknown size, 0.
func (s *ScimGroupSpec) Chunks() []ScimMemberChunkReference {
	if s.MemberChunkList == "" {
		return s.MemberChunks
	}
	references := make([]ScimMemberChunkReference, 0, strings.Count(s.MemberChunkList, "\n")+1+len(s.MemberChunks))
	for line := range strings.SplitSeq(s.MemberChunkList, "\n") {
		if line == "" {
			continue
		}
		name, size, _ := strings.Cut(line, " ")
		count, err := strconv.ParseInt(size, 10, 32)
		if err != nil || count < 0 {
			count = 0
		}
		references = append(references, ScimMemberChunkReference{Name: name, Count: int32(count)})
	}
	return append(references, s.MemberChunks...)
}

// SetChunks replaces the references.
func (s *ScimGroupSpec) SetChunks(references []ScimMemberChunkReference) {
	var list strings.Builder
	for _, reference := range references {
		list.WriteString(reference.Name)
		list.WriteByte(' ')
		list.WriteString(strconv.Itoa(int(reference.Count)))
		list.WriteByte('\n')
	}
	s.MemberChunkList, s.MemberChunks = list.String(), nil
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
