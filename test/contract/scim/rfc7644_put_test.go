package scim_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// fullUser returns the body of a user with attributes of all kinds.
func fullUser(name string) string {
	return fmt.Sprintf(`{"schemas":[%q,%q,%q],"userName":%q,"externalId":"x","title":"T","active":true,"name":{"givenName":"Ada","familyName":"L"},
		"emails":[{"value":"a@x","type":"work","primary":true},{"value":"b@x"}],%q:{"department":"d"},%q:{"badge":"B-1","level":1,"tags":["a","b"]}}`,
		scimtest.UserURN, scimtest.EnterpriseURN, scimtest.AttributesURN, name, scimtest.EnterpriseURN, scimtest.AttributesURN)
}

// createFullUser creates a user with attributes of all kinds.
func createFullUser(t *testing.T, a scimtest.Caller) (path, name string, before *scimtest.Response) {
	t.Helper()
	name = scimtest.UniqueName("u")
	path = "/Users/" + a.Create(t, "/Users", fullUser(name))
	return path, name, a.Call(t, "GET", path, nil).WantStatus(200)
}

func TestRFC7644Section3_5_1_ReplacingWithPUT(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	t.Run("returns 200 with the resource", func(t *testing.T) {
		path, _, before := createFullUser(t, admin)
		renamed := scimtest.UniqueName("renamed")
		scimtest.NextSecond()
		got := admin.Call(t, "PUT", path, fmt.Sprintf(`{"schemas":[%q],"userName":%q,"title":"U","emails":[{"value":"c@x"}],%q:{"badge":"B-1"}}`, scimtest.UserURN, renamed, scimtest.AttributesURN)).WantStatus(200)
		got.WantMembers(fmt.Sprintf(`{"userName":%q,"title":"U","emails":[{"value":"c@x"}],%q:{"badge":"B-1"},"schemas":[%q,%q]}`, renamed, scimtest.AttributesURN, scimtest.UserURN, scimtest.AttributesURN))
		got.Want("id", before.Value("id")).Want("meta.created", before.Value("meta.created")).Want("meta.version", got.Header.Get("ETag"))
		if got.Value("meta.version") == before.Value("meta.version") || got.Value("meta.lastModified") == before.Value("meta.lastModified") {
			t.Errorf("version and lastModified did not change: %s", got.Raw)
		}
		if read := admin.Call(t, "GET", path, nil).WantStatus(200); string(read.Raw) != string(got.Raw) {
			t.Errorf("resource %s, response %s", read.Raw, got.Raw)
		}
	})
	t.Run("omitted attributes are cleared", func(t *testing.T) {
		path, name, _ := createFullUser(t, admin)
		admin.Call(t, "PUT", path, `{"userName":`+scimtest.Quote(name)+`,"`+scimtest.AttributesURN+`":{"badge":"B-1"}}`).WantStatus(200).
			WantMembers(`{"externalId":null,"title":null,"name":null,"emails":null,"` + scimtest.EnterpriseURN + `":null,"` + scimtest.AttributesURN + `":{"badge":"B-1"}}`)
	})
	t.Run("null and the empty list clear attributes", func(t *testing.T) {
		path, name, _ := createFullUser(t, admin)
		admin.Call(t, "PUT", path, strings.Replace(fullUser(name), `"title":"T"`, `"title":null,"roles":[]`, 1)).WantStatus(200).Want("title", nil).Want("roles", nil).Want("externalId", "x")
	})
	t.Run("read-only attributes are ignored", func(t *testing.T) {
		path, _, before := createFullUser(t, admin)
		group := admin.CreateGroup(t, scimtest.UniqueName("g"), strings.TrimPrefix(path, "/Users/"))
		sent := strings.Replace(string(before.Raw), `"meta":{`, `"groups":[{"value":"other"}],"meta":{"resourceType":"Group",`, 1)
		sent = strings.Replace(sent, `"resourceType":"User",`, ``, 1)
		sent = strings.Replace(sent, before.Text("id"), "another-id", 1)
		shown := admin.Call(t, "GET", path, nil).WantStatus(200)
		got := admin.Call(t, "PUT", path, sent).WantStatus(200)
		got.Want("id", before.Value("id")).Want("meta.resourceType", "User").Want("groups.0.value", group).Want("groups.1", nil)
		got.Want("meta.version", shown.Value("meta.version"))
	})
	t.Run("an identical PUT keeps version and lastModified", func(t *testing.T) {
		path, name, before := createFullUser(t, admin)
		scimtest.NextSecond()
		got := admin.Call(t, "PUT", path, fullUser(name)).WantStatus(200)
		got.Want("meta.version", before.Value("meta.version")).Want("meta.lastModified", before.Value("meta.lastModified"))
		admin.Call(t, "PUT", path, string(before.Raw)).WantStatus(200).Want("meta.version", before.Value("meta.version")).Want("meta.lastModified", before.Value("meta.lastModified"))
	})
}

func TestRFC7644Section3_5_1_PUTOfImmutableAttributes(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	t.Run("an immutable attribute cannot be changed", func(t *testing.T) {
		path, name, before := createFullUser(t, admin)
		admin.Call(t, "PUT", path, strings.Replace(fullUser(name), "B-1", "b-1", 1)).WantError(400, "mutability", "badge")
		admin.Call(t, "GET", path, nil).WantStatus(200).Want("meta.version", before.Value("meta.version"))
	})
	t.Run("an immutable attribute without a value can be set once", func(t *testing.T) {
		path := admin.CreateUserPath(t)
		name := admin.Call(t, "GET", path, nil).Text("userName")
		admin.Call(t, "PUT", path, fullUser(name)).WantStatus(200).Want("["+scimtest.AttributesURN+"].badge", "B-1")
		admin.Call(t, "PUT", path, strings.Replace(fullUser(name), "B-1", "B-2", 1)).WantError(400, "mutability", "badge")
	})
	t.Run("an omitted immutable attribute is kept", func(t *testing.T) {
		path, name, _ := createFullUser(t, admin)
		admin.Call(t, "PUT", path, `{"userName":`+scimtest.Quote(name)+`}`).WantStatus(200).Want("["+scimtest.AttributesURN+"].badge", "B-1").Want("["+scimtest.AttributesURN+"].level", nil)
	})
}

func TestRFC7644Section3_5_1_PUTErrors(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	t.Run("required attributes", func(t *testing.T) {
		path, _, before := createFullUser(t, admin)
		for _, body := range []string{`{}`, `{"title":"x"}`, `{"userName":null}`, `{"userName":""}`} {
			admin.Call(t, "PUT", path, body).WantError(400, "invalidValue", "userName")
		}
		admin.Call(t, "PUT", "/Groups/"+admin.CreateGroup(t, scimtest.UniqueName("g")), `{"members":[]}`).WantError(400, "invalidValue", "displayName")
		admin.Call(t, "GET", path, nil).WantStatus(200).Want("meta.version", before.Value("meta.version"))
	})
	t.Run("does not create", func(t *testing.T) {
		name := scimtest.UniqueName("u")
		admin.Call(t, "PUT", "/Users/ghost", `{"userName":`+scimtest.Quote(name)+`}`).WantError(404, "")
		admin.Find(t, "/Users", `userName eq `+scimtest.Quote(name)).WantStatus(200).Want("totalResults", 0)
	})
	t.Run("a taken name is a 409", func(t *testing.T) {
		path, name, _ := createFullUser(t, admin)
		other := scimtest.UniqueName("other")
		admin.CreateUser(t, other)
		admin.Call(t, "PUT", path, `{"userName":`+scimtest.Quote(strings.ToUpper(other))+`}`).WantError(409, "uniqueness")
		admin.Call(t, "PUT", path, strings.Replace(fullUser(name), name, strings.ToUpper(name), 1)).WantStatus(200).Want("userName", strings.ToUpper(name))
	})
	t.Run("a released name is available", func(t *testing.T) {
		path, name, _ := createFullUser(t, admin)
		admin.Call(t, "PUT", path, strings.Replace(fullUser(name), name, scimtest.UniqueName("renamed"), 1)).WantStatus(200)
		admin.CreateUser(t, name)
	})
	for _, tc := range refusedBodies[3:8] {
		t.Run("rejected as with POST: "+tc.name, func(t *testing.T) {
			path, name, before := createFullUser(t, admin)
			admin.Call(t, "PUT", path, strings.Replace(tc.body, "%s", name, 1)).WantError(400, tc.scimType, tc.word)
			admin.Call(t, "GET", path, nil).WantStatus(200).Want("meta.version", before.Value("meta.version"))
		})
	}
}

func TestRFC7644Section3_5_1_PUTOfAGroupReplacesItsMembers(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	a, b, c := admin.CreateUser(t, scimtest.UniqueName("a")), admin.CreateUser(t, scimtest.UniqueName("b")), admin.CreateUser(t, scimtest.UniqueName("c"))
	name := scimtest.UniqueName("g")
	path := "/Groups/" + admin.CreateGroup(t, name, a, b)
	put := func(members string) *scimtest.Response {
		t.Helper()
		return admin.Call(t, "PUT", path, `{"schemas":["`+scimtest.GroupURN+`"],"displayName":`+scimtest.Quote(name)+members+`}`).WantStatus(200)
	}
	is := func(got *scimtest.Response, ids ...string) {
		t.Helper()
		for _, seen := range []*scimtest.Response{got, admin.Call(t, "GET", path, nil).WantStatus(200)} {
			members := seen.MemberIDs()
			for _, id := range ids {
				if !members[id] {
					t.Errorf("%s: missing %s: %s", seen.Request, id, seen.Raw)
				}
			}
			if len(members) != len(ids) {
				t.Errorf("%s: %d members, want %d: %s", seen.Request, len(members), len(ids), seen.Raw)
			}
		}
	}
	before := admin.Call(t, "GET", path, nil).WantStatus(200)
	is(put(`,"members":[{"value":"`+b+`"},{"value":"`+a+`"}]`).Want("meta.version", before.Value("meta.version")), a, b)
	is(put(`,"members":[{"value":"`+b+`"},{"value":"`+c+`"}]`), b, c)
	is(put(`,"members":[{"value":"`+c+`"},{"value":"`+c+`"}]`), c)
	admin.Call(t, "GET", "/Users/"+a, nil).WantStatus(200).Want("groups", nil)
	admin.Call(t, "GET", "/Users/"+c, nil).WantStatus(200).Want("groups.0.value", before.Text("id")).Want("groups.0.display", name).Want("groups.0.$ref", acme.BaseURL()+path)
	is(put(``))
	is(put(`,"members":[{"value":"`+a+`","type":"User"}]`), a)
	is(put(`,"members":null`))
}
