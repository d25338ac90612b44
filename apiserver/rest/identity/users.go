package identity

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/directory"
	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

const (
	usersPath = "/api/v1/users"
	userPath  = "/api/v1/users/{userId}"
)

func (a *api) usersFamily() rest.Family {
	return rest.Family{Tag: "Users", Description: "The caller.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, usersPath+"/me", "getMe", rest.NoPermission, "Get the user of the credential", a.getMe),
		rest.Handle(http.MethodPatch, usersPath+"/me/settings", "updateMySettings", rest.NoPermission, "Update settings of the user of the credential (RFC 7396)", a.updateMySettings).WithMaxBody(maxSettingsBytes),
	}}
}

func (a *api) usersAdminFamily() rest.Family {
	return rest.Family{Tag: "Users Admin", Description: "The users of the account: the ScimUsers that SCIM and kubectl show.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, usersPath, "getUsers", v1alpha1.PermissionAdmin, "List the users of the account, the oldest first", a.listUsers),
		rest.Handle(http.MethodPost, usersPath, "createUser", v1alpha1.PermissionAdmin, "Create a user", a.createUser),
		rest.Handle(http.MethodPost, usersPath+"/bulk", "bulkUserAction", v1alpha1.PermissionAdmin, "Activate, deactivate or delete users", a.changeUsers),
		rest.Handle(http.MethodGet, userPath, "getUser", v1alpha1.PermissionAdmin, "Get a user", a.getUser).WithDocument(describeAmbiguous),
		rest.Handle(http.MethodPut, userPath, "updateUser", v1alpha1.PermissionAdmin, "Update a user; fields that are absent or null keep their value", a.updateUser),
		rest.Handle(http.MethodDelete, userPath, "deleteUser", v1alpha1.PermissionAdmin, "Delete a user: its keys and tokens are rejected from then on", a.deleteUser),
	}}
}

// describeAmbiguous adds the status of a number that several users have.
func describeAmbiguous(_ *huma.OpenAPI, op *huma.Operation) {
	op.Responses["409"] = &huma.Response{Description: "Several users have the number, which is derived from the SCIM id.", Content: op.Responses["404"].Content}
}

// User is a user of the account, or the caller: a user, or the key of a program.
type User struct {
	ID            int64          `json:"id" minimum:"1" maximum:"9007199254740991" doc:"Derived from the SCIM id."`
	Email         string         `json:"email"`
	Username      string         `json:"username" doc:"userName of SCIM."`
	FirstName     *string        `json:"firstName,omitempty" nullable:"true"`
	Title         *string        `json:"title,omitempty" nullable:"true"`
	Picture       *string        `json:"picture,omitempty" nullable:"true" doc:"URL of a photo."`
	ExternalID    *string        `json:"externalId,omitempty" nullable:"true"`
	IsAdmin       bool           `json:"isAdmin" doc:"Of a user: spec.admin of the ScimUser, but not whether a group of an issuer gives the permission Admin. Of the caller: whether the credential has the permission Admin."`
	IsDeactivated *bool          `json:"isDeactivated,omitempty" nullable:"true"`
	DefaultRoles  []string       `json:"defaultRoles,omitempty" nullable:"true" doc:"Names of the roles that are assigned to the user, without those of its groups."`
	Settings      *UserSettings  `json:"settings,omitempty"`
	CreatedAt     *time.Time     `json:"createdAt,omitempty" nullable:"true"`
	UpdatedAt     *time.Time     `json:"updatedAt,omitempty" nullable:"true"`
	Notifications map[string]any `json:"notifications"`
	UserPolicies  []Policy       `json:"userPolicies,omitempty" doc:"Of the caller only."`
}

// Policy is a set of permissions on resources.
type Policy struct {
	ResourceType string   `json:"resourceType" enum:"Global,Deployment,Folder"`
	Actions      []string `json:"actions"`
	Resources    []string `json:"resources" doc:"Ids of deployments, or All."`
}

// UserOutput is the response.
type UserOutput struct{ Body User }

// userOf returns the user of a SCIM resource.
func (a *api) userOf(ctx context.Context, r *schema.Resource) (User, error) {
	convert, err := a.userConversion(ctx)
	if err != nil {
		return User{}, err
	}
	return convert(r), nil
}

// userOutput returns the response with a user.
func (a *api) userOutput(ctx context.Context, r *schema.Resource) (*UserOutput, error) {
	shown, err := a.userOf(ctx, r)
	return &UserOutput{shown}, err
}

// userConversion returns the function that returns users of SCIM resources.
func (a *api) userConversion(ctx context.Context) (func(*schema.Resource) User, error) {
	names, err := a.roleNames(ctx)
	if err != nil {
		return nil, err
	}
	return func(r *schema.Resource) User {
		out := userWithoutRoles(r)
		held, _ := r.Document[directory.AttributeRoles].([]v1alpha1.AccountRoleReference)
		out.DefaultRoles = names(held)
		return out
	}, nil
}

func userWithoutRoles(r *schema.Resource) User {
	d := r.Document
	name, _ := d["name"].(map[string]any)
	return User{
		ID: number.Of(schema.User.Name, r.ID), Email: cmp.Or(primary(d, "emails"), textOf(d, "userName")), Username: textOf(d, "userName"),
		FirstName: rest.NilIfEmpty(textOf(name, "givenName")), Title: rest.NilIfEmpty(textOf(d, "title")), Picture: rest.NilIfEmpty(primary(d, "photos")),
		ExternalID: rest.NilIfEmpty(textOf(d, "externalId")), IsAdmin: isAdmin(d), IsDeactivated: ptr.To(!isActive(d)),
		Settings: shownSettings(settingsOf(d)), CreatedAt: ptr.To(r.Created), UpdatedAt: ptr.To(r.LastModified), Notifications: map[string]any{},
	}
}

// primary returns the primary value of a multi-valued attribute, or else the first one; empty if there is none.
func primary(d schema.Document, attribute string) string {
	elements, _ := d[attribute].([]any)
	first := ""
	for _, item := range elements {
		element, _ := item.(map[string]any)
		value := textOf(element, "value")
		if is, _ := element["primary"].(bool); is && value != "" {
			return value
		}
		first = cmp.Or(first, value)
	}
	return first
}

// getMe returns the caller: the ScimUser that the credential belongs to, or else the key or the user of the token.
func (a *api) getMe(ctx context.Context, _ *struct{}) (*UserOutput, error) {
	s := rest.ScopeFrom(ctx)
	if s.Principal.User == "" {
		return a.me(ctx, nil)
	}
	users := a.users(ctx)
	r, err := users.GetResource(ctx, users.kind, s.Principal.User, nil)
	var missing *rest.Problem
	if err = users.problem(err, 0); errors.As(err, &missing) && missing.GetStatus() == http.StatusNotFound { // just deleted
		return a.me(ctx, nil)
	}
	if err != nil {
		return nil, err
	}
	return a.me(ctx, r)
}

// me returns the caller; r is its ScimUser, nil if there is none.
func (a *api) me(ctx context.Context, r *schema.Resource) (*UserOutput, error) {
	s := rest.ScopeFrom(ctx)
	out := &UserOutput{User{
		ID: number.Of(string(s.Principal.Kind), s.Principal.ID), Email: s.Principal.Email, Username: s.Principal.Name,
		Notifications: map[string]any{},
	}}
	if r != nil {
		shown, err := a.userOf(ctx, r)
		if err != nil {
			return nil, err
		}
		out.Body = shown
	}
	out.Body.IsAdmin = s.Principal.May(v1alpha1.PermissionAdmin)
	if out.Body.Email == "" {
		out.Body.Email = s.Address(s.Principal.ID)
	}
	var err error
	out.Body.UserPolicies, err = a.policiesOf(s)
	return out, err
}

// policiesOf returns the permissions of the caller.
func (a *api) policiesOf(s *rest.Scope) ([]Policy, error) {
	policies := []Policy{}
	for _, granted := range s.Principal.Grants {
		policy := Policy{ResourceType: "Global", Resources: []string{"All"}, Actions: []string{}}
		for _, permission := range granted.Permissions {
			name := string(permission)
			if permission == v1alpha1.PermissionAdmin {
				name = "All"
			}
			policy.Actions = append(policy.Actions, name)
		}
		if granted.Deployments != nil {
			only := &auth.Principal{Grants: access.Grants{granted}}
			reached, err := a.Catalog.Deployments(s.Namespace(), only, "")
			if err != nil {
				return nil, err
			}
			policy.ResourceType, policy.Resources = "Deployment", make([]string, 0, len(reached))
			for _, d := range reached {
				policy.Resources = append(policy.Resources, d.Labels[v1alpha1.LabelID])
			}
		}
		policies = append(policies, policy)
	}
	return policies, nil
}

// ListUsersInput has the parameters of the list.
type ListUsersInput struct{ rest.CursorPage }

func (a *api) listUsers(ctx context.Context, in *ListUsersInput) (*rest.List[User], error) {
	page, err := a.users(ctx).list(ctx, in.CursorPage, "groups")
	if err != nil {
		return nil, err
	}
	convert, err := a.userConversion(ctx)
	if err != nil {
		return nil, err
	}
	return shown(page, convert), nil
}

// InUser has the path parameter of routes below a user.
type InUser struct {
	ID int64 `path:"userId" minimum:"1" maximum:"9007199254740991" doc:"id of the user."`
}

func (a *api) getUser(ctx context.Context, in *InUser) (*UserOutput, error) {
	users := a.users(ctx)
	id, err := users.id(in.ID)
	if err != nil {
		return nil, err
	}
	r, err := users.GetResource(ctx, users.kind, id, nil)
	if err != nil {
		return nil, users.problem(err, in.ID)
	}
	return a.userOutput(ctx, r)
}
