package directory

import (
	"cmp"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// The kinds of members.
const (
	typeUser  = v1alpha1.ScimMemberType("User")
	typeGroup = v1alpha1.ScimMemberType("Group")
)

// maxNesting bounds how many groups within each other are followed.
const maxNesting = 16

// resolved is what a member's reference names.
type resolved struct {
	kind    v1alpha1.ScimMemberType
	display string
}

// resolve finds what a reference names, in the cache. A user and a group may have the same name:
// then the type that is written down decides.
func (d *Directory) resolve(namespace string, m *v1alpha1.ScimMember) (resolved, bool) {
	if m.Type == typeGroup {
		if r, ok := d.resolveGroup(namespace, m.Value); ok {
			return r, true
		}
	}
	if u := d.users.visible(namespace, m.Value); u != nil {
		return resolved{typeUser, cmp.Or(u.Spec.DisplayName, u.Spec.UserName)}, true
	}
	return d.resolveGroup(namespace, m.Value)
}

func (d *Directory) resolveGroup(namespace, id string) (resolved, bool) {
	g := d.groups.visible(namespace, id)
	if g == nil {
		return resolved{}, false
	}
	return resolved{typeGroup, g.Spec.DisplayName}, true
}

// referrers are the groups whose members name an id, whether they are visible or not.
func (d *Directory) referrers(namespace, id string) []*v1alpha1.ScimGroup {
	groups := indexed[*v1alpha1.ScimGroup](d.groups.informer, indexMember, namespace, id)
	for _, chunk := range indexed[*v1alpha1.ScimMemberChunk](d.chunks, indexMember, namespace, id) {
		groups = append(groups, indexed[*v1alpha1.ScimGroup](d.groups.informer, indexChunk, namespace, chunk.Name)...)
	}
	slices.SortFunc(groups, func(x, y *v1alpha1.ScimGroup) int { return strings.Compare(x.Name, y.Name) })
	return slices.CompactFunc(groups, func(x, y *v1alpha1.ScimGroup) bool { return x.Name == y.Name })
}

// groupsWith are the visible groups that a user or group is a member of, by id.
func (d *Directory) groupsWith(v *view, id string, kind v1alpha1.ScimMemberType) []*v1alpha1.ScimGroup {
	groups := d.referrers(v.namespace, id)
	ambiguous := d.users.visible(v.namespace, id) != nil && d.groups.visible(v.namespace, id) != nil
	return slices.DeleteFunc(groups, func(g *v1alpha1.ScimGroup) bool {
		if !isVisible(g) {
			return true
		}
		if !ambiguous {
			return false
		}
		m := newMembers(v, &g.Spec).base(id)
		return m == nil || typeOf(m) != kind
	})
}

// typeOf is what a member is said to be.
func typeOf(m *v1alpha1.ScimMember) v1alpha1.ScimMemberType { return cmp.Or(m.Type, typeUser) }

// groupsOfUser is the attribute groups of a User: those that it is a member of itself, and then
// those that it is in because a group of its is.
func groupsOfUser(v *view, id string, _ *v1alpha1.ScimUserSpec) any {
	var elements []any
	known := map[string]bool{}
	level := v.d.groupsWith(v, id, typeUser)
	for depth := 0; depth < maxNesting && len(level) > 0; depth++ {
		kind := "direct"
		if depth > 0 {
			kind = "indirect"
		}
		var above []*v1alpha1.ScimGroup
		for _, g := range level {
			if known[g.Name] { // another way leads to it, or it is within itself
				continue
			}
			known[g.Name] = true
			elements = append(elements, map[string]any{"value": g.Name, "display": g.Spec.DisplayName, "type": kind})
			above = append(above, v.d.groupsWith(v, g.Name, typeGroup)...)
		}
		level = above
	}
	if elements == nil {
		return nil
	}
	return elements
}

// usersInGroup looks up users by groups.value: those that are in a group, or in one within it.
func usersInGroup(_ *collection[*v1alpha1.ScimUser, v1alpha1.ScimUserSpec], v *view, id string) ([]*v1alpha1.ScimUser, error) {
	var users []*v1alpha1.ScimUser
	known := map[string]bool{}
	level := []string{id}
	for depth := 0; depth < maxNesting && len(level) > 0; depth++ {
		var below []string
		for _, name := range level {
			g := v.d.groups.visible(v.namespace, name)
			if g == nil || known[name] {
				continue
			}
			known[name] = true
			for m := range newMembers(v, &g.Spec).references() {
				switch r, ok := v.d.resolve(v.namespace, m); {
				case ok && r.kind == typeGroup:
					below = append(below, m.Value)
				case ok:
					users = append(users, v.d.users.visible(v.namespace, m.Value))
				}
			}
		}
		level = below
	}
	// What was deleted between two looks is nil.
	return slices.DeleteFunc(users, func(u *v1alpha1.ScimUser) bool { return u == nil }), v.err
}

// groupsWithMember looks up groups by members.value, among those who exist.
func groupsWithMember(_ *collection[*v1alpha1.ScimGroup, v1alpha1.ScimGroupSpec], v *view, id string) ([]*v1alpha1.ScimGroup, error) {
	if _, ok := v.d.resolve(v.namespace, &v1alpha1.ScimMember{Value: id}); !ok {
		return nil, nil
	}
	return slices.DeleteFunc(v.d.referrers(v.namespace, id), func(g *v1alpha1.ScimGroup) bool { return !isVisible(g) }), nil
}
