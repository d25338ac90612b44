package people_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

func TestUsersOverREST(t *testing.T) {
	w := newWorld(t)
	created := w.want(200, w.admin, "POST", usersPath, map[string]any{
		"email": "ada@example.com", "username": "ada", "firstName": "Ada", "externalId": "e1", "isAdmin": true,
		"picture": "https://example.com/ada.png", "settings": map[string]any{"theme": "dark"},
	})
	w.has(created, "email", "ada@example.com", "username", "ada", "firstName", "Ada", "externalId", "e1", "isAdmin", true, "isDeactivated", false,
		"picture", "https://example.com/ada.png", "settings.theme", "dark", "title", nil, "userPolicies", nil)
	path := usersPath + "/" + created.id()

	t.Run("it is the user of SCIM and kubectl", func(*testing.T) {
		o := w.object("ada")
		if o == nil || o.Spec.Name.GivenName != "Ada" || !o.Spec.IsAdmin() || !o.IsActive() || o.Spec.Settings.Theme != "dark" {
			t.Fatalf("the object is %+v", o)
		}
		scim := w.want(200, w.admin, "GET", "/api/scim/v2/Users/"+o.Name, nil)
		w.has(scim, "userName", "ada", "name.givenName", "Ada", "emails.0.value", "ada@example.com", "emails.0.primary", true, "externalId", "e1")
		if strings.Contains(scim.text, "quoin:") || strings.Contains(scim.text, "dark") {
			t.Errorf("SCIM shows what is none of its attributes: %s", scim)
		}
	})
	t.Run("get", func(*testing.T) {
		if got := w.want(200, w.admin, "GET", path, nil); got.text != created.text {
			t.Errorf("%s\nwant %s", got, created)
		}
		w.want(200, w.admin, "GET", path+"/", nil) // as the command-line client sends it
	})
	t.Run("update", func(*testing.T) {
		updated := w.want(200, w.admin, "PUT", path, map[string]any{"firstName": "Augusta", "title": "Countess", "settings": map[string]any{"locale": "en-GB"}})
		w.has(updated, "firstName", "Augusta", "title", "Countess", "settings.theme", "dark", "settings.locale", "en-GB", "isAdmin", true, "username", "ada")
		for _, body := range []any{nil, map[string]any{}, map[string]any{"firstName": nil, "isAdmin": nil, "settings": nil, "title": "Countess"}} {
			if got := w.want(200, w.admin, "PUT", path, body); got.text != updated.text {
				t.Errorf("a request that changes nothing: %s\nwant %s", got, updated)
			}
		}
		w.has(w.want(200, w.admin, "PUT", path, map[string]any{"picture": ""}), "picture", nil)
		w.has(w.want(200, w.admin, "PUT", path, map[string]any{"picture": "https://example.com/2.png"}), "picture", "https://example.com/2.png")
	})
	t.Run("SCIM requests keep what they cannot contain", func(*testing.T) {
		o := w.object("ada")
		body := map[string]any{"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:User"}, "userName": "ADA", "displayName": "Ada L."}
		w.want(200, w.admin, "PUT", "/api/scim/v2/Users/"+o.Name, body)
		for _, name := range []string{"admin", "settings", "quoin:admin", "quoin:settings"} {
			body[name] = true
			w.want(400, w.admin, "PUT", "/api/scim/v2/Users/"+o.Name, body, name)
			delete(body, name)
		}
		if after := w.object("ADA"); after == nil || !after.Spec.IsAdmin() || after.Spec.Settings == nil || after.Spec.DisplayName != "Ada L." {
			t.Errorf("the object is %+v", after)
		}
	})
	t.Run("delete", func(*testing.T) {
		w.user("second", "isAdmin", true)
		w.has(w.want(200, w.admin, "DELETE", path, nil), "success", true)
		w.want(404, w.admin, "GET", path, nil, "user "+created.id()+" does not exist")
		w.want(404, w.admin, "DELETE", path, nil)
		w.want(404, w.admin, "PUT", path, map[string]any{})
		if o := w.object("ADA"); o != nil {
			t.Errorf("the object is still there: %+v", o)
		}
	})
}

// A SCIM client that renames an administrator must not give the permission Admin to the holder of another name.
func TestRenamingEndsAdmin(t *testing.T) {
	w := newWorld(t)
	boss := w.user("boss", "isAdmin", true)
	scim := w.key("scim", v1alpha1.ApiKeySpec{Permissions: []v1alpha1.Permission{v1alpha1.PermissionScimManage}})
	patch := func(value map[string]any) {
		t.Helper()
		w.want(200, scim, "PATCH", "/api/scim/v2/Users/"+w.object("boss").Name, map[string]any{
			"schemas":    []string{"urn:ietf:params:scim:api:messages:2.0:PatchOp"},
			"Operations": []any{map[string]any{"op": "replace", "value": value}},
		})
	}
	patch(map[string]any{"title": "Boss"})
	if !w.object("boss").Spec.IsAdmin() {
		t.Fatal("a change of the title ends the permission")
	}
	patch(map[string]any{"userName": "mallory"})
	if o := w.object("mallory"); o == nil || o.Spec.IsAdmin() {
		t.Errorf("the renamed user is %+v, want no administrator", o)
	}
	w.has(w.want(200, w.admin, "PUT", usersPath+"/"+boss, map[string]any{"isAdmin": true}), "isAdmin", true)
	if !w.object("mallory").Spec.IsAdmin() {
		t.Error("an administrator cannot give the permission to the renamed user")
	}
	w.want(403, scim, "GET", usersPath, nil, "Admin")
}

func TestListsOfUsers(t *testing.T) {
	w := newWorld(t)
	w.has(w.want(200, w.admin, "GET", usersPath+"/", nil), "items.length", 0, "pageInfo.hasNextPage", false, "pageInfo.endCursor", nil)
	var want []string
	for i := range 5 {
		want = append(want, w.user(fmt.Sprintf("user%d", i)))
	}
	var got []string
	after := ""
	for pages := 0; pages < 4; pages++ {
		page := w.want(200, w.admin, "GET", usersPath+"/?first=2&after="+after, nil)
		if pages == 0 {
			page = w.want(200, w.admin, "GET", usersPath+"?first=2", nil)
		}
		items, _ := page.at("items").([]any)
		for i := range items {
			got = append(got, fmt.Sprint(page.at(fmt.Sprintf("items.%d.id", i))))
		}
		w.has(page, "pageInfo.hasPreviousPage", pages > 0)
		if page.at("pageInfo.hasNextPage") != true {
			break
		}
		after, _ = page.at("pageInfo.endCursor").(string)
	}
	// Those of one second are in the order of their ids, which increase with time.
	if !slices.Equal(got, want) {
		t.Errorf("the pages have %v, want %v", got, want)
	}
	w.want(400, w.admin, "GET", usersPath+"?after=x", nil, "after")
	w.want(400, w.admin, "GET", usersPath+"?first=0", nil, "first")
	w.want(400, w.admin, "GET", groupsPath+"?after="+after, nil, "is not a cursor of this list")
	w.want(400, w.admin, "GET", usersPath+"?search=x", nil, "search")
}

// rejection is a request that is rejected, and texts of its error.
type rejection struct {
	method, path string
	body         any
	status       int
	texts        []string
}

func creation(field string, value any) map[string]any {
	body := map[string]any{"email": "new@example.com", "username": "new"}
	body[field] = value
	return body
}

// rejections returns requests that are rejected, in an account with the users ann and bob.
func rejections(ann, bob string) map[string]rejection {
	annPath, many := usersPath+"/"+ann, make([]int, 101)
	bulk := func(action string, ids any) map[string]any { return map[string]any{"action": action, "userIds": ids} }
	return map[string]rejection{
		"unknown user":              {"GET", usersPath + "/4711", nil, 404, []string{"user 4711 does not exist"}},
		"unknown user, update":      {"PUT", usersPath + "/4711", map[string]any{"title": "x"}, 404, []string{"4711"}},
		"unknown user, delete":      {"DELETE", usersPath + "/4711", nil, 404, []string{"4711"}},
		"user of another account":   {"GET", usersPath + "/" + numberOf("eve"), nil, 404, []string{"does not exist"}},
		"the same, delete":          {"DELETE", usersPath + "/" + numberOf("eve"), nil, 404, nil},
		"no number":                 {"GET", usersPath + "/ann", nil, 400, []string{"userId", "ann"}},
		"negative":                  {"GET", usersPath + "/-1", nil, 400, []string{"userId"}},
		"too large":                 {"DELETE", usersPath + "/9007199254740992", nil, 400, []string{"userId"}},
		"no body":                   {"POST", usersPath, nil, 400, nil},
		"no e-mail address":         {"POST", usersPath, creation("email", "ada"), 400, []string{"email", "e-mail address"}},
		"no username":               {"POST", usersPath, creation("username", ""), 400, []string{"username"}},
		"control characters":        {"POST", usersPath, creation("firstName", "a\u202eb"), 400, []string{"firstName"}},
		"control character in name": {"POST", usersPath, creation("username", "a\u0000b"), 400, []string{"username"}},
		"long name":                 {"POST", usersPath, creation("username", strings.Repeat("x", 321)), 400, []string{"username"}},
		"picture is no URL":         {"POST", usersPath, creation("picture", "not a url"), 400, []string{"picture"}},
		"password":                  {"POST", usersPath, creation("password", "hunter2"), 400, []string{"password"}},
		"unknown setting":           {"POST", usersPath, creation("settings", map[string]any{"color": 1}), 400, []string{"settings.color"}},
		"name is taken":             {"POST", usersPath, creation("username", "ANN"), 409, []string{"username", "ANN"}},
		"username cannot change":    {"PUT", annPath, map[string]any{"username": "x"}, 400, []string{"username"}},
		"title":                     {"PUT", annPath, map[string]any{"title": " x"}, 400, []string{"title"}},
		"type of a field":           {"PUT", annPath, map[string]any{"isAdmin": "yes"}, 400, []string{"isAdmin"}},
		"101 users":                 {"POST", usersPath + "/bulk", bulk("DELETE", many), 400, []string{"userIds"}},
		"no users":                  {"POST", usersPath + "/bulk", bulk("DELETE", []int{}), 400, []string{"userIds"}},
		"unknown action":            {"POST", usersPath + "/bulk", bulk("PROMOTE", []int{1}), 400, []string{"action", "PROMOTE"}},
		"ids are no numbers":        {"POST", usersPath + "/bulk", bulk("DELETE", []string{ann}), 400, []string{"userIds"}},
		"unknown group":             {"DELETE", "/api/v1/groups/4711", nil, 404, []string{"group 4711 does not exist"}},
		"number of a user":          {"DELETE", "/api/v1/groups/" + bob, nil, 404, nil},
		"method":                    {"PATCH", annPath, map[string]any{}, 405, nil},
	}
}

func TestRejectedRequests(t *testing.T) {
	w := newWorld(t)
	const other = "foreign-people"
	w.addAccount(other)
	ok(t, kubernetes.Client.Create(t.Context(), &v1alpha1.ScimUser{
		ObjectMeta: objectMeta(other, "eve"), Spec: v1alpha1.ScimUserSpec{UserName: "eve"},
	}))
	ann, bob := w.user("ann"), w.user("bob")
	annPath := usersPath + "/" + ann
	for name, test := range rejections(ann, bob) {
		t.Run(name, func(t *testing.T) {
			a := w.call(w.admin, test.method, test.path, test.body)
			if a.status != test.status {
				t.Fatalf("%s, want %d", a, test.status)
			}
			for _, text := range test.texts {
				if !strings.Contains(a.text, text) {
					t.Errorf("%s, want %q in it", a, text)
				}
			}
			if strings.Contains(a.text, "hunter2") {
				t.Errorf("the response repeats a password: %s", a)
			}
		})
	}
	limited := w.key("limited", v1alpha1.ApiKeySpec{Deployments: []string{"x"}})
	reader := w.key("reader", v1alpha1.ApiKeySpec{Permissions: []v1alpha1.Permission{"DeploymentRead", v1alpha1.PermissionScimManage}})
	for _, token := range []string{limited, reader} {
		for _, route := range [][2]string{
			{"GET", usersPath}, {"POST", usersPath}, {"POST", usersPath + "/bulk"}, {"GET", annPath}, {"PUT", annPath}, {"DELETE", annPath},
			{"GET", groupsPath}, {"DELETE", "/api/v1/groups/1"}, {"PATCH", settingsPath},
		} {
			w.want(403, token, route[0], route[1], map[string]any{})
		}
	}
	if o := w.object("ann"); o == nil || o.Generation != 1 {
		t.Errorf("a rejected request has changed the user: %+v", o)
	}
}

func TestBulkRequests(t *testing.T) {
	w := newWorld(t)
	ann, bob, carol := w.user("ann", "isAdmin", true), w.user("bob"), w.user("carol")
	mine := w.keyOf(w.object("ann").Name)
	number := func(texts ...string) []any {
		all := make([]any, len(texts))
		for i, text := range texts {
			all[i] = rawNumber(text)
		}
		return all
	}
	bulk := func(token, action string, ids ...any) response {
		t.Helper()
		return w.want(200, token, "POST", usersPath+"/bulk", map[string]any{"action": action, "userIds": ids})
	}
	a := bulk(mine, "DEACTIVATE", number(bob, ann, bob, "4711", carol)...)
	w.has(a, "action", "DEACTIVATE", "succeeded.length", 2, "succeeded.0", bob, "succeeded.1", carol, "failed.length", 2,
		"failed.0.userId", ann, "failed.0.error.status", 403, "failed.1.userId", 4711, "failed.1.error.status", 404)
	if w.object("bob").IsActive() || w.object("carol").IsActive() || !w.object("ann").IsActive() {
		t.Error("bob and carol are to be inactive, ann active")
	}
	w.has(bulk(mine, "DEACTIVATE", number(bob)...), "succeeded.0", bob, "failed.length", 0) // already so
	w.has(bulk(mine, "ACTIVATE", number(carol, bob, ann)...), "succeeded.length", 3)
	if !w.object("bob").IsActive() || !w.object("carol").IsActive() {
		t.Error("bob and carol are to be active again")
	}
	w.has(bulk(mine, "DELETE", number(ann, bob, "4711")...), "succeeded.0", bob, "failed.0.userId", ann, "failed.0.error.status", 400,
		"failed.1.error.status", 404)
	// Of the same status and message as the request for one user.
	for _, action := range []string{"DEACTIVATE", "DELETE"} {
		entry := bulk(w.admin, action, number(ann)...)
		w.has(entry, "failed.0.error.status", 403)
		single := w.call(w.admin, "DELETE", usersPath+"/"+ann, nil)
		if single.status != 403 || single.at("error") != entry.at("failed.0.error.message") {
			t.Errorf("%s: %s, alone %s", action, entry, single)
		}
	}
}

// A deactivated user's keys end at once, and so do those of a deleted one.
func TestDeactivationEndsAccess(t *testing.T) {
	w := newWorld(t)
	bob := usersPath + "/" + w.user("bob")
	key := w.keyOf(w.object("bob").Name)
	w.has(w.want(200, key, "GET", usersPath+"/me", nil), "username", "bob")
	w.has(w.want(200, w.admin, "PUT", bob, map[string]any{"isDeactivated": true}), "isDeactivated", true)
	w.want(401, key, "GET", usersPath+"/me", nil, "not active")
	if o := w.object("bob"); o.Spec.DeprovisionTime == nil {
		t.Error("spec.deprovisionTime is not set, which no manifest can revert")
	}
	w.has(w.want(200, w.admin, "PUT", bob, map[string]any{"isDeactivated": false}), "isDeactivated", false)
	w.want(200, key, "GET", usersPath+"/me", nil)
	w.want(200, w.admin, "DELETE", bob, nil)
	w.want(401, key, "GET", usersPath+"/me", nil)
}

// What an identity provider or a GitOps tool has written stays as it is; access can be removed nevertheless.
func TestOwnersOfFields(t *testing.T) {
	w := newWorld(t)
	w.user("chief", "isAdmin", true)
	scim := w.want(201, w.key("okta", v1alpha1.ApiKeySpec{Permissions: []v1alpha1.Permission{v1alpha1.PermissionScimManage}}), "POST", "/api/scim/v2/Users", map[string]any{
		"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:User"}, "userName": "idp", "title": "Clerk", "name": map[string]any{"givenName": "Ida"},
	})
	w.apply("git", v1alpha1.ScimUserSpec{UserName: "git", Title: "Clerk", Active: ptr.To(true)})
	for user, owner := range map[string]string{"idp": "quoin-scim", "git": "argocd-controller"} {
		t.Run(user, func(t *testing.T) {
			path := usersPath + "/" + w.numberOf(user)
			w.want(409, w.admin, "PUT", path, map[string]any{"title": "Boss"}, "title", owner)
			w.has(w.want(200, w.admin, "PUT", path, map[string]any{"title": "Clerk", "isAdmin": true, "settings": map[string]any{"theme": "dark"}}), "isAdmin", true, "settings.theme", "dark")
			w.want(200, w.admin, "PUT", path, map[string]any{"isAdmin": false})
			w.want(409, w.admin, "PUT", path, map[string]any{"title": "Boss", "isDeactivated": true}, owner, "Nothing else was changed, but the user was deactivated")
			if o := w.object(user); o.IsActive() || !ptr.Deref(o.Spec.Active, true) || o.Spec.Title != "Clerk" {
				t.Errorf("the user is %+v, want it deactivated by spec.deprovisionTime only", o.Spec)
			}
			w.has(w.want(200, w.admin, "PUT", path, map[string]any{"isDeactivated": false}), "isDeactivated", false)
		})
	}
	t.Run("a user that the identity provider has deactivated", func(*testing.T) {
		w.want(200, w.admin, "PATCH", "/api/scim/v2/Users/"+scim.id(), map[string]any{
			"schemas":    []string{"urn:ietf:params:scim:api:messages:2.0:PatchOp"},
			"Operations": []any{map[string]any{"op": "replace", "value": map[string]any{"active": false, "title": "Former clerk"}}},
		})
		w.want(409, w.admin, "PUT", usersPath+"/"+w.numberOf("idp"), map[string]any{"isDeactivated": false}, "isDeactivated", "quoin-scim", "identity provider")
		w.has(w.want(200, w.admin, "POST", usersPath+"/bulk", map[string]any{"action": "ACTIVATE", "userIds": []any{rawNumber(w.numberOf("idp"))}}),
			"succeeded.length", 0, "failed.0.error.status", 409)
	})
	t.Run("deletion", func(*testing.T) {
		w.want(409, w.admin, "DELETE", usersPath+"/"+w.numberOf("git"), nil, "argocd-controller", "the user was deactivated")
		w.want(200, w.admin, "DELETE", usersPath+"/"+w.numberOf("idp"), nil)
	})
}

func TestGroupsOverREST(t *testing.T) {
	w := newWorld(t)
	w.user("ann")
	group := w.want(201, w.admin, "POST", "/api/scim/v2/Groups", map[string]any{
		"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:Group"}, "displayName": "Analysts",
		"members": []any{map[string]any{"value": w.object("ann").Name}, map[string]any{"value": "not-there-yet"}},
	})
	ok(t, kubernetes.Client.Create(t.Context(), &v1alpha1.ScimGroup{ObjectMeta: objectMeta(w.account, "empty"), Spec: v1alpha1.ScimGroupSpec{DisplayName: "Empty"}}))
	w.soon(func() error {
		if a := w.call(w.admin, "GET", groupsPath, nil); fmt.Sprint(a.at("items.length")) != "2" {
			return fmt.Errorf("%s", a)
		}
		return nil
	})
	list := w.want(200, w.admin, "GET", groupsPath+"/?first=1", nil)
	w.has(list, "items.length", 1, "items.0.name", "Analysts", "items.0.userCount", 2, "pageInfo.hasNextPage", true)
	after, _ := list.at("pageInfo.endCursor").(string)
	w.has(w.want(200, w.admin, "GET", groupsPath+"?first=5&after="+after, nil), "items.0.name", "Empty", "items.0.userCount", 0, "pageInfo.hasNextPage", false)
	path := "/api/v1/groups/" + fmt.Sprint(list.at("items.0.id"))
	w.has(w.want(200, w.admin, "DELETE", path, nil), "success", true)
	w.want(404, w.admin, "DELETE", path, nil)
	w.want(404, w.admin, "GET", "/api/scim/v2/Groups/"+group.id(), nil)
	if w.object("ann") == nil {
		t.Error("the members of the group are deleted too")
	}
	applied := &v1alpha1.ScimGroup{ObjectMeta: objectMeta(w.account, "git"), Spec: v1alpha1.ScimGroupSpec{DisplayName: "In Git"}}
	applied.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ScimGroup"))
	//nolint:staticcheck // there are no apply configurations of these types
	ok(t, kubernetes.Client.Patch(t.Context(), applied, client.Apply, client.FieldOwner("argocd-controller")))
	w.soon(func() error {
		a := w.call(w.admin, "GET", groupsPath, nil)
		if a.at("items.1.name") != "In Git" {
			return fmt.Errorf("%s", a)
		}
		w.want(http.StatusConflict, w.admin, "DELETE", "/api/v1/groups/"+fmt.Sprint(a.at("items.1.id")), nil, "argocd-controller")
		return nil
	})
}
