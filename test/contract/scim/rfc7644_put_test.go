package scim_test

import (
	"fmt"
	"strings"
	"testing"
)

// fullUser is the body of a user with something of every kind.
func fullUser(name string) string {
	return fmt.Sprintf(`{"schemas":[%q,%q,%q],"userName":%q,"externalId":"x","title":"T","active":true,"name":{"givenName":"Ada","familyName":"L"},
		"emails":[{"value":"a@x","type":"work","primary":true},{"value":"b@x"}],%q:{"department":"d"},%q:{"badge":"B-1","level":1,"tags":["a","b"]}}`,
		userURN, enterpriseURN, attributesURN, name, enterpriseURN, attributesURN)
}

// full creates a user with something of every kind.
func (a as) full(t *testing.T) (path, name string, before *answer) {
	t.Helper()
	name = unique("u")
	path = "/Users/" + a.created(t, "/Users", fullUser(name))
	return path, name, a.call(t, "GET", path, nil).is(200)
}

func TestRFC7644Section3_5_1_ReplacingWithPUT(t *testing.T) {
	admin := acme.as(acme.rfc)
	t.Run("answers 200 with the resource as it is then", func(t *testing.T) {
		path, _, before := admin.full(t)
		renamed := unique("renamed")
		nextSecond()
		got := admin.call(t, "PUT", path, fmt.Sprintf(`{"schemas":[%q],"userName":%q,"title":"U","emails":[{"value":"c@x"}],%q:{"badge":"B-1"}}`, userURN, renamed, attributesURN)).is(200)
		got.has(fmt.Sprintf(`{"userName":%q,"title":"U","emails":[{"value":"c@x"}],%q:{"badge":"B-1"},"schemas":[%q,%q]}`, renamed, attributesURN, userURN, attributesURN))
		got.want("id", before.at("id")).want("meta.created", before.at("meta.created")).want("meta.version", got.header.Get("ETag"))
		if got.at("meta.version") == before.at("meta.version") || got.at("meta.lastModified") == before.at("meta.lastModified") {
			t.Errorf("version and lastModified did not move: %s", got.raw)
		}
		if read := admin.call(t, "GET", path, nil).is(200); string(read.raw) != string(got.raw) {
			t.Errorf("reads as %s, answered %s", read.raw, got.raw)
		}
	})
	t.Run("what is left out is cleared", func(t *testing.T) {
		path, name, _ := admin.full(t)
		admin.call(t, "PUT", path, `{"userName":`+quote(name)+`,"`+attributesURN+`":{"badge":"B-1"}}`).is(200).
			has(`{"externalId":null,"title":null,"name":null,"emails":null,"` + enterpriseURN + `":null,"` + attributesURN + `":{"badge":"B-1"}}`)
	})
	t.Run("null and the empty list clear too", func(t *testing.T) {
		path, name, _ := admin.full(t)
		admin.call(t, "PUT", path, strings.Replace(fullUser(name), `"title":"T"`, `"title":null,"roles":[]`, 1)).is(200).want("title", nil).want("roles", nil).want("externalId", "x")
	})
	t.Run("what is read-only is ignored, and what was read can be sent back", func(t *testing.T) {
		path, _, before := admin.full(t)
		group := admin.group(t, unique("g"), strings.TrimPrefix(path, "/Users/"))
		sent := strings.Replace(string(before.raw), `"meta":{`, `"groups":[{"value":"other"}],"meta":{"resourceType":"Group",`, 1)
		sent = strings.Replace(sent, `"resourceType":"User",`, ``, 1)
		sent = strings.Replace(sent, before.text("id"), "another-id", 1)
		got := admin.call(t, "PUT", path, sent).is(200)
		got.want("id", before.at("id")).want("meta.resourceType", "User").want("groups.0.value", group).want("groups.1", nil)
		got.want("meta.version", before.at("meta.version"))
	})
	t.Run("saying the same again keeps version and lastModified", func(t *testing.T) {
		path, name, before := admin.full(t)
		nextSecond()
		got := admin.call(t, "PUT", path, fullUser(name)).is(200)
		got.want("meta.version", before.at("meta.version")).want("meta.lastModified", before.at("meta.lastModified"))
		admin.call(t, "PUT", path, string(before.raw)).is(200).want("meta.version", before.at("meta.version")).want("meta.lastModified", before.at("meta.lastModified"))
	})
}

func TestRFC7644Section3_5_1_PUTOfImmutableAttributes(t *testing.T) {
	admin := acme.as(acme.rfc)
	t.Run("an immutable attribute must be what it was", func(t *testing.T) {
		path, name, before := admin.full(t)
		admin.call(t, "PUT", path, strings.Replace(fullUser(name), "B-1", "b-1", 1)).refused(400, "mutability", "badge")
		admin.call(t, "GET", path, nil).is(200).want("meta.version", before.at("meta.version"))
	})
	t.Run("an immutable attribute that had no value may get one, once", func(t *testing.T) {
		path := admin.userOf(t)
		name := admin.call(t, "GET", path, nil).text("userName")
		admin.call(t, "PUT", path, fullUser(name)).is(200).want("["+attributesURN+"].badge", "B-1")
		admin.call(t, "PUT", path, strings.Replace(fullUser(name), "B-1", "B-2", 1)).refused(400, "mutability", "badge")
	})
	t.Run("an immutable attribute that is left out stays", func(t *testing.T) {
		path, name, _ := admin.full(t)
		admin.call(t, "PUT", path, `{"userName":`+quote(name)+`}`).is(200).want("["+attributesURN+"].badge", "B-1").want("["+attributesURN+"].level", nil)
	})
}

func TestRFC7644Section3_5_1_WhatPUTRefuses(t *testing.T) {
	admin := acme.as(acme.rfc)
	t.Run("what is required must be there", func(t *testing.T) {
		path, _, before := admin.full(t)
		for _, body := range []string{`{}`, `{"title":"x"}`, `{"userName":null}`, `{"userName":""}`} {
			admin.call(t, "PUT", path, body).refused(400, "invalidValue", "userName")
		}
		admin.call(t, "PUT", "/Groups/"+admin.group(t, unique("g")), `{"members":[]}`).refused(400, "invalidValue", "displayName")
		admin.call(t, "GET", path, nil).is(200).want("meta.version", before.at("meta.version"))
	})
	t.Run("it never creates", func(t *testing.T) {
		name := unique("u")
		admin.call(t, "PUT", "/Users/ghost", `{"userName":`+quote(name)+`}`).refused(404, "")
		admin.find(t, "/Users", `userName eq `+quote(name)).is(200).want("totalResults", 0)
	})
	t.Run("a name that belongs to another one is a 409", func(t *testing.T) {
		path, name, _ := admin.full(t)
		other := unique("other")
		admin.user(t, other)
		admin.call(t, "PUT", path, `{"userName":`+quote(strings.ToUpper(other))+`}`).refused(409, "uniqueness")
		admin.call(t, "PUT", path, strings.Replace(fullUser(name), name, strings.ToUpper(name), 1)).is(200).want("userName", strings.ToUpper(name))
	})
	t.Run("a name that was given up is free", func(t *testing.T) {
		path, name, _ := admin.full(t)
		admin.call(t, "PUT", path, strings.Replace(fullUser(name), name, unique("renamed"), 1)).is(200)
		admin.user(t, name)
	})
	for _, tc := range refusedBodies[3:8] {
		t.Run("refused as with POST: "+tc.name, func(t *testing.T) {
			path, name, before := admin.full(t)
			admin.call(t, "PUT", path, strings.Replace(tc.body, "%s", name, 1)).refused(400, tc.scimType, tc.word)
			admin.call(t, "GET", path, nil).is(200).want("meta.version", before.at("meta.version"))
		})
	}
}

func TestRFC7644Section3_5_1_PUTOfAGroupReplacesItsMembers(t *testing.T) {
	admin := acme.as(acme.rfc)
	a, b, c := admin.user(t, unique("a")), admin.user(t, unique("b")), admin.user(t, unique("c"))
	name := unique("g")
	path := "/Groups/" + admin.group(t, name, a, b)
	put := func(members string) *answer {
		t.Helper()
		return admin.call(t, "PUT", path, `{"schemas":["`+groupURN+`"],"displayName":`+quote(name)+members+`}`).is(200)
	}
	is := func(got *answer, ids ...string) {
		t.Helper()
		for _, seen := range []*answer{got, admin.call(t, "GET", path, nil).is(200)} {
			members := seen.memberIDs()
			for _, id := range ids {
				if !members[id] {
					t.Errorf("%s lacks %s: %s", seen.what, id, seen.raw)
				}
			}
			if len(members) != len(ids) {
				t.Errorf("%s: %d members, want %d: %s", seen.what, len(members), len(ids), seen.raw)
			}
		}
	}
	before := admin.call(t, "GET", path, nil).is(200)
	is(put(`,"members":[{"value":"`+b+`"},{"value":"`+a+`"}]`).want("meta.version", before.at("meta.version")), a, b)
	is(put(`,"members":[{"value":"`+b+`"},{"value":"`+c+`"}]`), b, c)
	is(put(`,"members":[{"value":"`+c+`"},{"value":"`+c+`"}]`), c)
	admin.call(t, "GET", "/Users/"+a, nil).is(200).want("groups", nil)
	admin.call(t, "GET", "/Users/"+c, nil).is(200).want("groups.0.value", before.text("id")).want("groups.0.display", name).want("groups.0.$ref", acme.base()+path)
	is(put(``))
	is(put(`,"members":[{"value":"`+a+`","type":"User"}]`), a)
	is(put(`,"members":null`))
}
