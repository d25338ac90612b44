package agents

import (
	"context"
	"errors"
	"slices"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/datatokens"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/userattribute"
)

// Session names the person on whose behalf a program asks: an external person, or a user of the account.
type Session struct {
	// ExternalID is the id of a person in another application, and InternalID the user name of a user of the account. One of them
	// is set.
	ExternalID, InternalID string
	// Groups, Attributes and SecurityContext are those of an external person.
	Groups          []string
	Attributes      []Attribute
	SecurityContext map[string]any
}

// Attribute is the value of a user attribute, as decoded from JSON; nil for none.
type Attribute struct {
	Name  string
	Value any
}

// Asker is the person who asks.
type Asker struct {
	// Owner has the threads of the person: ScimUser:<name> for a user, External:<id> for an external person.
	Owner string
	// scope has the principal for whom tokens are issued, and contents is what they permit.
	scope    *rest.Scope
	contents datatokens.Contents
	// needed is a permission of the caller without which a run ends.
	needed v1alpha1.Permission
}

// With returns a context with the scope of the person, for the content store: the principal is the person, if it is a user.
// Without one it is that of the request.
func (a *Asker) With(ctx context.Context) context.Context {
	if a.scope == nil {
		return ctx
	}
	return a.scope.With(ctx)
}

// MayUseSQL reports whether the person may write SQL. Others query with JSON.
func (a *Asker) MayUseSQL() bool {
	return a.contents.Permissions == nil || slices.Contains(a.contents.Permissions, v1alpha1.PermissionSqlRunnerRead)
}

// Asker returns the person who asks: the one in the session, or the caller if it is nil. Acting for external persons needs
// DeploymentUpdate, as issuing tokens for them does, and for users Admin.
func (s *Service) Asker(ctx context.Context, a *Agent, session *Session) (*Asker, error) {
	of := *rest.ScopeFrom(ctx)
	of.Deployment = a.Deployment
	switch {
	case session == nil:
		return self(&of)
	case session.InternalID != "":
		return s.internal(ctx, &of, session)
	}
	return s.external(&of, session)
}

// self returns the caller, who must be a person.
func self(of *rest.Scope) (*Asker, error) {
	p := of.Principal
	if p.User == "" && p.Kind != auth.KindUser {
		return nil, rest.BadRequest("sessionSettings: is absent; required for a %s without an owner: externalId or internalId names the person who asks", p.Kind)
	}
	if !p.HasRole && !datatokens.MayEdit(of) {
		return nil, datatokens.Lacks(of, v1alpha1.PermissionDeploymentUpdate)
	}
	owner := of.Caller()
	if p.User != "" {
		owner = "ScimUser:" + p.User // with all keys and sessions
	}
	return &Asker{Owner: owner, scope: of, contents: datatokens.Contents{Permissions: datatokens.PermissionsOf(of)}, needed: v1alpha1.PermissionDeploymentRead}, nil
}

// internal returns a user of the account.
func (s *Service) internal(ctx context.Context, of *rest.Scope, session *Session) (*Asker, error) {
	if !of.Principal.MayOn(v1alpha1.PermissionAdmin, of.Deployment.Name) {
		return nil, datatokens.Lacks(of, v1alpha1.PermissionAdmin)
	}
	p, err := s.Users.Principal(ctx, of.Account, session.InternalID)
	switch {
	case errors.Is(err, auth.ErrNoCredential):
		return nil, rest.Forbidden("sessionSettings.internalId: the user %q is not active", rest.Clip(session.InternalID))
	case err != nil:
		return nil, err
	case p == nil:
		return nil, rest.NotFound("sessionSettings.internalId: there is no user %q", rest.Clip(session.InternalID))
	}
	for _, permission := range asking {
		if !p.MayOn(permission, of.Deployment.Name) {
			return nil, rest.Forbidden("sessionSettings.internalId: the user %q does not hold the permission %s on the deployment of the agent", rest.Clip(session.InternalID), permission)
		}
	}
	of.Principal = p
	asker, err := self(of)
	if err == nil {
		asker.needed = v1alpha1.PermissionAdmin
	}
	return asker, err
}

// external returns a person of another application.
func (s *Service) external(of *rest.Scope, session *Session) (*Asker, error) {
	if !datatokens.MayEdit(of) {
		return nil, datatokens.Lacks(of, v1alpha1.PermissionDeploymentUpdate)
	}
	defined := s.Attributes(of.Namespace())
	var values []v1alpha1.UserAttributeValue
	seen := map[string]bool{}
	for i, given := range session.Attributes {
		name := v1alpha1.UserAttributeName(given.Name)
		attribute := userattribute.Find(defined, name)
		switch {
		case attribute == nil:
			return nil, rest.BadRequest("sessionSettings.userAttributes[%d].name: %q is not a user attribute of the account", i, rest.Clip(given.Name))
		case seen[given.Name]:
			return nil, rest.BadRequest("sessionSettings.userAttributes[%d].name: %q is there twice; allowed: once", i, rest.Clip(given.Name))
		}
		seen[given.Name] = true
		if given.Value == nil {
			continue
		}
		value, err := userattribute.Parse(attribute.Spec.Type, given.Value)
		if err != nil {
			return nil, rest.BadRequest("sessionSettings.userAttributes[%d].value: %v", i, err)
		}
		values = append(values, v1alpha1.UserAttributeValue{Name: name, UserAttributeContent: value})
	}
	if err := userattribute.CheckSize(values); err != nil {
		return nil, rest.BadRequest("sessionSettings.userAttributes: %v", err)
	}
	groups := slices.Clone(session.Groups)
	slices.Sort(groups)
	return &Asker{
		Owner: "External:" + session.ExternalID, scope: of, needed: v1alpha1.PermissionDeploymentUpdate,
		contents: datatokens.Contents{
			SecurityContext: session.SecurityContext, Permissions: datatokens.PermissionsOf(of),
			Person: &datatokens.Person{Groups: append([]string{}, slices.Compact(groups)...), Attributes: userattribute.Resolve(defined, values)},
		},
	}, nil
}
