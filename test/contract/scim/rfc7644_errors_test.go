package scim_test

import (
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

func TestRFC7644Section3_12_Errors(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	t.Run("a missing resource is a 404", func(t *testing.T) {
		for _, path := range []string{"/Users/nobody", "/Groups/nobody", "/Users/00919288221112222", "/Users/NOT_A_NAME", "/Users/" + strings.Repeat("x", 300), "/Devices", "/Devices/1", "/Users/a/b", "/users", "/Schemas/urn:nobody", "/ResourceTypes/Device"} {
			admin.Call(t, "GET", path, nil).WantError(404, "")
		}
		admin.Call(t, "DELETE", "/Users/nobody", nil).WantError(404, "")
		admin.Call(t, "PATCH", "/Users/nobody", scimtest.PatchBody(`{"op":"add","path":"title","value":"x"}`)).WantError(404, "")
	})
	t.Run("an unsupported method is a 405 with Allow", func(t *testing.T) {
		for _, tc := range []struct{ method, path, allow string }{
			{"PUT", "/Users", "GET, POST"}, {"PATCH", "/Groups", "GET, POST"}, {"DELETE", "/Users", "GET, POST"},
			{"POST", "/Users/x", "GET, PUT, PATCH, DELETE"}, {"GET", "/Bulk", "POST"}, {"GET", "/.search", "POST"}, {"PUT", "/.search", "POST"},
			{"POST", "/Me", "GET, PUT, PATCH, DELETE"},
			{"POST", "/Schemas", "GET"}, {"PUT", "/Schemas/" + scimtest.UserURN, "GET"}, {"PATCH", "/ResourceTypes/User", "GET"},
			{"DELETE", "/ServiceProviderConfig", "GET"}, {"POST", "/ServiceProviderConfig", "GET"}, {"DELETE", "", "GET"},
		} {
			got := admin.Call(t, tc.method, tc.path, nil)
			got.WantError(405, "", tc.method)
			if allow := got.Header.Get("Allow"); allow != tc.allow {
				t.Errorf("%s %s: Allow is %q, want %q", tc.method, tc.path, allow, tc.allow)
			}
		}
	})
	t.Run("a body of more than 1 MiB is a 413", func(t *testing.T) {
		large := `{"userName":"` + strings.Repeat("x", 1<<20) + `"}`
		admin.Call(t, "POST", "/Users", large).WantError(413, "", "1048576")
		admin.Call(t, "POST", "/Bulk", large).WantError(413, "", "1048576")
		path := admin.CreateUserPath(t)
		admin.Call(t, "PUT", path, large).WantError(413, "")
		admin.Call(t, "PATCH", path, large).WantError(413, "")
		admin.Call(t, "POST", "/Users/.search", large).WantError(413, "")
	})
	t.Run("a repeated parameter is rejected", func(t *testing.T) {
		admin.Call(t, "GET", "/Users?count=1&count=2", nil).WantError(400, "invalidValue", "count")
		admin.Call(t, "GET", "/Users?filter=active+pr&filter=id+pr", nil).WantError(400, "invalidValue", "filter")
	})
	t.Run("unknown parameters are ignored", func(t *testing.T) {
		admin.Call(t, "GET", "/Users?count=0&aadOptscim062020&x=1&x=2", nil).WantStatus(200)
	})
	t.Run("values of the request are quoted and truncated", func(t *testing.T) {
		got := admin.Find(t, "/Users", strings.Repeat("a", 5000)+` eq "x"`)
		got.WantError(400, "invalidFilter")
		if len(got.Raw) > 500 {
			t.Errorf("%d bytes: %s", len(got.Raw), got.Raw)
		}
	})
}

func TestRFC7644Section2_Authentication(t *testing.T) {
	t.Run("both authentication schemes of keys", func(t *testing.T) {
		for _, scheme := range []string{"Bearer ", "bearer ", "Api-Key ", "api-key "} {
			acme.WithAuthorization(scheme+acme.RFC).Call(t, "GET", "/Users?count=0", nil).WantStatus(200)
		}
	})
	t.Run("a missing or invalid credential is a 401 with WWW-Authenticate", func(t *testing.T) {
		for _, authorization := range []string{"", "non-token", "Bearer", "Bearer ", "Bearer nonsense", "Api-Key nonsense", "Basic YTpi", "Bearer " + globex.RFC} {
			got := acme.WithAuthorization(authorization).Call(t, "GET", "/Users", nil)
			got.WantError(401, "")
			if got.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%q: no WWW-Authenticate", authorization)
			}
		}
	})
	t.Run("unknown paths are a 401 without a credential", func(t *testing.T) {
		acme.WithToken("").Call(t, "GET", "/Nothing", nil).WantError(401, "")
	})
	t.Run("a key without ScimManage gets a 403", func(t *testing.T) {
		for _, token := range []string{acme.Reader, acme.Scoped} {
			c := acme.WithToken(token)
			c.Call(t, "GET", "/Users", nil).WantError(403, "")
			c.Call(t, "GET", "/", nil).WantError(403, "")
			c.Call(t, "POST", "/Users", `{"userName":"x"}`).WantError(403, "")
			c.Call(t, "POST", "/Bulk", `{}`).WantError(403, "")
			c.Call(t, "POST", "/.search", `{}`).WantError(403, "")
			c.Call(t, "PATCH", "/Groups/x", `{}`).WantError(403, "")
		}
	})
	t.Run("another account's resource does not exist", func(t *testing.T) {
		path := acme.WithToken(acme.RFC).CreateUserPath(t)
		other := globex.WithToken(globex.RFC)
		other.Call(t, "GET", path, nil).WantError(404, "")
		other.Call(t, "PUT", path, `{"userName":"x"}`).WantError(404, "")
		other.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"add","path":"title","value":"x"}`)).WantError(404, "")
		other.Call(t, "DELETE", path, nil).WantError(404, "")
		other.Find(t, "/Users", `id eq "`+strings.TrimPrefix(path, "/Users/")+`"`).WantStatus(200).Want("totalResults", 0)
		acme.WithToken(acme.RFC).Call(t, "GET", path, nil).WantStatus(200)
	})
}

func TestRFC7644Section3_6_Delete(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	name := scimtest.UniqueName("u")
	id := admin.CreateUser(t, name)
	group := admin.CreateGroup(t, scimtest.UniqueName("g"), id)
	if got := admin.Call(t, "DELETE", "/Users/"+id, nil).WantStatus(204); len(got.Raw) > 0 {
		t.Errorf("a body: %s", got.Raw)
	}
	admin.Call(t, "DELETE", "/Users/"+id, nil).WantError(404, "")
	admin.Call(t, "GET", "/Users/"+id, nil).WantError(404, "")
	admin.Call(t, "PUT", "/Users/"+id, `{"userName":`+scimtest.Quote(name)+`}`).WantError(404, "")
	admin.Find(t, "/Users", `userName eq `+scimtest.Quote(name)).WantStatus(200).Want("totalResults", 0)
	admin.Call(t, "GET", "/Groups/"+group, nil).WantStatus(200).Want("members", nil)
	if again := admin.CreateUser(t, name); again == id {
		t.Error("the id was given again")
	}
}

func TestRFC7644Section3_11_MeWithoutAUser(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	admin.Call(t, "GET", "/Me", nil).WantError(404, "")
	admin.Call(t, "PATCH", "/Me", scimtest.PatchBody(`{"op":"add","path":"title","value":"x"}`)).WantError(404, "")
	admin.Call(t, "DELETE", "/Me", nil).WantError(404, "")
	acme.WithToken(acme.Reader).Call(t, "GET", "/Me", nil).WantError(404, "")
	acme.WithToken(acme.Reader).Call(t, "DELETE", "/Me", nil).WantError(403, "")
	acme.WithToken("").Call(t, "GET", "/Me", nil).WantError(401, "")
}
