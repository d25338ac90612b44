package scim_test

import (
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// stale is a version that no resource has.
const stale = `W/"stale"`

// retitle returns a PATCH of the title.
func retitle(title string) string {
	return scimtest.PatchBody(`{"op":"replace","path":"title","value":` + scimtest.Quote(title) + `}`)
}

func TestRFC7644Section3_14_Versions(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	for _, type_ := range []struct{ name, body string }{{"Users", `{"userName":"%s"}`}, {"Groups", `{"displayName":"%s"}`}} {
		t.Run("the ETag is weak and equals meta.version: "+type_.name, func(t *testing.T) {
			created := admin.Post(t, "/"+type_.name, strings.Replace(type_.body, "%s", scimtest.UniqueName("u"), 1)).WantStatus(201)
			got := admin.Call(t, "GET", "/"+type_.name+"/"+created.Text("id"), nil).WantStatus(200)
			tag := got.Header.Get("ETag")
			if !strings.HasPrefix(tag, `W/"`) || !strings.HasSuffix(tag, `"`) || tag != got.Text("meta.version") || tag != created.Header.Get("ETag") {
				t.Errorf("ETag %q, created with %q, meta.version %q", tag, created.Header.Get("ETag"), got.Text("meta.version"))
			}
		})
	}
	t.Run("If-None-Match: 304 without a body", func(t *testing.T) {
		path := admin.CreateUserPath(t)
		tag := admin.Call(t, "GET", path, nil).WantStatus(200).Header.Get("ETag")
		for _, header := range []string{tag, "*", stale + ", " + tag, strings.TrimPrefix(tag, "W/"), tag + "," + stale} {
			got := admin.Call(t, "GET", path, nil, "If-None-Match", header).WantStatus(304)
			if len(got.Raw) > 0 || got.Header.Get("ETag") != tag {
				t.Errorf("%s: %q with ETag %q", header, got.Raw, got.Header.Get("ETag"))
			}
		}
		admin.Call(t, "GET", path, nil, "If-None-Match", stale).WantStatus(200)
		admin.Call(t, "PATCH", path, retitle("T")).WantStatus(200)
		admin.Call(t, "GET", path, nil, "If-None-Match", tag).WantStatus(200).Want("title", "T")
		admin.Call(t, "GET", "/Users/ghost", nil, "If-None-Match", "*").WantError(404, "")
	})
}

func TestRFC7644Section3_14_IfMatch(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	t.Run("If-Match with the version, a list, or *", func(t *testing.T) {
		path := admin.CreateUserPath(t)
		tag := func() string { return admin.Call(t, "GET", path, nil).WantStatus(200).Header.Get("ETag") }
		name := admin.Call(t, "GET", path, nil).Text("userName")
		admin.Call(t, "PATCH", path, retitle("a"), "If-Match", tag()).WantStatus(200)
		admin.Call(t, "PATCH", path, retitle("b"), "If-Match", stale+", "+tag()).WantStatus(200)
		admin.Call(t, "PATCH", path, retitle("c"), "If-Match", "*").WantStatus(200)
		got := admin.Call(t, "PUT", path, `{"userName":`+scimtest.Quote(name)+`}`, "If-Match", tag()).WantStatus(200)
		if got.Header.Get("ETag") != tag() {
			t.Errorf("response %q, resource %q", got.Header.Get("ETag"), tag())
		}
		admin.Call(t, "DELETE", path, nil, "If-Match", tag()).WantStatus(204)
	})
	t.Run("If-Match with another version is a 412, and nothing changes", func(t *testing.T) {
		path := admin.CreateUserPath(t, `"title":"T"`)
		before := admin.Call(t, "GET", path, nil).WantStatus(200)
		admin.Call(t, "PATCH", path, retitle("U"), "If-Match", stale).WantError(412, "")
		admin.Call(t, "PUT", path, `{"userName":`+scimtest.Quote(scimtest.UniqueName("u"))+`}`, "If-Match", stale+`, W/"other"`).WantError(412, "")
		admin.Call(t, "DELETE", path, nil, "If-Match", stale).WantError(412, "")
		admin.Call(t, "DELETE", path, nil, "If-Match", "nonsense").WantError(412, "")
		if now := admin.Call(t, "GET", path, nil).WantStatus(200); string(now.Raw) != string(before.Raw) {
			t.Errorf("before %s, after %s", before.Raw, now.Raw)
		}
		admin.Call(t, "PATCH", path, retitle("U")).WantStatus(200)
		admin.Call(t, "PATCH", path, retitle("V"), "If-Match", before.Header.Get("ETag")).WantError(412, "")
	})
	t.Run("If-Match on a missing resource is a 404", func(t *testing.T) {
		admin.Call(t, "PATCH", "/Users/ghost", retitle("x"), "If-Match", "*").WantError(404, "")
		admin.Call(t, "DELETE", "/Users/ghost", nil, "If-Match", stale).WantError(404, "")
	})
	t.Run("a change of members changes the group's version", func(t *testing.T) {
		user := admin.CreateUser(t, scimtest.UniqueName("u"))
		path := "/Groups/" + admin.CreateGroup(t, scimtest.UniqueName("g"))
		before := admin.Call(t, "GET", path, nil)
		admin.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"add","path":"members","value":[{"value":"`+user+`"}]}`), "If-Match", before.Header.Get("ETag")).WantStatus(200)
		admin.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"remove","path":"members"}`), "If-Match", before.Header.Get("ETag")).WantError(412, "")
		admin.Call(t, "GET", path, nil, "If-None-Match", before.Header.Get("ETag")).WantStatus(200).Want("members.0.value", user)
	})
}

func TestRFC9110Section13_1_2_IfNoneMatchOnWrites(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	path := admin.CreateUserPath(t)
	before := admin.Call(t, "GET", path, nil).WantStatus(200)
	put := `{"userName":"` + before.Text("userName") + `","title":"T"}`
	patch := scimtest.PatchBody(`{"op":"add","path":"title","value":"T"}`)
	for _, tag := range []string{"*", before.Header.Get("ETag"), `"x", ` + before.Header.Get("ETag")} {
		admin.Call(t, "PUT", path, put, "If-None-Match", tag).WantError(412, "", "If-None-Match")
		admin.Call(t, "PATCH", path, patch, "If-None-Match", tag).WantError(412, "", "If-None-Match")
		admin.Call(t, "DELETE", path, nil, "If-None-Match", tag).WantError(412, "", "If-None-Match")
	}
	if after := admin.Call(t, "GET", path, nil).WantStatus(200); string(after.Raw) != string(before.Raw) {
		t.Errorf("before %s, after %s", before.Raw, after.Raw)
	}
	admin.Call(t, "PATCH", path, patch, "If-None-Match", `W/"other"`).WantStatus(200).Want("title", "T")
	admin.Call(t, "PATCH", path, patch, "If-Match", "*", "If-None-Match", "*").WantError(412, "", "If-None-Match")
	admin.Call(t, "DELETE", path, nil, "If-None-Match", `W/"other"`).WantStatus(204)
}
