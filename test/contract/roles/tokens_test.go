package roles_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine/dataapi"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
)

// TestTokensForTheDataAPI: data needs DeploymentRead, for people with a role and without a security context of their choice;
// with DeploymentUpdate it is a token for anyone. SQL needs SqlRunnerRead, metadata SchemaRead.
func TestTokensForTheDataAPI(t *testing.T) {
	roles := map[string][]string{
		"reader":  {"DeploymentRead"},
		"runner":  {"DeploymentRead", "SqlRunnerRead"},
		"modeler": {"SchemaRead"},
		"editor":  {"DeploymentUpdate"},
	}
	for name, actions := range roles {
		id := acme.role(t, object{"name": name, "policies": onAnalytics(actions...)})
		roles[name] = append(actions, id)
	}
	token := func(name string) string {
		key := acme.user(t, "person-"+name)
		if held := roles[name]; held != nil {
			acme.call(t, acme.admin, "PUT", userPath(held[len(held)-1], "person-"+name), nil).Is(204)
		}
		return key
	}
	type outcome struct {
		status         int
		team, sql, own bool   // has the security context of the request, may run SQL, has the person's claim
		key            string // that signs it: the gateway alone knows that of tokens that must not read metadata
	}
	refused := outcome{status: 403}
	for name, c := range map[string]struct {
		token                        string
		data, metadata, listed, meta outcome
	}{
		"a person who reads":    {token("reader"), outcome{200, false, false, true, clustertest.MetadataSecret}, refused, outcome{status: 200}, refused},
		"a person who runs SQL": {token("runner"), outcome{200, false, true, true, clustertest.MetadataSecret}, refused, outcome{status: 200}, refused},
		"a modeler":             {token("modeler"), refused, outcome{status: 200}, refused, refused},
		"an editor":             {token("editor"), outcome{200, true, false, true, clustertest.MetadataSecret}, refused, outcome{status: 200}, outcome{status: 200}},
		"a viewer":              {acme.user(t, "person-viewer", "Viewer"), outcome{200, false, false, true, clustertest.APISecret}, outcome{status: 200}, outcome{status: 200}, outcome{status: 200}},
		"without a role":        {token("none"), refused, outcome{status: 200}, outcome{status: 200}, outcome{status: 200}},
		"a program that reads":  {acme.reader, refused, refused, outcome{status: 200}, refused},
		"a program":             {acme.admin, outcome{200, true, true, false, clustertest.APISecret}, outcome{status: 200}, outcome{status: 200}, outcome{status: 200}},
	} {
		t.Run(name, func(t *testing.T) {
			const path = "/api/v1/deployments/1/environments/2/tokens"
			body := object{"security_context": object{"team": "x", dataapi.ClaimPermissions: []string{"DeploymentRead", "SchemaRead", "SqlRunnerRead"}}}
			answer := acme.call(t, c.token, "POST", path, body).Is(c.data.status)
			if c.data.status == 200 {
				check(t, apiclient.Claims(t, answer.At("data.token"), c.data.key), c.data.team, c.data.sql, c.data.own)
			}
			production := acme.call(t, c.token, "POST", "/api/v1/deployments/1/token", nil).Is(c.data.status)
			if c.data.status == 200 {
				check(t, apiclient.Claims(t, production.At("cubeApiToken"), c.data.key), false, c.data.sql, c.data.own)
			}
			acme.call(t, c.token, "POST", path+"-for-meta-sync", body).Is(c.metadata.status)
			acme.call(t, c.token, "GET", path, nil).Is(c.listed.status)
			acme.call(t, c.token, "POST", path, object{"security_context": object{}, "scopes": []string{"meta"}}).Is(c.meta.status)
			if c.token != acme.admin && c.token != acme.reader && name != "a viewer" && name != "without a role" {
				acme.call(t, c.token, "POST", "/api/v1/deployments/3/environments/4/tokens", body).Is(403)
			}
		})
	}
}

func check(t *testing.T, got jwt.MapClaims, team, sql, own bool) {
	t.Helper()
	listed, limited := got[dataapi.ClaimPermissions].([]any)
	if (got["team"] != nil) != team || (!limited || slices.Contains(listed, any("SqlRunnerRead"))) != sql || (got["cubeCloud"] != nil) != own {
		t.Errorf("claims %v", got)
	}
}

// TestDefaultRole: the account's default role is that of users without another one.
func TestDefaultRole(t *testing.T) {
	key := globex.user(t, "frank")
	globex.call(t, key, "GET", "/api/v1/deployments/1", nil).Is(200)
	setDefault(t, "nothing")
	globex.add(t, &v1alpha1.AccountRole{ObjectMeta: metaIn(globex, "nothing"), Spec: v1alpha1.AccountRoleSpec{Name: "Nothing"}})
	soon(t, func() error {
		if got := globex.call(t, key, "GET", "/api/v1/deployments/1", nil); got.Status != 403 {
			return fmt.Errorf("%d %s", got.Status, got.Body)
		}
		return nil
	})
}
