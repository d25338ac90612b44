// Package permission declares the permissions of the documented API, and the actions and the built-in
// roles that consist of them. The table in table.go and the lists in roles.go are the only declaration:
// package hack/manifests writes the enums and the constants of v1alpha1.Permission and
// v1alpha1.AccountRoleAction from them, hack/docs the tables in docs/kinds; the OpenAPI document, the
// authorization of requests and the mapping from Kubernetes RBAC read them at run time.
package permission

import (
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

// Name is the name of a permission, as in v1alpha1.Permission.
type Name string

// Admin is the permission that implies all others.
const Admin Name = "Admin"

// Permission is a permission of the documented API.
type Permission struct {
	// Name in the documented API.
	Name Name
	// Allows describes what the holder may do, as a noun phrase without a full stop.
	Allows string
	// AccountWide permissions act on the whole account: a credential that is limited to certain
	// deployments cannot use them.
	AccountWide bool
	// Implies lists the permissions that this one includes. Admin includes all.
	Implies []Name
	// GrantedBy lists the Kubernetes RBAC verbs on accounts/proxy in api.platform.quoin.dev that
	// grant the permission to ServiceAccounts and to callers of the aggregated API. See Granted.
	GrantedBy []string
	// Policies lists the types of resources for which a policy of a role may name the permission; none if
	// no role can have it.
	Policies []Resource
}

// verbs are the RBAC verbs that grant permissions, the most powerful first.
var verbs = []string{"delete", "update", "get"}

// Names returns the names of all permissions, in the order of the table.
func Names() []Name {
	names := make([]Name, len(Table))
	for i, p := range Table {
		names[i] = p.Name
	}
	return names
}

// byName are the permissions by name. Each request looks some up.
var byName = func() map[Name]*Permission {
	all := make(map[Name]*Permission, len(Table))
	for i := range Table {
		all[Table[i].Name] = &Table[i]
	}
	return all
}()

// Lookup returns the permission of a name and whether there is one.
func Lookup(name Name) (Permission, bool) {
	if p := byName[name]; p != nil {
		return *p, true
	}
	return Permission{}, false
}

// Includes reports whether a holder of the permission may do what another permission allows.
func (n Name) Includes(other Name) bool {
	if n == other || n == Admin {
		return true
	}
	p := byName[n]
	return p != nil && slices.Contains(p.Implies, other)
}

// AccountWide reports whether the permission acts on the whole account. It is false for names
// that are not in the table.
func (n Name) AccountWide() bool {
	p := byName[n]
	return p != nil && p.AccountWide
}

// Granted returns the permissions that Kubernetes RBAC grants in an account: those of the first
// of the verbs delete, update and get that allowed reports true for, nil if there is none. It
// returns an error of allowed as it is.
func Granted(allowed func(verb string) (bool, error)) ([]Name, error) {
	for _, verb := range verbs {
		ok, err := allowed(verb)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		var granted []Name
		for _, p := range Table {
			if slices.Contains(p.GrantedBy, verb) {
				granted = append(granted, p.Name)
			}
		}
		return granted, nil
	}
	return nil, nil
}

// Schema implements huma.SchemaProvider: an enum of all names.
func (Name) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, name := range Names() {
		s.Enum = append(s.Enum, string(name))
	}
	return s
}
