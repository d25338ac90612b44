package attributes_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

const (
	tokensPath = "/api/v1/deployments/1/environments/2/tokens"
	groupsPath = "/api/scim/v2/Groups"
)

// A token that a person creates has the names of the groups and the attributes, and the person cannot choose them.
func TestTokensOfPeopleHaveGroupsAndAttributes(t *testing.T) {
	region := acme.attribute(t, map[string]any{"name": "region", "type": "string", "defaultValue": "EU"})
	acme.attribute(t, map[string]any{"name": "stores", "type": "number_array", "defaultValue": "[]"})
	acme.attribute(t, map[string]any{"name": "without_default", "type": "string"})
	group := func(name string, member string) string {
		id, _ := acme.call(t, acme.scim, "POST", groupsPath, map[string]any{"displayName": name, "members": []any{map[string]any{"value": member}}}).Is(201).At("id").(string)
		t.Cleanup(func() { acme.call(t, acme.scim, "DELETE", groupsPath+"/"+id, nil) })
		return id
	}
	group("All", group("Analysts", "ada"))
	group("Others", "nobody")
	forge := map[string]any{"security_context": map[string]any{"team": "x", "cubeCloud": map[string]any{"groups": []string{"Others"}}}}
	for _, path := range []string{tokensPath, "/api/v1/deployments/1/token"} {
		field, body := "data.token", any(forge)
		if path != tokensPath {
			field, body = "cubeApiToken", nil
		}
		got := claims(t, acme.call(t, acme.ada, "POST", path, body).Is(200).At(field))
		wantClaim(t, got["cubeCloud"], `{"groups":["All","Analysts"],"userAttributes":{"region":"EU","stores":[]}}`)
		if body != nil && got["team"] != "x" {
			t.Errorf("the security context is missing: %v", got)
		}
	}
	acme.call(t, acme.admin, "POST", valuesPath, map[string]any{"userId": "ada", "userAttributeId": region, "value": "US"}).Is(200)
	wantClaim(t, ofAda(t), `{"groups":["All","Analysts"],"userAttributes":{"region":"US","stores":[]}}`)
	// A new default concerns only users without a value; a deleted attribute is in no new token.
	acme.call(t, acme.admin, "PUT", attributesPath+region, map[string]any{"defaultValue": "ROW"}).Is(200)
	wantClaim(t, ofAda(t), `{"groups":["All","Analysts"],"userAttributes":{"region":"US","stores":[]}}`)
	acme.call(t, acme.admin, "POST", valuesPath, map[string]any{"userId": "ada", "userAttributeId": region}).Is(200)
	wantClaim(t, ofAda(t), `{"groups":["All","Analysts"],"userAttributes":{"region":"ROW","stores":[]}}`)
	acme.call(t, acme.admin, "DELETE", attributesPath+region, nil).Is(200)
	wantClaim(t, ofAda(t), `{"groups":["All","Analysts"],"userAttributes":{"stores":[]}}`)
	// A key without an owner is a program, which creates tokens for its own users.
	own := claims(t, acme.call(t, acme.admin, "POST", tokensPath, forge).Is(200).At("data.token"))
	wantClaim(t, own["cubeCloud"], `{"groups":["Others"]}`)
	if none := claims(t, acme.call(t, acme.admin, "POST", "/api/v1/deployments/1/token", nil).Is(200).At("cubeApiToken")); none["cubeCloud"] != nil {
		t.Errorf("the token of a program has %v", none["cubeCloud"])
	}
}

// ofAda returns the claim of a new token of ada.
func ofAda(t *testing.T) any {
	t.Helper()
	return claims(t, acme.call(t, acme.ada, "POST", tokensPath, map[string]any{"security_context": map[string]any{}}).Is(200).At("data.token"))["cubeCloud"]
}

func wantClaim(t *testing.T, claim any, want string) {
	t.Helper()
	if got, _ := json.Marshal(claim); string(got) != want {
		t.Errorf("cubeCloud is %s, want %s", got, want)
	}
}

// Neither groups nor attributes are left out of a token that would be too large.
func TestTokensThatAreTooLargeAreNotCreated(t *testing.T) {
	for i := range 40 {
		body := map[string]any{"displayName": fmt.Sprintf("%s %d", strings.Repeat("x", 100), i), "members": []any{map[string]any{"value": "ada"}}}
		id, _ := acme.call(t, acme.scim, "POST", groupsPath, body).Is(201).At("id").(string)
		t.Cleanup(func() { acme.call(t, acme.scim, "DELETE", groupsPath+"/"+id, nil) })
	}
	apiclient.Soon(t, func() error {
		groups, _ := ofAda(t).(map[string]any)["groups"].([]any)
		if len(groups) != 40 {
			return fmt.Errorf("%d groups", len(groups))
		}
		return nil
	})
	body := map[string]any{"security_context": map[string]any{"x": strings.Repeat("x", 8000)}}
	acme.call(t, acme.ada, "POST", tokensPath, body).Rejected(409, "40 groups", "11264")
	acme.call(t, acme.admin, "POST", tokensPath, body).Is(200)
}
