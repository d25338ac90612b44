package scim_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

func TestRFC7644Section3_9_AttributesAndExcludedAttributes(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	name := scimtest.UniqueName("ada")
	body := fmt.Sprintf(`{"schemas":[%q],"userName":%q,"title":"T","name":{"givenName":"Ada","familyName":"L"},"emails":[{"value":"a@x","type":"work"},{"value":"b@x","type":"home"}],
		%q:{"department":"d","costCenter":"c"},%q:{"team":"t","level":1}}`, scimtest.UserURN, name, scimtest.EnterpriseURN, scimtest.AttributesURN)
	path := "/Users/" + admin.Create(t, "/Users", body)
	full := []string{"schemas", "id", "meta", "userName", "title", "name", "emails", scimtest.EnterpriseURN, scimtest.AttributesURN}
	if !scimtest.InMemory {
		full = append(full, "active")
	}
	without := func(names ...string) []string {
		return strings.Fields(strings.Join(deleted(full, names...), " "))
	}
	for _, tc := range []struct {
		name, query string
		shown       []string
		members     string
	}{
		{"without either, what is returned by default", "", full, `{}`},
		{"id and schemas are there always", "attributes=title", []string{"schemas", "id", "title"}, `{"title":"T"}`},
		{"several, in any case, with spaces", "attributes=TITLE, username", []string{"schemas", "id", "title", "userName"}, `{}`},
		{"meta only when it is asked for", "attributes=meta", []string{"schemas", "id", "meta"}, `{}`},
		{"a sub-attribute of meta", "attributes=meta.location", []string{"schemas", "id", "meta"}, `{"meta":{"location":"` + acme.BaseURL() + path + `"}}`},
		{"a sub-attribute", "attributes=name.givenName", []string{"schemas", "id", "name"}, `{"name":{"givenName":"Ada"}}`},
		{"a sub-attribute of many", "attributes=emails.value", []string{"schemas", "id", "emails"}, `{"emails":[{"value":"a@x"},{"value":"b@x"}]}`},
		{"the whole beats its part", "attributes=name,name.givenName", []string{"schemas", "id", "name"}, `{"name":{"givenName":"Ada","familyName":"L"}}`},
		{"by the core URN", "attributes=" + scimtest.UserURN + ":title", []string{"schemas", "id", "title"}, `{}`},
		{"an attribute of an extension", "attributes=" + scimtest.EnterpriseURN + ":department", []string{"schemas", "id", scimtest.EnterpriseURN}, `{"` + scimtest.EnterpriseURN + `":{"department":"d"}}`},
		{"an extension as a whole", "attributes=" + strings.ToUpper(scimtest.AttributesURN), []string{"schemas", "id", scimtest.AttributesURN}, `{"` + scimtest.AttributesURN + `":{"team":"t","level":1}}`},
		{"one that has no value", "attributes=nickName", []string{"schemas", "id"}, `{}`},
		{"one that is never returned", "attributes=password", []string{"schemas", "id"}, `{}`},
		{"excluded ones", "excludedAttributes=title,emails", without("title", "emails"), `{}`},
		{"an excluded sub-attribute", "excludedAttributes=name.givenName,emails.type", full, `{"name":{"familyName":"L"},"emails":[{"value":"a@x"},{"value":"b@x"}]}`},
		{"an excluded extension", "excludedAttributes=" + scimtest.EnterpriseURN, without(scimtest.EnterpriseURN), `{}`},
		{"an excluded attribute of an extension", "excludedAttributes=" + scimtest.AttributesURN + ":team", full, `{"` + scimtest.AttributesURN + `":{"level":1}}`},
		{"excluding meta", "excludedAttributes=meta", without("meta"), `{}`},
		{"id and schemas cannot be excluded", "excludedAttributes=id,schemas,title", without("title"), `{}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := "?" + strings.ReplaceAll(tc.query, " ", "%20")
			admin.Call(t, "GET", path+q, nil).WantStatus(200).WantOnly(tc.shown...).WantMembers(tc.members)
			listed := admin.Call(t, "GET", "/Users"+q+"&filter=userName%20eq%20%22"+name+"%22", nil).WantStatus(200).Want("totalResults", 1)
			one := &scimtest.Response{T: t, Request: "list", Raw: []byte(scimtest.FormatJSON(listed.Value("Resources.0")))}
			one.WantOnly(tc.shown...).WantMembers(tc.members)
			admin.Call(t, "PUT", path+q, body).WantStatus(200).WantOnly(tc.shown...).WantMembers(tc.members)
			admin.Call(t, "PATCH", path+q, scimtest.PatchBody(`{"op":"replace","path":"title","value":"T"}`)).WantStatus(200).WantOnly(tc.shown...).WantMembers(tc.members)
			again := strings.Replace(body, name, scimtest.UniqueName("ada"), 1)
			admin.Post(t, "/Users"+q, again).WantStatus(201).WantOnly(tc.shown...)
		})
	}
}

func TestRFC7644Section3_9_SearchAndErrors(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	name := scimtest.UniqueName("ada")
	path := "/Users/" + admin.CreateUser(t, name, `"title":"T","name":{"givenName":"Ada","familyName":"L"}`)
	t.Run("by POST .search", func(t *testing.T) {
		f := `"filter":` + scimtest.Quote(`userName eq `+scimtest.Quote(name))
		one := admin.Search(t, "/Users", f+`,"attributes":["title","name.givenName"]`).WantStatus(200)
		one.Want("Resources.0.title", "T").Want("Resources.0.userName", nil).Want("Resources.0.name.givenName", "Ada").Want("Resources.0.name.familyName", nil)
		one = admin.Search(t, "/Users", f+`,"excludedAttributes":["title"]`).WantStatus(200)
		one.Want("Resources.0.title", nil).Want("Resources.0.userName", name)
	})
	t.Run("unknown attributes are rejected", func(t *testing.T) {
		for _, bad := range []string{"nothing", "name.nothing", "urn:nobody:1.0:X:a", `emails[type eq "work"]`, "user name", "title..", scimtest.AttributesURN + ":nothing"} {
			admin.Call(t, "GET", path+scimtest.Query("attributes", bad), nil).WantError(400, "invalidValue", "attributes")
			admin.Call(t, "GET", "/Users"+scimtest.Query("excludedAttributes", bad), nil).WantError(400, "invalidValue", "excludedAttributes")
		}
		admin.Call(t, "GET", path+"?attributes=title&excludedAttributes=name", nil).WantError(400, "invalidValue", "attributes", "excludedAttributes")
	})
	t.Run("a rejected projection creates nothing", func(t *testing.T) {
		free := scimtest.UniqueName("free")
		admin.Post(t, "/Users?attributes=nothing", `{"userName":`+scimtest.Quote(free)+`}`).WantError(400, "invalidValue", "attributes")
		admin.Find(t, "/Users", `userName eq `+scimtest.Quote(free)).WantStatus(200).Want("totalResults", 0)
		admin.Call(t, "PATCH", path+"?attributes=nothing", scimtest.PatchBody(`{"op":"replace","path":"title","value":"X"}`)).WantError(400, "invalidValue")
		admin.Call(t, "GET", path, nil).WantStatus(200).Want("title", "T")
	})
}

func deleted(all []string, names ...string) []string {
	var rest []string
	for _, name := range all {
		if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ") {
			rest = append(rest, name)
		}
	}
	return rest
}

func TestRFC7644Section3_9_MembersOfGroups(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	user := admin.CreateUser(t, scimtest.UniqueName("u"), `"displayName":"Ada"`)
	path := "/Groups/" + admin.CreateGroup(t, scimtest.UniqueName("g"), user)
	admin.Call(t, "GET", path+"?excludedAttributes=members", nil).WantStatus(200).WantOnly("schemas", "id", "displayName", "meta")
	admin.Call(t, "GET", path+"?attributes=displayName", nil).WantStatus(200).WantOnly("schemas", "id", "displayName")
	admin.Call(t, "GET", path+"?attributes=members.value", nil).WantStatus(200).WantMembers(`{"members":[{"value":"` + user + `"}]}`)
	admin.Call(t, "GET", "/Groups?excludedAttributes=members"+"&filter=members.value%20eq%20%22"+user+"%22", nil).WantStatus(200).Want("totalResults", 1).Want("Resources.0.members", nil)
	admin.Call(t, "GET", "/Users/"+user+"?attributes=groups.display", nil).WantStatus(200).WantOnly("schemas", "id", "groups")
	admin.Call(t, "GET", "/Users/"+user+"?excludedAttributes=groups", nil).WantStatus(200).Want("groups", nil).Want("displayName", "Ada")
}
