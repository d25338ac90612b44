package access

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/accountrole"
	"github.com/quoin-dev/quoin/internal/cacheindex"
	"github.com/quoin-dev/quoin/internal/freshness"
	"github.com/quoin-dev/quoin/internal/permission"
)

// Roles are the roles of all accounts, from caches. They are safe for concurrent use.
type Roles struct {
	roles, deployments toolscache.Indexer

	mu sync.Mutex
	// changes counts the changes in a namespace; a change removes its Set.
	changes map[string]uint64
	sets    map[string]*Set
}

// NewRoles returns the roles of an informer of AccountRoles, with the numbers of deployments of another one. They may be running.
// observe, unless it is nil, is called with each change of a role after it is in effect.
func NewRoles(roles, deployments toolscache.SharedIndexInformer, observe func(before, after any)) (*Roles, error) {
	r := &Roles{roles: roles.GetIndexer(), deployments: deployments.GetIndexer(), changes: map[string]uint64{}, sets: map[string]*Set{}}
	for _, informer := range []toolscache.SharedIndexInformer{roles, deployments} {
		if informer.GetIndexer().GetIndexers()[toolscache.NamespaceIndex] == nil {
			err := informer.AddIndexers(toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
			if err != nil {
				return nil, fmt.Errorf("add index: %w", err)
			}
		}
	}
	_, err := roles.AddEventHandler(freshness.EventHandler(func(before, after any) {
		for _, o := range []any{before, after} {
			if role, ok := o.(*v1alpha1.AccountRole); ok {
				r.invalidate(role.Namespace)
			}
		}
		if observe != nil {
			observe(before, after)
		}
	}))
	_, other := deployments.AddEventHandler(freshness.EventHandler(func(before, after any) {
		old, _ := before.(*v1alpha1.Deployment)
		changed, _ := after.(*v1alpha1.Deployment)
		switch {
		case old != nil && changed != nil && old.UID == changed.UID && old.Labels[v1alpha1.LabelID] == changed.Labels[v1alpha1.LabelID] && old.Status.ID == changed.Status.ID:
		case changed != nil:
			r.invalidate(changed.Namespace)
		case old != nil:
			r.invalidate(old.Namespace)
		}
	}))
	if err := errors.Join(err, other); err != nil {
		return nil, fmt.Errorf("follow roles: %w", err)
	}
	return r, nil
}

func (r *Roles) invalidate(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes[namespace]++
	delete(r.sets, namespace)
}

// Of returns the roles of the account with a namespace.
func (r *Roles) Of(namespace string) *Set {
	r.mu.Lock()
	set, known := r.sets[namespace]
	before := r.changes[namespace]
	r.mu.Unlock()
	if known {
		return set
	}
	set = newSet(cached[*v1alpha1.AccountRole](r.roles, namespace), cached[*v1alpha1.Deployment](r.deployments, namespace))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changes[namespace] == before {
		r.sets[namespace] = set
	}
	return set
}

// cached returns the objects of a namespace. They are shared.
func cached[O any](from toolscache.Indexer, namespace string) []O {
	objects, _ := cacheindex.Find[O](from, toolscache.NamespaceIndex, namespace) // there is the index
	return objects
}

// Set is the roles of an account. It is immutable: after a change there is another one.
type Set struct {
	// InEffect are the custom roles in effect, by the time of creation. They must not be modified.
	InEffect []*v1alpha1.AccountRole
	grants   map[v1alpha1.AccountRoleReference]Grants
	// names are the names of deployments by number.
	names map[string]string

	mu sync.Mutex
	// unions caches what several roles grant together, by their names.
	unions map[string]Grants
}

// maxUnions bounds the memory for unions.
const maxUnions = 1000

func newSet(roles []*v1alpha1.AccountRole, deployments []*v1alpha1.Deployment) *Set {
	names := make(map[string]string, len(deployments))
	for _, d := range deployments {
		id := d.Labels[v1alpha1.LabelID]
		if id == "" || !d.DeletionTimestamp.IsZero() {
			continue
		}
		// A copy of a deployment may carry its label, and never has the number in its status.
		if _, taken := names[id]; !taken || d.Status.ID == id {
			names[id] = d.Name
		}
	}
	s := &Set{InEffect: accountrole.InEffect(roles), grants: map[v1alpha1.AccountRoleReference]Grants{}, names: names, unions: map[string]Grants{}}
	for _, r := range permission.BuiltIn {
		s.grants[v1alpha1.AccountRoleReference(r.Name)] = OnAll(permissionsOf(r.Permissions)...)
	}
	for _, r := range s.InEffect {
		var granted Grants
		for i := range r.Spec.Policies {
			granted = append(granted, s.grantOf(&r.Spec.Policies[i]))
		}
		s.grants[v1alpha1.AccountRoleReference(r.Name)] = granted.normalized()
	}
	return s
}

// HasAny reports whether one of several roles exists.
func (s *Set) HasAny(assigned []v1alpha1.AccountRoleReference) bool {
	return slices.ContainsFunc(assigned, func(reference v1alpha1.AccountRoleReference) bool {
		_, exists := s.grants[reference]
		return exists
	})
}

// Grants returns what roles grant together. Those that do not exist grant nothing. The result is shared and must not be
// modified.
func (s *Set) Grants(assigned []v1alpha1.AccountRoleReference) Grants {
	if len(assigned) == 1 {
		return s.grants[assigned[0]]
	}
	var names strings.Builder
	for _, reference := range assigned {
		names.WriteString(string(reference))
		names.WriteByte(0)
	}
	s.mu.Lock()
	known, ok := s.unions[names.String()]
	s.mu.Unlock()
	if ok {
		return known
	}
	var granted Grants
	for _, reference := range assigned {
		granted = append(granted, s.grants[reference]...)
	}
	granted = granted.normalized()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unions) >= maxUnions {
		clear(s.unions)
	}
	s.unions[names.String()] = granted
	return granted
}

// grantOf returns what a policy grants.
func (s *Set) grantOf(p *v1alpha1.AccountRolePolicy) Grant {
	g := Grant{}
	for _, action := range p.Actions {
		if permission.CheckPolicy(permission.Resource(p.ResourceType), permission.Name(action)) != nil {
			continue // the schema rejects it; an object of another version may have it
		}
		if permission.Name(action) == permission.All {
			g.Permissions = append(g.Permissions, permissionsOf(permission.OnDeployments())...)
			continue
		}
		g.Permissions = append(g.Permissions, v1alpha1.Permission(action))
	}
	if p.ResourceType != v1alpha1.AccountRoleDeployment || slices.Contains(p.Resources, v1alpha1.AccountRoleAll) {
		return g
	}
	g.Deployments = s.Deployments(p.Resources)
	return g
}

// Deployments returns the names of deployments that are given by name or number, without numbers of which there is none. It is never
// nil, which stands for all deployments.
func (s *Set) Deployments(references []string) []string {
	names := make([]string, 0, len(references))
	for _, name := range references {
		if v1alpha1.IsDeploymentID(name) {
			name = s.names[name]
		}
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

func permissionsOf(names []permission.Name) []v1alpha1.Permission {
	permissions := make([]v1alpha1.Permission, len(names))
	for i, name := range names {
		permissions[i] = v1alpha1.Permission(name)
	}
	return permissions
}

// normalized returns equal grants with one grant for each set of deployments, without permissions that others of the grant
// imply, that for all deployments first.
func (gs Grants) normalized() Grants {
	byDeployments := map[string]*Grant{}
	for _, g := range gs {
		deployments := slices.Compact(slices.Sorted(slices.Values(g.Deployments)))
		key := strings.Join(deployments, "/")
		switch {
		case len(g.Permissions) == 0 || g.Deployments != nil && len(deployments) == 0:
			continue
		case g.Deployments == nil:
			key, deployments = "", nil
		}
		if byDeployments[key] == nil {
			byDeployments[key] = &Grant{Deployments: deployments}
		}
		byDeployments[key].Permissions = append(byDeployments[key].Permissions, g.Permissions...)
	}
	var all Grants
	for _, key := range slices.Sorted(maps.Keys(byDeployments)) {
		g := byDeployments[key]
		all = append(all, Grant{Permissions: reduced(g.includes), Deployments: g.Deployments})
	}
	return all
}

// reduced returns the permissions that a function reports true for, in the order of the table, except those that another one
// of them implies.
func reduced(held func(v1alpha1.Permission) bool) []v1alpha1.Permission {
	var names []permission.Name
	for _, name := range permission.Names() {
		if held(v1alpha1.Permission(name)) {
			names = append(names, name)
		}
	}
	var kept []v1alpha1.Permission
	for _, name := range names {
		implied := func(other permission.Name) bool { return other != name && other.Includes(name) }
		if !slices.ContainsFunc(names, implied) {
			kept = append(kept, v1alpha1.Permission(name))
		}
	}
	return kept
}

// isEverything reports whether the grants are the permission Admin on the whole account.
func (gs Grants) isEverything() bool {
	return len(gs) == 1 && gs[0].Deployments == nil && slices.Contains(gs[0].Permissions, v1alpha1.PermissionAdmin)
}

// Within returns what both of two grants allow: the permissions of a key that its owner has too. The result may be one of the
// two, and must not be modified.
func (gs Grants) Within(owner Grants) Grants {
	switch {
	case gs.isEverything(): // most keys
		return owner
	case owner.isEverything():
		return gs
	}
	var both Grants
	for _, g := range gs {
		for _, o := range owner {
			shared := Grant{Permissions: reduced(func(p v1alpha1.Permission) bool { return g.includes(p) && o.includes(p) })}
			switch {
			case g.Deployments == nil:
				shared.Deployments = o.Deployments
			case o.Deployments == nil:
				shared.Deployments = g.Deployments
			default:
				shared.Deployments = slices.DeleteFunc(slices.Clone(g.Deployments), func(name string) bool { return !slices.Contains(o.Deployments, name) })
			}
			both = append(both, shared)
		}
	}
	return both.normalized()
}
