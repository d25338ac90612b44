package contract_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// environmentsPath and stagingPath return the routes of the deployment "analytics" of acme.
func environmentsPath() string { return "/api/v1/deployments/" + acme.id + "/environments" }
func stagingPath() string {
	return "/build/api/v1/deployments/" + acme.id + "/branches/staging-environment"
}

// countEnvironments returns the number of environments of a type.
func countEnvironments(t *testing.T, kind string) int {
	t.Helper()
	return len(acme.as(acme.admin).call(t, "GET", environmentsPath()+"?type="+kind, nil).is(200).list("data.environments"))
}

// branchIDs returns the ids of the branches by name.
func branchIDs(t *testing.T) map[string]float64 {
	t.Helper()
	branches := acme.as(acme.admin).call(t, "GET", "/build/api/v1/deployments/"+acme.id+"/branches", nil).is(200)
	ids := map[string]float64{}
	for _, b := range branches.list("items") {
		ids[b["name"].(string)], _ = b["id"].(float64)
	}
	if len(ids) != 3 || ids["next"] == 0 || len(branches.list("data")) != 3 {
		t.Fatalf("branches: %s", branches.raw)
	}
	return ids
}

// sqlPort is the port of the SQL interfaces that the controllers of the suite are configured with.
const sqlPort = 6432

// Spec: "List environments of a deployment".
func TestEnvironmentsAreListedWithTheirEndpoints(t *testing.T) {
	a := acme.as(acme.admin).call(t, "GET", environmentsPath(), nil).is(200)
	a.want("data.environments.0.name", "production").want("data.environments.0.type", "production").want("pagination.total", 1.0)
	a.want("data.environments.0.api_credentials.rest.url", "https://analytics.data.acme.example.com/cubejs-api")
	if host, _ := a.at("data.environments.0.api_credentials.sql.host").(string); host == "" {
		t.Errorf("no SQL host: %s", a.raw)
	}
	a.want("data.environments.0.api_credentials.sql.port", float64(sqlPort))
	if id, ok := a.at("items.0.id").(string); !ok || id == "" {
		t.Errorf("the id is a string of digits: %s", a.raw)
	}
	for kind, want := range map[string]int{"production": 1, "staging": 0, "development": 0} {
		if got := countEnvironments(t, kind); got != want {
			t.Errorf("%d %s environments, want %d", got, kind, want)
		}
	}
}

// Spec: the staging toggle and its transitions.
func TestStagingEnvironmentFollowsItsToggle(t *testing.T) {
	admin, ids := acme.as(acme.admin), branchIDs(t)
	t.Run("on, by name", func(t *testing.T) {
		a := admin.call(t, "PUT", stagingPath(), map[string]any{"enabled": true, "branchName": "next"}).is(200)
		a.want("data.id", ids["next"]).want("data.name", "next").want("data.parentBranch", "main").want("data.isStagingEnvironmentEnabled", true)
		if hash, _ := a.at("data.lastHash").(string); len(hash) != 40 {
			t.Errorf("lastHash is %q", hash)
		}
		apiclient.Soon(t, func() error {
			if countEnvironments(t, "staging") != 1 {
				return errors.New("the staging environment is not listed")
			}
			return nil
		})
		admin.call(t, "GET", environmentsPath()+"?type=staging", nil).is(200).want("items.0.name", "next").want("items.0.branch", "next")
		admin.call(t, "GET", "/api/v1/deployments/"+acme.id+"/build-status?branchName=next", nil).is(200).want("mode", "staging")
	})
	t.Run("off, by id", func(t *testing.T) {
		admin.call(t, "PUT", stagingPath(), map[string]any{"enabled": false, "branchId": ids["next"]}).is(200).want("data.isStagingEnvironmentEnabled", false)
		apiclient.Soon(t, func() error {
			if countEnvironments(t, "staging") != 0 {
				return errors.New("the staging environment is still listed")
			}
			return nil
		})
	})
}

func TestInvalidStagingRequestsChangeNothing(t *testing.T) {
	admin, ids := acme.as(acme.admin), branchIDs(t)
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
			admin.call(t, "PUT", stagingPath(), c.body).rejected(c.status, c.words...)
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

func TestBranchesAreCreatedAndDeleted(t *testing.T) {
	admin := acme.as(acme.admin)
	path := "/build/api/v1/deployments/" + acme.id + "/branches"
	admin.call(t, "POST", path, map[string]any{"name": "feature/x", "from": "next"}).is(200).
		want("branchName", "feature/x").want("parentBranch", "next").want("active", false)
	admin.call(t, "POST", path, map[string]any{"name": "feature/x"}).rejected(409, "feature/x")
	admin.call(t, "POST", path, map[string]any{"name": "next"}).rejected(409, "next")
	admin.call(t, "POST", path, map[string]any{"name": "y", "from": "gone"}).rejected(400, "from", "gone")
	admin.call(t, "POST", path, map[string]any{"name": "a..b"}).rejected(400, "name")
	admin.call(t, "POST", path, map[string]any{"name": "z", "enterDevMode": true}).is(200).want("active", true)
	for _, name := range []string{"feature/x", "z"} {
		if _, err := git(acme.repository.dir, "", "rev-parse", "--verify", "refs/heads/"+name); err != nil {
			t.Errorf("the Git host has no branch %s", name)
		}
		admin.call(t, "DELETE", path+"?branchName="+name, nil).rejected(409, name, "removeOnUpstream")
		admin.call(t, "DELETE", path+"?removeOnUpstream=true&branchName="+name, nil).is(200).want("success", true)
		admin.call(t, "DELETE", path+"?removeOnUpstream=true&branchName="+name, nil).rejected(404, name)
	}
	admin.call(t, "DELETE", path+"?branchName=main", nil).rejected(400, "main", "production")
	admin.call(t, "DELETE", path, nil).rejected(400, "branchName")
}

func TestRegionsAreListed(t *testing.T) {
	acme.as(acme.admin).call(t, "GET", "/api/v1/regions", nil).is(200).
		want("items.0.name", "here").want("items.0.title", "Here").want("data.0.id", 1.0).want("pageInfo.hasNextPage", false)
}

// claims parses a token and verifies it with a key of a Secret.
func claims(t *testing.T, token, secret, key string) (jwt.MapClaims, error) {
	t.Helper()
	keys := &corev1.Secret{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: secret}, keys); err != nil {
		t.Fatal(err)
	}
	parsed := jwt.MapClaims{}
	_, err := jwt.NewParser(jwt.WithValidMethods([]string{"HS256"})).ParseWithClaims(token, parsed, func(*jwt.Token) (any, error) { return keys.Data[key], nil })
	return parsed, err
}

// Spec: "Create metadata token".
func TestMetadataTokensAreSignedWithTheGatewaysKey(t *testing.T) {
	admin := acme.as(acme.admin)
	id, _ := admin.call(t, "GET", "/api/v1/deployments/"+acme.id+"/environments?type=production", nil).is(200).at("items.0.id").(string)
	path := "/api/v1/deployments/" + acme.id + "/environments/" + id
	a := admin.call(t, "POST", path+"/tokens-for-meta-sync", map[string]any{
		"security_context": map[string]any{"team": "sales", "scope": "data", "exp": 9e9, "tenant": uint64(math.MaxUint64)},
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
		t.Errorf("the claims are %v", got)
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil || !strings.Contains(string(payload), `"tenant":18446744073709551615`) || !strings.Contains(string(a.raw), `"tenant":18446744073709551615`) {
		t.Errorf("a large integer is another one: %s, %v, %s", payload, err, a.raw)
	}
	t.Run("the key of the pods does not verify it", func(t *testing.T) {
		if _, err := claims(t, token, engine.CredentialsName(production), engine.KeyAPISecret); err == nil {
			t.Error("the secret of the pods verifies the token")
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
			admin.call(t, "POST", path+"/tokens-for-meta-sync", body).rejected(400, strings.TrimRight(name, ": "))
		})
	}
	admin.call(t, "POST", "/api/v1/deployments/"+acme.id+"/environments/999/tokens-for-meta-sync", map[string]any{"security_context": map[string]any{}}).rejected(404, "999")
}

// createAPIKey creates a key and returns its id and its token.
func createAPIKey(t *testing.T, body map[string]any) (id, token string) {
	t.Helper()
	a := acme.as(acme.admin).call(t, "POST", "/api/v1/api-keys", body).is(200)
	return fmt.Sprint(a.at("id")), fmt.Sprint(a.at("token"))
}

// Contract: "api-keys".
func TestAPIKeysAreLimitedToTheirDeploymentsAndPermissions(t *testing.T) {
	admin := acme.as(acme.admin)
	other := create(t, acme, "Out of scope")
	a := admin.call(t, "POST", "/api/v1/api-keys", map[string]any{"name": "CI", "deploymentIds": []string{acme.id}, "permissions": []string{"DeploymentRead"}}).is(200)
	t.Cleanup(func() { admin.call(t, "DELETE", fmt.Sprintf("/api/v1/api-keys/%s", a.at("id")), nil).is(200) })
	token, _ := a.at("token").(string)
	a.want("name", "CI").want("deploymentIds.0", acme.id)
	scoped := acme.as(token)
	t.Run("valid immediately, in both schemes", func(t *testing.T) {
		scoped.call(t, "GET", "/api/v1/deployments/"+acme.id, nil).is(200)
		caller{acme.host, "Api-Key " + token}.call(t, "GET", "/api/v1/deployments/"+acme.id, nil).is(200)
		caller{acme.host, "bearer " + token}.call(t, "GET", "/api/v1/deployments/"+acme.id, nil).is(200)
	})
	t.Run("limited to its deployments", func(t *testing.T) {
		scoped.call(t, "GET", "/api/v1/deployments/"+other, nil).rejected(403, other)
		scoped.call(t, "GET", "/api/v1/deployments/999", nil).rejected(403)
		if items := scoped.call(t, "GET", "/api/v1/deployments", nil).is(200).list("items"); len(items) != 1 || items[0]["id"] != acme.id {
			t.Errorf("the list has %v, want deployment %s only", items, acme.id)
		}
	})
	t.Run("limited to its permissions", func(t *testing.T) {
		scoped.call(t, "PUT", "/api/v1/deployments/"+acme.id, map[string]any{}).rejected(403, "DeploymentUpdate")
		scoped.call(t, "GET", "/api/v1/api-keys", nil).rejected(403, "Admin")
		scoped.call(t, "POST", "/build/api/v1/deployments", "not even JSON").rejected(403, "DeploymentCreate")
	})
	t.Run("users/me describes the key", func(t *testing.T) {
		scoped.call(t, "GET", "/api/v1/users/me", nil).is(200).want("username", "CI").want("isAdmin", false).want("userPolicies.0.resources.0", acme.id)
		admin.call(t, "GET", "/api/v1/users/me", nil).is(200).want("isAdmin", true).want("email", "admin@"+acme.host)
	})
	t.Run("with all permissions, but confined to deployments, it cannot manage keys", func(t *testing.T) {
		id, token := createAPIKey(t, map[string]any{"name": "Confined", "deploymentIds": []string{acme.id}})
		confined := acme.as(token)
		confined.call(t, "GET", "/api/v1/deployments/"+acme.id, nil).is(200)
		confined.call(t, "POST", "/api/v1/api-keys", nil).rejected(403, "limited to certain deployments")
		confined.call(t, "DELETE", "/api/v1/api-keys/admin", nil).rejected(403, "limited to certain deployments")
		confined.call(t, "POST", "/build/api/v1/deployments", creation("Confined")).rejected(403)
		admin.call(t, "DELETE", "/api/v1/api-keys/"+id, nil).is(200)
	})
}

// A key whose deployments are deleted authorizes for none, and is not shown as one that authorizes for all.
func TestAPIKeyOfADeletedDeploymentIsShownWithNone(t *testing.T) {
	admin, d := acme.as(acme.admin), create(t, acme, "Deleted before its key")
	id, token := createAPIKey(t, map[string]any{"name": "Orphan", "deploymentIds": []string{d}})
	t.Cleanup(func() { admin.call(t, "DELETE", "/api/v1/api-keys/"+id, nil).is(200) })
	admin.call(t, "DELETE", "/api/v1/deployments/"+d, nil).is(200)
	awaitUnlisted(t, acme, d)
	shown := []any{admin.call(t, "GET", "/api/v1/api-keys/"+id, nil).is(200).at("deploymentIds")}
	for _, key := range admin.call(t, "GET", "/api/v1/api-keys?first=100", nil).is(200).list("items") {
		if key["id"] == id {
			shown = append(shown, key["deploymentIds"])
		}
	}
	if fmt.Sprint(shown) != "[[] []]" {
		t.Errorf("the deployments of the key are %v", shown)
	}
	acme.as(token).call(t, "GET", "/api/v1/deployments/"+acme.id, nil).rejected(403, acme.id)
	// A later deployment of the same name is another one.
	again := create(t, acme, "Deleted before its key")
	acme.as(token).call(t, "GET", "/api/v1/deployments/"+again, nil).rejected(403, again)
	if ids := admin.call(t, "GET", "/api/v1/api-keys/"+id, nil).is(200).list("deploymentIds"); len(ids) > 0 {
		t.Errorf("the key has the deployments %v", ids)
	}
}

func TestTokenOfAnAPIKeyIsShownOnce(t *testing.T) {
	admin := acme.as(acme.admin)
	id, token := createAPIKey(t, map[string]any{"name": "Shown once"})
	t.Run("later responses and the object do not contain it", func(t *testing.T) {
		for _, path := range []string{"/api/v1/api-keys", "/api/v1/api-keys/" + id} {
			if a := admin.call(t, "GET", path, nil).is(200); strings.Contains(string(a.raw), token) || strings.Contains(string(a.raw), `"token"`) {
				t.Errorf("%s contains the token: %s", path, a.raw)
			}
		}
		key := &v1alpha1.ApiKey{}
		if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: id}, key); err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprintf("%+v", key); strings.Contains(text, token) {
			t.Error("the object contains the token")
		}
	})
	t.Run("a deleted key is rejected", func(t *testing.T) {
		acme.as(token).call(t, "GET", "/api/v1/deployments/"+acme.id, nil).is(200)
		admin.call(t, "DELETE", "/api/v1/api-keys/"+id, nil).is(200)
		acme.as(token).call(t, "GET", "/api/v1/deployments/"+acme.id, nil).rejected(401)
		admin.call(t, "GET", "/api/v1/api-keys/"+id, nil).rejected(404)
	})
}

func TestInvalidAPIKeysAreRejected(t *testing.T) {
	admin := acme.as(acme.admin)
	for _, name := range []string{"none", "No%20Name", "%252e%252e", "a%20b", strings.Repeat("x", 254)} {
		if a := admin.call(t, "GET", "/api/v1/api-keys/"+name, nil); a.status != 404 && a.status != 400 {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
	admin.call(t, "POST", "/api/v1/api-keys", map[string]any{"permissions": []string{"Everything"}}).rejected(400, "permissions", "Everything")
	admin.call(t, "POST", "/api/v1/api-keys", map[string]any{"expiresAt": "2001-01-01T00:00:00Z"}).rejected(400, "expiresAt")
	admin.call(t, "POST", "/api/v1/api-keys", map[string]any{"deploymentIds": []string{"999"}}).rejected(400, "deploymentIds", "999")
}

func TestAPIKeysExpire(t *testing.T) {
	_, token := createAPIKey(t, map[string]any{"expiresAt": time.Now().Add(5 * time.Second)})
	apiclient.Soon(t, func() error {
		if a := acme.as(token).call(t, "GET", "/api/v1/regions", nil); a.status != 401 {
			return fmt.Errorf("status %d after the expiry", a.status)
		}
		return nil
	})
}
