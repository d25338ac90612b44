package claims

import (
	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/fold"
)

// UserName is unique among the users of an account, case-insensitively (RFC 7643 section 4.1.1).
var UserName = Attribute[*v1alpha1.ScimUser]{
	Kind: "ScimUser", Field: "userName",
	Value: func(u *v1alpha1.ScimUser) string { return u.Spec.UserName },
	Form:  fold.Case,
	New:   func() *v1alpha1.ScimUser { return &v1alpha1.ScimUser{} },
}

// GroupName is unique among the groups of an account, case-insensitively: clients look groups
// up by it.
var GroupName = Attribute[*v1alpha1.ScimGroup]{
	Kind: "ScimGroup", Field: "displayName",
	Value: func(g *v1alpha1.ScimGroup) string { return g.Spec.DisplayName },
	Form:  fold.Case,
	New:   func() *v1alpha1.ScimGroup { return &v1alpha1.ScimGroup{} },
}
