package directory

import (
	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/membership"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/internal/claims"
)

// group is the attribute table of groups. Members are written by storeMembers, because chunks are
// separate objects.
var group = newTable(
	text("externalId", func(s *v1alpha1.ScimGroupSpec) *string { return &s.ExternalID }),
	text("displayName", func(s *v1alpha1.ScimGroupSpec) *string { return &s.DisplayName }),
	&row[v1alpha1.ScimGroupSpec]{name: attributeMembers, expensive: true, get: func(v *view, _ string, s *v1alpha1.ScimGroupSpec) any {
		return v.members.Members(s)
	}},
	&row[v1alpha1.ScimGroupSpec]{name: AttributeSize, get: func(_ *view, _ string, s *v1alpha1.ScimGroupSpec) any { return s.Size() }},
)

// attributeMembers is the attribute that is a schema.Set.
const attributeMembers = "members"

// storeMembers writes the members of a group and records the changes for the audit log.
func storeMembers(v *view, name string, s *v1alpha1.ScimGroupSpec, d schema.Document) error {
	changes, err := v.members.Save(s, d[attributeMembers])
	if err != nil {
		return err
	}
	recording.Detail(v.ctx, name, attributeMembers, changes)
	return nil
}

// displayOfGroup returns the name of a group as a member of others.
func displayOfGroup(g *v1alpha1.ScimGroup) string { return g.Spec.DisplayName }

// groupKind returns the kind of Groups.
func groupKind() kind[*v1alpha1.ScimGroup, v1alpha1.ScimGroupSpec] {
	return kind[*v1alpha1.ScimGroup, v1alpha1.ScimGroupSpec]{
		name:       schema.Group.Name,
		table:      group,
		spec:       func(g *v1alpha1.ScimGroup) *v1alpha1.ScimGroupSpec { return &g.Spec },
		extensions: func(s *v1alpha1.ScimGroupSpec) *[]v1alpha1.ScimExtension { return &s.Extensions },
		uniqueName: "displayName",
		unique:     claims.GroupName,
		store:      storeMembers,
		takeAway:   removal,
		size:       (*v1alpha1.ScimGroupSpec).Size,
		shown:      shownMembers,

		ownersCached: true,
		indexed: map[string]func(*v1alpha1.ScimGroup) []string{
			"externalId": textValue(func(g *v1alpha1.ScimGroup) string { return g.Spec.ExternalID }),
			// Those in the group itself; membership.Chunks has the index of those in chunks.
			attributeMembers: func(g *v1alpha1.ScimGroup) []string { return membership.Values(g.Spec.EffectiveMembers()) },
		},
		lookups: map[string]lookup[*v1alpha1.ScimGroup, v1alpha1.ScimGroupSpec]{
			"id":            byID[*v1alpha1.ScimGroup, v1alpha1.ScimGroupSpec],
			"displayName":   byUnique[*v1alpha1.ScimGroup, v1alpha1.ScimGroupSpec],
			"externalId":    byIndex[*v1alpha1.ScimGroup, v1alpha1.ScimGroupSpec]("externalId"),
			"members.value": groupsWithMember,
		},
	}
}
