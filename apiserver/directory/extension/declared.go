// Package extension maps the SCIM extensions that an Account declares: the declaration to schemas, and
// the attributes in a ScimUser or ScimGroup to documents.
package extension

import (
	"strings"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// ResourceTypes returns the standard resource types with the extensions that an account declares.
func ResourceTypes(account *v1alpha1.Account) (user, group *schema.ResourceType) {
	user, group = schema.User, schema.Group
	if account.Spec.Scim == nil {
		return user, group
	}
	for i := range account.Spec.Scim.Schemas {
		declared := &account.Spec.Scim.Schemas[i]
		to := &user
		if declared.ResourceType == v1alpha1.ScimMemberType(schema.Group.Name) {
			to = &group
		}
		if (*to).Extension(declared.ID) == nil { // URNs are case-insensitive
			*to = (*to).With(schema.Extension{Schema: schemaOf(declared)})
		}
	}
	return user, group
}

// schemaOf converts a declared schema to a SCIM schema.
func schemaOf(declared *v1alpha1.ScimSchema) *schema.Schema {
	s := &schema.Schema{ID: declared.ID, Name: declared.Name, Description: declared.Description}
	if s.Name == "" {
		s.Name = declared.ID[strings.LastIndex(declared.ID, ":")+1:]
	}
	for i := range declared.Attributes {
		d := &declared.Attributes[i]
		a := &schema.Attribute{
			Name: d.Name, Type: schema.Type(d.Type), Description: d.Description,
			MultiValued: isTrue(d.MultiValued), Required: isTrue(d.Required),
			Mutability: schema.ReadWrite, Returned: schema.Default, Uniqueness: "none",
		}
		if isTrue(d.Immutable) {
			a.Mutability = schema.Immutable
		}
		if a.Type == schema.Reference {
			// RFC 7643 section 2.3.7: a reference is case-exact.
			a.CaseExact, a.ReferenceTypes = d.CaseExact == nil, []string{"external"}
		}
		a.CaseExact = a.CaseExact || isTrue(d.CaseExact)
		s.Attributes = append(s.Attributes, a)
	}
	return s
}

func isTrue(b *bool) bool { return b != nil && *b }
