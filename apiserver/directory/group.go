package directory

import (
	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/internal/claims"
)

// group is the table of what groups consist of. Members are written apart (storeMembers), because
// their chunks are objects of their own.
var group = newTable(
	text("externalId", func(s *v1alpha1.ScimGroupSpec) *string { return &s.ExternalID }),
	text("displayName", func(s *v1alpha1.ScimGroupSpec) *string { return &s.DisplayName }),
	&row[v1alpha1.ScimGroupSpec]{name: attributeMembers, costly: true, get: func(v *view, _ string, s *v1alpha1.ScimGroupSpec) any {
		return newMembers(v, s)
	}},
)

// attributeMembers is the attribute that a Group keeps in a schema.Set.
const attributeMembers = "members"

// groupKind is what Groups are.
func groupKind() kind[*v1alpha1.ScimGroup, v1alpha1.ScimGroupSpec] {
	return kind[*v1alpha1.ScimGroup, v1alpha1.ScimGroupSpec]{
		name:       schema.Group.Name,
		table:      group,
		spec:       func(g *v1alpha1.ScimGroup) *v1alpha1.ScimGroupSpec { return &g.Spec },
		extensions: func(s *v1alpha1.ScimGroupSpec) *[]v1alpha1.ScimExtension { return &s.Extensions },
		uniqueName: "displayName",
		unique:     claims.GroupName,
		store:      storeMembers,
		lookups: map[string]lookup[*v1alpha1.ScimGroup, v1alpha1.ScimGroupSpec]{
			"id":            byID[*v1alpha1.ScimGroup, v1alpha1.ScimGroupSpec],
			"displayName":   byUnique[*v1alpha1.ScimGroup, v1alpha1.ScimGroupSpec],
			"externalId":    byIndex[*v1alpha1.ScimGroup, v1alpha1.ScimGroupSpec](indexExternalID),
			"members.value": groupsWithMember,
		},
	}
}
