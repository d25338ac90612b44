package contract_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/test/contract/internal/apiclient"
)

// Spec: "List environments of a deployment", and the staging toggle with its transitions.
func TestEnvironmentsAndStaging(t *testing.T) {
	admin := acme.as(acme.admin)
	environments := "/api/v1/deployments/" + acme.id + "/environments"
	staging := "/build/api/v1/deployments/" + acme.id + "/branches/staging-environment"
	a := admin.call(t, "GET", environments, nil).is(200)
	a.want("data.environments.0.name", "production").want("data.environments.0.type", "production").want("pagination.total", 1.0)
	a.want("data.environments.0.api_credentials.rest.url", "https://analytics.data.acme.example.com/cubejs-api")
	if host, _ := a.at("data.environments.0.api_credentials.sql.host").(string); host == "" {
		t.Errorf("no SQL host: %s", a.raw)
	}
	if port, _ := a.at("data.environments.0.api_credentials.sql.port").(float64); port < 1 {
		t.Errorf("no SQL port: %s", a.raw)
	}
	if id, ok := a.at("items.0.id").(string); !ok || id == "" {
		t.Errorf("the id is a string of digits: %s", a.raw)
	}
	listed := func(kind string) int {
		return len(admin.call(t, "GET", environments+"?type="+kind, nil).is(200).list("data.environments"))
	}
	if listed("staging") != 0 || listed("production") != 1 || listed("development") != 0 {
		t.Error("only production is there at first")
	}
	branches := admin.call(t, "GET", "/build/api/v1/deployments/"+acme.id+"/branches", nil).is(200)
	ids := map[string]float64{}
	for _, b := range branches.list("items") {
		ids[b["name"].(string)], _ = b["id"].(float64)
	}
	if len(ids) != 3 || ids["next"] == 0 || len(branches.list("data")) != 3 {
		t.Fatalf("branches: %s", branches.raw)
	}
	t.Run("on, by name", func(t *testing.T) {
		a := admin.call(t, "PUT", staging, map[string]any{"enabled": true, "branchName": "next"}).is(200)
		a.want("data.id", ids["next"]).want("data.name", "next").want("data.parentBranch", "main").want("data.isStagingEnvironmentEnabled", true)
		if hash, _ := a.at("data.lastHash").(string); len(hash) != 40 {
			t.Errorf("lastHash is %q", hash)
		}
		apiclient.Soon(t, func() error {
			if listed("staging") != 1 {
				return fmt.Errorf("the staging environment is not listed")
			}
			return nil
		})
		admin.call(t, "GET", environments+"?type=staging", nil).is(200).want("items.0.name", "next").want("items.0.branch", "next")
		admin.call(t, "GET", "/api/v1/deployments/"+acme.id+"/build-status?branchName=next", nil).is(200).want("mode", "staging")
	})
	t.Run("off, by id", func(t *testing.T) {
		admin.call(t, "PUT", staging, map[string]any{"enabled": false, "branchId": ids["next"]}).is(200).want("data.isStagingEnvironmentEnabled", false)
		apiclient.Soon(t, func() error {
			if listed("staging") != 0 {
				return fmt.Errorf("the staging environment is still listed")
			}
			return nil
		})
	})
	for name, c := range map[string]struct {
		body   map[string]any
		status int
		words  []string
	}{
		"personal branch":   {map[string]any{"enabled": true, "branchName": "dev-ada"}, 400, []string{"dev-ada", "personal", "shared"}},
		"production branch": {map[string]any{"enabled": true, "branchName": "main"}, 400, []string{"main", "production", "shared"}},
		"both":              {map[string]any{"enabled": true, "branchName": "next", "branchId": ids["next"]}, 400, []string{"branchName", "branchId"}},
		"neither":           {map[string]any{"enabled": true}, 400, []string{"branchName", "branchId"}},
		"no enabled":        {map[string]any{"branchName": "next"}, 400, []string{"enabled"}},
		"enabled is text":   {map[string]any{"enabled": "yes", "branchName": "next"}, 400, []string{"enabled", "boolean"}},
		"unknown name":      {map[string]any{"enabled": true, "branchName": "gone"}, 404, []string{"gone"}},
		"unknown id":        {map[string]any{"enabled": true, "branchId": 4711}, 404, []string{"4711"}},
		"id is text":        {map[string]any{"enabled": true, "branchId": "1"}, 400, []string{"branchId"}},
	} {
		t.Run(name, func(t *testing.T) {
			admin.call(t, "PUT", staging, c.body).refused(c.status, c.words...)
			list := &v1alpha1.BranchList{}
			if err := k8s.List(t.Context(), list, client.InNamespace(acme.name)); err != nil {
				t.Fatal(err)
			}
			for i := range list.Items {
				if enabled := list.Items[i].Spec.StagingEnvironmentEnabled; enabled != nil && *enabled {
					t.Errorf("branch %s has staging enabled", list.Items[i].Spec.Name)
				}
			}
		})
	}
}

func TestBranches(t *testing.T) {
	admin := acme.as(acme.admin)
	path := "/build/api/v1/deployments/" + acme.id + "/branches"
	admin.call(t, "POST", path, map[string]any{"name": "feature/x", "from": "next"}).is(200).
		want("branchName", "feature/x").want("parentBranch", "next").want("active", false)
	admin.call(t, "POST", path, map[string]any{"name": "feature/x"}).refused(409, "feature/x")
	admin.call(t, "POST", path, map[string]any{"name": "next"}).refused(409, "next")
	admin.call(t, "POST", path, map[string]any{"name": "y", "from": "gone"}).refused(400, "from", "gone")
	admin.call(t, "POST", path, map[string]any{"name": "a..b"}).refused(400, "name")
	admin.call(t, "POST", path, map[string]any{"name": "z", "enterDevMode": true}).refused(400, "enterDevMode")
	admin.call(t, "DELETE", path+"?branchName=feature/x", nil).is(200).want("success", true)
	admin.call(t, "DELETE", path+"?branchName=feature/x", nil).refused(404, "feature/x")
	admin.call(t, "DELETE", path+"?branchName=main", nil).refused(400, "main", "production")
	admin.call(t, "DELETE", path+"?branchName=next", nil).refused(409, "next", "repository")
	admin.call(t, "DELETE", path+"?branchName=next&removeOnUpstream=true", nil).refused(400, "removeOnUpstream")
	admin.call(t, "DELETE", path, nil).refused(400, "branchName")
}

func TestRegions(t *testing.T) {
	acme.as(acme.admin).call(t, "GET", "/api/v1/regions", nil).is(200).
		want("items.0.name", "here").want("items.0.title", "Here").want("data.0.id", 1.0).want("pageInfo.hasNextPage", false)
}

// Contract: "D/env-vars".
func TestVariables(t *testing.T) {
	admin := acme.as(acme.admin)
	id := create(t, acme, "Variables")
	path := "/api/v1/deployments/" + id + "/env-vars"
	set := func(pairs ...string) *answer {
		var all []any
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, map[string]any{"name": pairs[i], "value": pairs[i+1]})
		}
		return admin.call(t, "PUT", path, map[string]any{"env_variables": all})
	}
	admin.call(t, "GET", path, nil).is(200).want("pageInfo.hasNextPage", false)
	set("CUBEJS_DB_TYPE", "postgres", "CUBEJS_DB_PASS", "hunter2", "Api_Key", "k-1").is(200)
	a := set("CUBEJS_DB_HOST", "db", "CUBEJS_DB_TYPE", "mysql").is(200)
	for i, want := range []string{"Api_Key=[ENCRYPTED]", "CUBEJS_DB_HOST=db", "CUBEJS_DB_PASS=[ENCRYPTED]", "CUBEJS_DB_TYPE=mysql"} {
		name, value, _ := strings.Cut(want, "=")
		a.want(fmt.Sprintf("items.%d.name", i), name).want(fmt.Sprintf("data.%d.value", i), value)
	}
	d := object(t, acme, id)
	values := func() map[string]string {
		secret := &corev1.Secret{}
		if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: d.Name + "-variables"}, secret); err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for key, value := range secret.Data {
			name, _, _ := strings.Cut(key, ".")
			all[name] += string(value)
		}
		return all
	}
	if got := values(); got["CUBEJS_DB_PASS"] != "hunter2" || got["Api_Key"] != "k-1" || len(got) != 2 {
		t.Errorf("the Secret holds %v", got)
	}
	if text := fmt.Sprintf("%+v", d.Spec.Env); strings.Contains(text, "hunter2") {
		t.Errorf("the secret stands in the spec: %s", text)
	}
	t.Run("a new value of a secret is a change of the spec, and the old one goes", func(t *testing.T) {
		before := object(t, acme, id).Generation
		set("CUBEJS_DB_PASS", "hunter3").is(200)
		if now := object(t, acme, id).Generation; now == before {
			t.Error("the spec is the same: no pod would take the new value")
		}
		if got := values(); got["CUBEJS_DB_PASS"] != "hunter3" {
			t.Errorf("the Secret holds %v", got)
		}
	})
	for name, c := range map[string]struct {
		name, value string
		words       []string
	}{
		"placeholder": {"CUBEJS_DB_PASS", "[ENCRYPTED]", []string{"value", "[ENCRYPTED]"}},
		"name":        {"1A", "x", []string{"name", "1A"}},
		"reserved":    {"CUBEJS_API_SECRET", "x", []string{"CUBEJS_API_SECRET"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := object(t, acme, id).Generation
			set("GOOD", "1", c.name, c.value).refused(400, c.words...)
			if now := object(t, acme, id).Generation; now != before {
				t.Error("something was written")
			}
		})
	}
	set("TWICE", "1", "TWICE", "2").refused(400, "TWICE")
	admin.call(t, "PUT", path, map[string]any{}).refused(400, "env_variables")
	if a := admin.call(t, "PUT", path, map[string]any{"env_variables": []any{map[string]any{"name": "A_TOKEN", "value": 17}}}); strings.Contains(string(a.raw), "17") {
		t.Errorf("the error shows the value: %s", a.raw)
	}
}

// claims reads a token that was signed with a key of a Secret.
func claims(t *testing.T, token, secret, key string) (jwt.MapClaims, error) {
	t.Helper()
	held := &corev1.Secret{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: secret}, held); err != nil {
		t.Fatal(err)
	}
	parsed := jwt.MapClaims{}
	_, err := jwt.NewParser(jwt.WithValidMethods([]string{"HS256"})).ParseWithClaims(token, parsed, func(*jwt.Token) (any, error) { return held.Data[key], nil })
	return parsed, err
}

// Spec: "Create metadata token".
func TestMetadataToken(t *testing.T) {
	admin := acme.as(acme.admin)
	id, _ := admin.call(t, "GET", "/api/v1/deployments/"+acme.id+"/environments?type=production", nil).is(200).at("items.0.id").(string)
	path := "/api/v1/deployments/" + acme.id + "/environments/" + id
	a := admin.call(t, "POST", path+"/tokens-for-meta-sync", map[string]any{
		"security_context": map[string]any{"team": "sales", "scope": "data", "exp": 9e9},
	}).is(200)
	created, _ := time.Parse(time.RFC3339, fmt.Sprint(a.at("data.created_at")))
	expires, _ := time.Parse(time.RFC3339, fmt.Sprint(a.at("data.expires_at")))
	if expires.Sub(created) != 86400*time.Second {
		t.Errorf("valid for %s, want the default of 86400 s", expires.Sub(created))
	}
	token, _ := a.at("data.token").(string)
	production := v1alpha1.ProductionName("analytics")
	got, err := claims(t, token, engine.GatewayCredentialsName(production), engine.KeyMetadata)
	if err != nil {
		t.Fatal(err)
	}
	if got["team"] != "sales" || fmt.Sprint(got["scope"]) != "[meta]" || got["exp"] != float64(expires.Unix()) {
		t.Errorf("the token says %v", got)
	}
	t.Run("pods do not know its key", func(t *testing.T) {
		if _, err := claims(t, token, engine.CredentialsName(production), engine.KeyAPISecret); err == nil {
			t.Error("the secret of the pods verifies it")
		}
	})
	t.Run("expires_in", func(t *testing.T) {
		a := admin.call(t, "POST", path+"/tokens-for-meta-sync", map[string]any{"security_context": map[string]any{}, "expires_in": 60}).is(200)
		created, _ := time.Parse(time.RFC3339, fmt.Sprint(a.at("data.created_at")))
		expires, _ := time.Parse(time.RFC3339, fmt.Sprint(a.at("data.expires_at")))
		if expires.Sub(created) != time.Minute {
			t.Errorf("valid for %s", expires.Sub(created))
		}
	})
	t.Run("tokens that query data", func(t *testing.T) {
		token, _ := admin.call(t, "POST", path+"/tokens", map[string]any{"security_context": map[string]any{"u": 1}}).is(200).at("data.token").(string)
		if _, err := claims(t, token, engine.CredentialsName(production), engine.KeyAPISecret); err != nil {
			t.Error(err)
		}
		token, _ = admin.call(t, "POST", "/api/v1/deployments/"+acme.id+"/token", nil).is(200).at("cubeApiToken").(string)
		if _, err := claims(t, token, engine.CredentialsName(production), engine.KeyAPISecret); err != nil {
			t.Error(err)
		}
	})
	for name, body := range map[string]map[string]any{
		"security_context":  {},
		"expires_in":        {"security_context": map[string]any{}, "expires_in": 0},
		"expires_in: ":      {"security_context": map[string]any{}, "expires_in": "60"},
		"security_context:": {"security_context": "x"},
	} {
		t.Run(name, func(t *testing.T) {
			admin.call(t, "POST", path+"/tokens-for-meta-sync", body).refused(400, strings.TrimRight(name, ": "))
		})
	}
	admin.call(t, "POST", "/api/v1/deployments/"+acme.id+"/environments/999/tokens-for-meta-sync", map[string]any{"security_context": map[string]any{}}).refused(404, "999")
}

// Contract: "api-keys".
func TestAPIKeys(t *testing.T) {
	admin := acme.as(acme.admin)
	other := create(t, acme, "Out of scope")
	a := admin.call(t, "POST", "/api/v1/api-keys", map[string]any{"name": "CI", "deploymentIds": []string{acme.id}, "permissions": []string{"DeploymentRead"}}).is(200)
	token, _ := a.at("token").(string)
	id, _ := a.at("id").(string)
	a.want("name", "CI").want("deploymentIds.0", acme.id)
	scoped := acme.as(token)
	t.Run("works at once, by both schemes", func(t *testing.T) {
		scoped.call(t, "GET", "/api/v1/deployments/"+acme.id, nil).is(200)
		as{acme.host, "Api-Key " + token}.call(t, "GET", "/api/v1/deployments/"+acme.id, nil).is(200)
		as{acme.host, "bearer " + token}.call(t, "GET", "/api/v1/deployments/"+acme.id, nil).is(200)
	})
	t.Run("is for its deployments only", func(t *testing.T) {
		scoped.call(t, "GET", "/api/v1/deployments/"+other, nil).refused(403, other)
		scoped.call(t, "GET", "/api/v1/deployments/999", nil).refused(403)
		for _, d := range scoped.call(t, "GET", "/api/v1/deployments", nil).is(200).list("items") {
			if d["id"] != acme.id {
				t.Errorf("it lists deployment %v", d["id"])
			}
		}
	})
	t.Run("has its permissions only", func(t *testing.T) {
		scoped.call(t, "PUT", "/api/v1/deployments/"+acme.id, map[string]any{}).refused(403, "DeploymentUpdate")
		scoped.call(t, "GET", "/api/v1/api-keys", nil).refused(403, "Admin")
		scoped.call(t, "POST", "/build/api/v1/deployments", "not even JSON").refused(403, "DeploymentCreate")
	})
	t.Run("who it is", func(t *testing.T) {
		scoped.call(t, "GET", "/api/v1/users/me", nil).is(200).want("username", "CI").want("isAdmin", false).want("userPolicies.0.resources.0", acme.id)
		admin.call(t, "GET", "/api/v1/users/me", nil).is(200).want("isAdmin", true).want("email", "admin@"+acme.host)
	})
	t.Run("confined, it does not get at the account's keys, Admin or not", func(t *testing.T) {
		a := admin.call(t, "POST", "/api/v1/api-keys", map[string]any{"name": "Confined", "deploymentIds": []string{acme.id}}).is(200)
		confined := acme.as(fmt.Sprint(a.at("token")))
		confined.call(t, "GET", "/api/v1/deployments/"+acme.id, nil).is(200)
		confined.call(t, "POST", "/api/v1/api-keys", nil).refused(403, "confined")
		confined.call(t, "DELETE", "/api/v1/api-keys/admin", nil).refused(403, "confined")
		confined.call(t, "POST", "/build/api/v1/deployments", creation("Confined")).refused(403)
		admin.call(t, "DELETE", fmt.Sprintf("/api/v1/api-keys/%s", a.at("id")), nil).is(200)
	})
	t.Run("its token is never shown again", func(t *testing.T) {
		for _, path := range []string{"/api/v1/api-keys", "/api/v1/api-keys/" + id} {
			if a := admin.call(t, "GET", path, nil).is(200); strings.Contains(string(a.raw), token) || strings.Contains(string(a.raw), `"token"`) {
				t.Errorf("%s shows it: %s", path, a.raw)
			}
		}
		key := &v1alpha1.ApiKey{}
		if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: id}, key); err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprintf("%+v", key); strings.Contains(text, token) {
			t.Error("the object holds the token")
		}
	})
	t.Run("stops working when it is deleted", func(t *testing.T) {
		admin.call(t, "DELETE", "/api/v1/api-keys/"+id, nil).is(200)
		scoped.call(t, "GET", "/api/v1/deployments/"+acme.id, nil).refused(401)
		admin.call(t, "GET", "/api/v1/api-keys/"+id, nil).refused(404)
	})
	for _, name := range []string{"none", "No%20Name", "%252e%252e", "a%20b", strings.Repeat("x", 254)} {
		if a := admin.call(t, "GET", "/api/v1/api-keys/"+name, nil); a.status != 404 && a.status != 400 {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
	admin.call(t, "POST", "/api/v1/api-keys", map[string]any{"permissions": []string{"Everything"}}).refused(400, "permissions", "Everything")
	admin.call(t, "POST", "/api/v1/api-keys", map[string]any{"expiresAt": "2001-01-01T00:00:00Z"}).refused(400, "expiresAt")
	admin.call(t, "POST", "/api/v1/api-keys", map[string]any{"deploymentIds": []string{"999"}}).refused(400, "deploymentIds", "999")
	t.Run("expires", func(t *testing.T) {
		token, _ := admin.call(t, "POST", "/api/v1/api-keys", map[string]any{"expiresAt": time.Now().Add(5 * time.Second)}).is(200).at("token").(string)
		apiclient.Soon(t, func() error {
			if a := acme.as(token).call(t, "GET", "/api/v1/regions", nil); a.status != 401 {
				return fmt.Errorf("it still answers %d", a.status)
			}
			return nil
		})
	})
}
