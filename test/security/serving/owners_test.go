package serving_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
)

// scim sends a SCIM request of an administrator of the victim and returns the body.
func scim(t *testing.T, status int, method, path string, body any) map[string]any {
	t.Helper()
	a, err := apiclient.Request{
		Method: method, URL: "https://" + victim + "/api/scim/v2" + path, Authorization: "Bearer " + keys["victim-1"],
		Body: body, MediaType: "application/scim+json",
	}.Send(t.Context(), from(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if a.Status != status || len(a.Body) > 0 && json.Unmarshal(a.Body, &object) != nil {
		t.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
	}
	return object
}

// keyOf creates an API key of a user and returns its token.
func keyOf(t *testing.T, userName string) string {
	t.Helper()
	users := &v1alpha1.ScimUserList{}
	if err := cluster.Client.List(t.Context(), users, client.InNamespace("victim")); err != nil {
		t.Fatal(err)
	}
	for _, u := range users.Items {
		if u.Spec.UserName != userName {
			continue
		}
		key, token, err := clustertest.Key("victim", "of-"+strings.ToLower(userName), v1alpha1.ApiKeySpec{Owner: &v1alpha1.ApiKeyOwner{ScimUser: u.Name}})
		if err != nil {
			t.Fatal(err)
		}
		if err := cluster.Client.Create(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		return token
	}
	t.Fatalf("no user %s", userName)
	return ""
}

// TestKeysOfDeprovisionedUsers: a person who leaves has kept an API key. From the response on with which the identity
// provider learns that the user is deactivated or deleted, the key is refused, and the response has the reason.
func TestKeysOfDeprovisionedUsers(t *testing.T) {
	for i := range 5 { // the cache must never lag behind the response
		name := fmt.Sprintf("leaver%d", i)
		id, _ := scim(t, http.StatusCreated, "POST", "/Users", map[string]any{
			"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:User"}, "userName": name,
		})["id"].(string)
		token, client := keyOf(t, name), from(t, 7)
		refused := func(reason string) {
			t.Helper()
			if a := get(t, client, victim, "/api/v1/deployments", token); a.Status != http.StatusUnauthorized || !strings.Contains(string(a.Body), reason) {
				t.Fatalf("%s: %d %s, want 401 with %q", name, a.Status, a.Body, reason)
			}
		}
		set := func(active bool) {
			t.Helper()
			scim(t, http.StatusOK, "PATCH", "/Users/"+id, map[string]any{
				"schemas":    []string{"urn:ietf:params:scim:api:messages:2.0:PatchOp"},
				"Operations": []map[string]any{{"op": "replace", "path": "active", "value": active}},
			})
		}
		apiclient.Soon(t, func() error {
			if a := get(t, client, victim, "/api/v1/deployments", token); a.Status != http.StatusOK {
				return fmt.Errorf("the key of an active user: %d %s", a.Status, a.Body)
			}
			return nil
		})
		set(false)
		refused("is not active")
		set(true)
		if a := get(t, client, victim, "/api/v1/deployments", token); a.Status != http.StatusOK {
			t.Fatalf("the key of a user who is active again: %d %s", a.Status, a.Body)
		}
		scim(t, http.StatusNoContent, "DELETE", "/Users/"+id, nil)
		refused("does not exist")
	}
}
