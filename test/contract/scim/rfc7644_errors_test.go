package scim_test

import (
	"strings"
	"testing"
)

func TestRFC7644Section3_12_Errors(t *testing.T) {
	admin := acme.as(acme.rfc)
	t.Run("what does not exist is a 404", func(t *testing.T) {
		for _, path := range []string{"/Users/nobody", "/Groups/nobody", "/Users/00919288221112222", "/Users/NOT_A_NAME", "/Users/" + strings.Repeat("x", 300), "/Devices", "/Devices/1", "/Users/a/b", "/users", "/Schemas/urn:nobody", "/ResourceTypes/Device"} {
			admin.call(t, "GET", path, nil).refused(404, "")
		}
		admin.call(t, "DELETE", "/Users/nobody", nil).refused(404, "")
		admin.call(t, "PATCH", "/Users/nobody", patch(`{"op":"add","path":"title","value":"x"}`)).refused(404, "")
	})
	t.Run("a method that is not served is a 405 that names those that are", func(t *testing.T) {
		for _, tc := range []struct{ method, path, allow string }{
			{"PUT", "/Users", "GET, POST"}, {"PATCH", "/Groups", "GET, POST"}, {"DELETE", "/Users", "GET, POST"},
			{"POST", "/Users/x", "GET, PUT, PATCH, DELETE"}, {"GET", "/Bulk", "POST"}, {"GET", "/.search", "POST"}, {"PUT", "/.search", "POST"},
			{"POST", "/Me", "GET, PUT, PATCH, DELETE"},
			{"POST", "/Schemas", "GET"}, {"PUT", "/Schemas/" + userURN, "GET"}, {"PATCH", "/ResourceTypes/User", "GET"},
			{"DELETE", "/ServiceProviderConfig", "GET"}, {"POST", "/ServiceProviderConfig", "GET"}, {"DELETE", "", "GET"},
		} {
			got := admin.call(t, tc.method, tc.path, nil)
			got.refused(405, "", tc.method)
			if allow := got.header.Get("Allow"); allow != tc.allow {
				t.Errorf("%s %s: Allow is %q, want %q", tc.method, tc.path, allow, tc.allow)
			}
		}
	})
	t.Run("a body of more than 1 MiB is a 413", func(t *testing.T) {
		large := `{"userName":"` + strings.Repeat("x", 1<<20) + `"}`
		admin.call(t, "POST", "/Users", large).refused(413, "", "1048576")
		admin.call(t, "POST", "/Bulk", large).refused(413, "", "1048576")
		path := admin.userOf(t)
		admin.call(t, "PUT", path, large).refused(413, "")
		admin.call(t, "PATCH", path, large).refused(413, "")
		admin.call(t, "POST", "/Users/.search", large).refused(413, "")
	})
	t.Run("a parameter that is there twice could mean two things", func(t *testing.T) {
		admin.call(t, "GET", "/Users?count=1&count=2", nil).refused(400, "invalidValue", "count")
		admin.call(t, "GET", "/Users?filter=active+pr&filter=id+pr", nil).refused(400, "invalidValue", "filter")
	})
	t.Run("parameters of others are left alone", func(t *testing.T) {
		admin.call(t, "GET", "/Users?count=0&aadOptscim062020&x=1&x=2", nil).is(200)
	})
	t.Run("what was sent is shown clipped and quoted", func(t *testing.T) {
		got := admin.find(t, "/Users", strings.Repeat("a", 5000)+` eq "x"`)
		got.refused(400, "invalidFilter")
		if len(got.raw) > 500 {
			t.Errorf("%d bytes: %s", len(got.raw), got.raw)
		}
	})
}

func TestRFC7644Section2_Authentication(t *testing.T) {
	t.Run("both schemes of a key are taken", func(t *testing.T) {
		for _, scheme := range []string{"Bearer ", "bearer ", "Api-Key ", "api-key "} {
			as{acme, scheme + acme.rfc, 0}.call(t, "GET", "/Users?count=0", nil).is(200)
		}
	})
	t.Run("without a credential, or with a wrong one, a 401 that says how", func(t *testing.T) {
		for _, authorization := range []string{"", "non-token", "Bearer", "Bearer ", "Bearer nonsense", "Api-Key nonsense", "Basic YTpi", "Bearer " + globex.rfc} {
			got := as{acme, authorization, 0}.call(t, "GET", "/Users", nil)
			got.refused(401, "")
			if got.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%q: no WWW-Authenticate", authorization)
			}
		}
	})
	t.Run("an unknown path does not tell strangers that it is unknown", func(t *testing.T) {
		acme.as("").call(t, "GET", "/Nothing", nil).refused(401, "")
	})
	t.Run("who may not provision gets a 403", func(t *testing.T) {
		for _, token := range []string{acme.reader, acme.scoped} {
			c := acme.as(token)
			c.call(t, "GET", "/Users", nil).refused(403, "")
			c.call(t, "GET", "/", nil).refused(403, "")
			c.call(t, "POST", "/Users", `{"userName":"x"}`).refused(403, "")
			c.call(t, "POST", "/Bulk", `{}`).refused(403, "")
			c.call(t, "POST", "/.search", `{}`).refused(403, "")
			c.call(t, "PATCH", "/Groups/x", `{}`).refused(403, "")
		}
	})
	t.Run("another account's resource does not exist", func(t *testing.T) {
		path := acme.as(acme.rfc).userOf(t)
		other := globex.as(globex.rfc)
		other.call(t, "GET", path, nil).refused(404, "")
		other.call(t, "PUT", path, `{"userName":"x"}`).refused(404, "")
		other.call(t, "PATCH", path, patch(`{"op":"add","path":"title","value":"x"}`)).refused(404, "")
		other.call(t, "DELETE", path, nil).refused(404, "")
		other.find(t, "/Users", `id eq "`+strings.TrimPrefix(path, "/Users/")+`"`).is(200).want("totalResults", 0)
		acme.as(acme.rfc).call(t, "GET", path, nil).is(200)
	})
}

func TestRFC7644Section3_6_Delete(t *testing.T) {
	admin := acme.as(acme.rfc)
	name := unique("u")
	id := admin.user(t, name)
	group := admin.group(t, unique("g"), id)
	if got := admin.call(t, "DELETE", "/Users/"+id, nil).is(204); len(got.raw) > 0 {
		t.Errorf("a body: %s", got.raw)
	}
	admin.call(t, "DELETE", "/Users/"+id, nil).refused(404, "")
	admin.call(t, "GET", "/Users/"+id, nil).refused(404, "")
	admin.call(t, "PUT", "/Users/"+id, `{"userName":`+quote(name)+`}`).refused(404, "")
	admin.find(t, "/Users", `userName eq `+quote(name)).is(200).want("totalResults", 0)
	admin.call(t, "GET", "/Groups/"+group, nil).is(200).want("members", nil)
	if again := admin.user(t, name); again == id {
		t.Error("the id was given again")
	}
}

func TestRFC7644Section3_11_MeWithoutAUser(t *testing.T) {
	admin := acme.as(acme.rfc)
	admin.call(t, "GET", "/Me", nil).refused(404, "")
	admin.call(t, "PATCH", "/Me", patch(`{"op":"add","path":"title","value":"x"}`)).refused(404, "")
	admin.call(t, "DELETE", "/Me", nil).refused(404, "")
	acme.as(acme.reader).call(t, "GET", "/Me", nil).refused(404, "")
	acme.as(acme.reader).call(t, "DELETE", "/Me", nil).refused(403, "")
	acme.as("").call(t, "GET", "/Me", nil).refused(401, "")
}
