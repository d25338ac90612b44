package identity

import (
	"context"
	"hash/fnv"
	"net/http"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

var users = family{"Users", "Who asks.", []route{
	on(http.MethodGet, "/api/v1/users/me", "getMe", anybody, "Tell who the credential belongs to", (*API).getMe),
}}

// User is who asks: a person, or the key of a program.
type User struct {
	ID            int64          `json:"id" minimum:"1"`
	Email         string         `json:"email"`
	Username      string         `json:"username"`
	IsAdmin       bool           `json:"isAdmin"`
	Notifications map[string]any `json:"notifications"`
	UserPolicies  []Policy       `json:"userPolicies"`
}

// Policy is what somebody may do on what.
type Policy struct {
	ResourceType string   `json:"resourceType" enum:"Global,Deployment"`
	Actions      []string `json:"actions"`
	Resources    []string `json:"resources" doc:"Numbers of deployments, or All."`
}

// UserOutput is the answer.
type UserOutput struct{ Body User }

func (a *API) getMe(ctx context.Context, _ *struct{}) (*UserOutput, error) {
	s := scopeOf(ctx)
	out := &UserOutput{User{
		ID: stableNumber(s.account.Name, string(s.principal.Kind), s.principal.ID), Email: s.principal.Email, Username: s.principal.Name,
		IsAdmin: s.principal.May(mayAdmin), Notifications: map[string]any{},
	}}
	if out.Body.Email == "" {
		out.Body.Email = s.principal.ID + "@" + string(s.account.Spec.Host)
	}
	policy := Policy{ResourceType: "Global", Resources: []string{"All"}, Actions: []string{}}
	for _, permission := range s.principal.Permissions {
		name := string(permission)
		if permission == mayAdmin {
			name = "All"
		}
		policy.Actions = append(policy.Actions, name)
	}
	if s.principal.Deployments != nil {
		policy.ResourceType = "Deployment"
		reached, err := a.deploymentsOf(ctx)
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

// stableNumber makes the number that clients want of names that have none; every reader of
// JSON holds it exactly.
func stableNumber(parts ...string) int64 {
	hash := fnv.New64a()
	for _, part := range parts {
		_, _ = hash.Write([]byte(part + "\x00"))
	}
	return int64(hash.Sum64()%(1<<53-1)) + 1
}
