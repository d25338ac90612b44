package scim_test

import (
	"strings"
	"testing"
)

// stale is a version that nothing has.
const stale = `W/"stale"`

// retitle is a PATCH of a title.
func retitle(title string) string {
	return patch(`{"op":"replace","path":"title","value":` + quote(title) + `}`)
}

func TestRFC7644Section3_14_Versions(t *testing.T) {
	admin := acme.as(acme.rfc)
	for _, type_ := range []struct{ name, body string }{{"Users", `{"userName":"%s"}`}, {"Groups", `{"displayName":"%s"}`}} {
		t.Run("the ETag is weak, and that of meta.version: "+type_.name, func(t *testing.T) {
			created := admin.post(t, "/"+type_.name, strings.Replace(type_.body, "%s", unique("u"), 1)).is(201)
			got := admin.call(t, "GET", "/"+type_.name+"/"+created.text("id"), nil).is(200)
			tag := got.header.Get("ETag")
			if !strings.HasPrefix(tag, `W/"`) || !strings.HasSuffix(tag, `"`) || tag != got.text("meta.version") || tag != created.header.Get("ETag") {
				t.Errorf("ETag %q, created with %q, meta.version %q", tag, created.header.Get("ETag"), got.text("meta.version"))
			}
		})
	}
	t.Run("If-None-Match: 304 without a body as long as nothing changes", func(t *testing.T) {
		path := admin.userOf(t)
		tag := admin.call(t, "GET", path, nil).is(200).header.Get("ETag")
		for _, header := range []string{tag, "*", stale + ", " + tag, strings.TrimPrefix(tag, "W/"), tag + "," + stale} {
			got := admin.call(t, "GET", path, nil, "If-None-Match", header).is(304)
			if len(got.raw) > 0 || got.header.Get("ETag") != tag {
				t.Errorf("%s: %q with ETag %q", header, got.raw, got.header.Get("ETag"))
			}
		}
		admin.call(t, "GET", path, nil, "If-None-Match", stale).is(200)
		admin.call(t, "PATCH", path, retitle("T")).is(200)
		admin.call(t, "GET", path, nil, "If-None-Match", tag).is(200).want("title", "T")
		admin.call(t, "GET", "/Users/ghost", nil, "If-None-Match", "*").refused(404, "")
	})
}

func TestRFC7644Section3_14_IfMatch(t *testing.T) {
	admin := acme.as(acme.rfc)
	t.Run("If-Match with the version, with a list that has it, with *", func(t *testing.T) {
		path := admin.userOf(t)
		tag := func() string { return admin.call(t, "GET", path, nil).is(200).header.Get("ETag") }
		name := admin.call(t, "GET", path, nil).text("userName")
		admin.call(t, "PATCH", path, retitle("a"), "If-Match", tag()).is(200)
		admin.call(t, "PATCH", path, retitle("b"), "If-Match", stale+", "+tag()).is(200)
		admin.call(t, "PATCH", path, retitle("c"), "If-Match", "*").is(200)
		got := admin.call(t, "PUT", path, `{"userName":`+quote(name)+`}`, "If-Match", tag()).is(200)
		if got.header.Get("ETag") != tag() {
			t.Errorf("answered %q, is %q", got.header.Get("ETag"), tag())
		}
		admin.call(t, "DELETE", path, nil, "If-Match", tag()).is(204)
	})
	t.Run("If-Match with another version is a 412, and nothing changes", func(t *testing.T) {
		path := admin.userOf(t, `"title":"T"`)
		before := admin.call(t, "GET", path, nil).is(200)
		admin.call(t, "PATCH", path, retitle("U"), "If-Match", stale).refused(412, "")
		admin.call(t, "PUT", path, `{"userName":`+quote(unique("u"))+`}`, "If-Match", stale+`, W/"other"`).refused(412, "")
		admin.call(t, "DELETE", path, nil, "If-Match", stale).refused(412, "")
		admin.call(t, "DELETE", path, nil, "If-Match", "nonsense").refused(412, "")
		if now := admin.call(t, "GET", path, nil).is(200); string(now.raw) != string(before.raw) {
			t.Errorf("was %s, is %s", before.raw, now.raw)
		}
		admin.call(t, "PATCH", path, retitle("U")).is(200)
		admin.call(t, "PATCH", path, retitle("V"), "If-Match", before.header.Get("ETag")).refused(412, "")
	})
	t.Run("If-Match on what does not exist is a 404", func(t *testing.T) {
		admin.call(t, "PATCH", "/Users/ghost", retitle("x"), "If-Match", "*").refused(404, "")
		admin.call(t, "DELETE", "/Users/ghost", nil, "If-Match", stale).refused(404, "")
	})
	t.Run("a change of members changes the group's version", func(t *testing.T) {
		user := admin.user(t, unique("u"))
		path := "/Groups/" + admin.group(t, unique("g"))
		before := admin.call(t, "GET", path, nil)
		admin.call(t, "PATCH", path, patch(`{"op":"add","path":"members","value":[{"value":"`+user+`"}]}`), "If-Match", before.header.Get("ETag")).is(200)
		admin.call(t, "PATCH", path, patch(`{"op":"remove","path":"members"}`), "If-Match", before.header.Get("ETag")).refused(412, "")
		admin.call(t, "GET", path, nil, "If-None-Match", before.header.Get("ETag")).is(200).want("members.0.value", user)
	})
}
