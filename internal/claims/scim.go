package claims

import (
	"strings"

	"golang.org/x/text/cases"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// UserName is unique among the users of an account, without regard to case (RFC 7643
// section 4.1.1).
var UserName = Attribute[*v1alpha1.ScimUser]{
	Kind: "ScimUser", Field: "userName",
	Value: func(u *v1alpha1.ScimUser) string { return u.Spec.UserName },
	Form:  Fold,
	New:   func() *v1alpha1.ScimUser { return &v1alpha1.ScimUser{} },
}

// GroupName is unique among the groups of an account, without regard to case: clients find
// groups by it.
var GroupName = Attribute[*v1alpha1.ScimGroup]{
	Kind: "ScimGroup", Field: "displayName",
	Value: func(g *v1alpha1.ScimGroup) string { return g.Spec.DisplayName },
	Form:  Fold,
	New:   func() *v1alpha1.ScimGroup { return &v1alpha1.ScimGroup{} },
}

// Fold is what texts have in common that differ only in case, in any script (Unicode's full
// case folding). It is stable: the fold of a fold is the same.
func Fold(s string) string {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return cases.Fold().String(s)
		}
	}
	return strings.ToLower(s)
}
