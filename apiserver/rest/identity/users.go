package identity

import (
	"context"
	"hash/fnv"
	"net/http"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
)

func (a *api) usersFamily() rest.Family {
	return rest.Family{Tag: "Users", Description: "The caller.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, "/api/v1/users/me", "getMe", rest.NoPermission, "Get the user of the credential", a.getMe),
	}}
}

// User is the caller: a user, or the key of a program.
type User struct {
	ID            int64          `json:"id" minimum:"1"`
	Email         string         `json:"email"`
	Username      string         `json:"username"`
	IsAdmin       bool           `json:"isAdmin"`
	Notifications map[string]any `json:"notifications"`
	UserPolicies  []Policy       `json:"userPolicies"`
}

// Policy is a set of permissions on resources.
type Policy struct {
	ResourceType string   `json:"resourceType" enum:"Global,Deployment"`
	Actions      []string `json:"actions"`
	Resources    []string `json:"resources" doc:"Ids of deployments, or All."`
}

// UserOutput is the response.
type UserOutput struct{ Body User }

func (a *api) getMe(ctx context.Context, _ *struct{}) (*UserOutput, error) {
	s := rest.ScopeFrom(ctx)
	out := &UserOutput{User{
		ID: stableNumber(s.Account.Name, string(s.Principal.Kind), s.Principal.ID), Email: s.Principal.Email, Username: s.Principal.Name,
		IsAdmin: s.Principal.May(v1alpha1.PermissionAdmin), Notifications: map[string]any{},
	}}
	if out.Body.Email == "" {
		out.Body.Email = s.Principal.ID + "@" + string(s.Account.Spec.Host)
	}
	policy := Policy{ResourceType: "Global", Resources: []string{"All"}, Actions: []string{}}
	for _, permission := range s.Principal.Permissions {
		name := string(permission)
		if permission == v1alpha1.PermissionAdmin {
			name = "All"
		}
		policy.Actions = append(policy.Actions, name)
	}
	if s.Principal.Deployments != nil {
		policy.ResourceType = "Deployment"
		reached, err := a.Catalog.Deployments(s.Namespace(), s.Principal)
		if err != nil {
			return nil, err
		}
		policy.Resources = make([]string, 0, len(reached))
		for _, d := range reached {
			policy.Resources = append(policy.Resources, d.Labels[v1alpha1.LabelID])
		}
	}
	out.Body.UserPolicies = []Policy{policy}
	return out, nil
}

// stableNumber returns a numeric id, which clients expect, for a name. JSON readers represent it
// exactly.
func stableNumber(parts ...string) int64 {
	hash := fnv.New64a()
	for _, part := range parts {
		_, _ = hash.Write([]byte(part + "\x00"))
	}
	return int64(hash.Sum64()%(1<<53-1)) + 1
}
