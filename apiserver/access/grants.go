// Package access describes what callers may do: permissions, and the deployments on which they hold them.
package access

import (
	"slices"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/permission"
)

// Grant is a set of permissions and the deployments on which they apply.
type Grant struct {
	// Permissions of the grant, and those that they imply.
	Permissions []v1alpha1.Permission
	// Deployments, by object name; nil for all deployments and for what belongs to the account.
	Deployments []string
}

// includes reports whether the grant has a permission or one that implies it. Every grant has the empty permission.
func (g *Grant) includes(needed v1alpha1.Permission) bool {
	return needed == "" || slices.ContainsFunc(g.Permissions, func(held v1alpha1.Permission) bool {
		return permission.Name(held).Includes(permission.Name(needed))
	})
}

// reaches reports whether the grant applies on a deployment; the empty name stands for all deployments.
func (g *Grant) reaches(deployment string) bool {
	return g.Deployments == nil || slices.Contains(g.Deployments, deployment)
}

// Grants are the permissions of a principal: the union of all. The zero value is none.
type Grants []Grant

// OnAll grants permissions on the whole account.
func OnAll(permissions ...v1alpha1.Permission) Grants { return Grants{{Permissions: permissions}} }

// On grants permissions on certain deployments.
func On(deployments []string, permissions ...v1alpha1.Permission) Grants {
	return Grants{{Permissions: permissions, Deployments: deployments}}
}

// May reports whether a permission, or one that implies it, is granted on anything. Every principal holds the empty
// permission.
func (gs Grants) May(needed v1alpha1.Permission) bool {
	return needed == "" || slices.ContainsFunc(gs, func(g Grant) bool { return g.includes(needed) })
}

// MayOn reports whether a permission is granted on a deployment, by object name; on all deployments if it is empty.
func (gs Grants) MayOn(needed v1alpha1.Permission, deployment string) bool {
	return slices.ContainsFunc(gs, func(g Grant) bool { return g.includes(needed) && g.reaches(deployment) })
}

// LimitedFor reports whether a permission acts on the whole account and is granted on certain deployments only: the
// request is then forbidden.
func (gs Grants) LimitedFor(needed v1alpha1.Permission) bool {
	return permission.Name(needed).AccountWide() && !gs.MayOn(needed, "")
}

// Reaches reports whether anything is granted on a deployment, by object name; on all deployments if it is empty.
func (gs Grants) Reaches(deployment string) bool { return gs.MayOn("", deployment) }

// IsLimited reports whether all that is granted is on certain deployments.
func (gs Grants) IsLimited() bool { return len(gs) > 0 && !gs.Reaches("") }
