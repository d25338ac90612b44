package keycloak

import (
	"encoding/json"
	"time"
)

// Realm is a realm with its own users and clients. It is an issuer.
type Realm struct {
	Name    string
	Groups  []string
	Users   []User
	Clients []Client
	// AccessTokens is the lifetime of access tokens; five minutes if 0.
	AccessTokens time.Duration
}

// User is a person with a password and a verified e-mail address. The user name is the address.
type User struct {
	Email, Password, FirstName, LastName string
	// Groups are names of the realm's groups.
	Groups []string
}

// Client is a confidential client with the authorization code flow. Its ID tokens have the claim groups.
type Client struct {
	ID, Secret string
	// RedirectURIs may end with *.
	RedirectURIs []string
}

// MarshalJSON returns the realm in the form that Keycloak imports.
func (r Realm) MarshalJSON() ([]byte, error) {
	type object = map[string]any
	groups, users, clients := []object{}, []object{}, []object{}
	for _, name := range r.Groups {
		groups = append(groups, object{"name": name})
	}
	for _, u := range r.Users {
		users = append(users, object{
			"username": u.Email, "email": u.Email, "emailVerified": true, "firstName": u.FirstName, "lastName": u.LastName, "enabled": true,
			"groups": u.Groups, "credentials": []object{{"type": "password", "value": u.Password}},
		})
	}
	for _, c := range r.Clients {
		clients = append(clients, object{
			"clientId": c.ID, "secret": c.Secret, "redirectUris": c.RedirectURIs, "standardFlowEnabled": true, "directAccessGrantsEnabled": false,
			"protocolMappers": []object{{
				"name": "groups", "protocol": "openid-connect", "protocolMapper": "oidc-group-membership-mapper",
				"config": object{"claim.name": "groups", "full.path": "false", "id.token.claim": "true", "access.token.claim": "true", "userinfo.token.claim": "true"},
			}},
		})
	}
	realm := object{"realm": r.Name, "enabled": true, "groups": groups, "users": users, "clients": clients}
	if r.AccessTokens > 0 {
		realm["accessTokenLifespan"] = int(r.AccessTokens / time.Second)
	}
	return json.Marshal(realm)
}
