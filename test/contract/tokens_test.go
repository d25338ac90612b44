package contract_test

import (
	"fmt"
	"strings"
	"testing"
)

// Contract: getDeploymentEnvironmentTokens. The list has what is kept of the caller's own tokens, and never a token.
func TestIssuedTokensAreListedWithoutTheToken(t *testing.T) {
	admin, id := acme.as(acme.admin), create(t, acme, "Tokens")
	environments := "/api/v1/deployments/" + id + "/environments"
	path := fmt.Sprintf("%s/%s/tokens", environments, admin.call(t, "GET", environments, nil).is(200).at("items.0.id"))
	admin.call(t, "GET", path, nil).is(200).want("pagination.total", 0.0)
	body := map[string]any{"security_context": map[string]any{"tenant": "private"}, "expires_in": 60}
	metadata := admin.call(t, "POST", path+"-for-meta-sync", body).is(200)
	data := admin.call(t, "POST", path, body).is(200)
	limited := admin.call(t, "POST", path, map[string]any{"security_context": map[string]any{}, "scopes": []string{"meta"}}).is(200)
	listed := admin.call(t, "GET", path, nil).is(200).want("pagination.total", 3.0)
	for i, issued := range []*response{metadata, data, limited} {
		for _, shape := range []string{"data", "items"} {
			at := fmt.Sprintf("%s.%d.", shape, i)
			for _, field := range []string{"id", "created_at", "expires_at"} {
				listed.want(at+field, issued.at("data."+field))
			}
			listed.want(at+"token", "[HIDDEN]")
		}
		if strings.Contains(string(listed.raw), fmt.Sprint(issued.at("data.token"))) {
			t.Errorf("the list has a token: %s", listed.raw)
		}
	}
	listed.want("items.0.scopes.0", "meta").want("items.2.scopes.0", "meta")
	if scopes := listed.at("items.1.scopes"); fmt.Sprint(scopes) != "[]" || strings.Contains(string(listed.raw), "private") {
		t.Errorf("the scopes of the data token are %v: %s", scopes, listed.raw)
	}
	first := admin.call(t, "GET", path+"?first=2", nil).is(200).want("pageInfo.hasNextPage", true)
	admin.call(t, "GET", fmt.Sprintf("%s?first=2&after=%s", path, first.at("pageInfo.endCursor")), nil).is(200).want("items.0.id", limited.at("data.id"))
	_, other := createAPIKey(t, map[string]any{"name": "Other", "permissions": []string{"DeploymentUpdate"}})
	acme.as(other).call(t, "GET", path, nil).is(200).want("pagination.total", 0.0)
}
