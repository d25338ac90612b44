package scim_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestRFC7644Section3_9_AttributesAndExcludedAttributes(t *testing.T) {
	admin := acme.as(acme.rfc)
	name := unique("ada")
	body := fmt.Sprintf(`{"schemas":[%q],"userName":%q,"title":"T","name":{"givenName":"Ada","familyName":"L"},"emails":[{"value":"a@x","type":"work"},{"value":"b@x","type":"home"}],
		%q:{"department":"d","costCenter":"c"},%q:{"team":"t","level":1}}`, userURN, name, enterpriseURN, attributesURN)
	path := "/Users/" + admin.created(t, "/Users", body)
	full := []string{"schemas", "id", "meta", "userName", "title", "name", "emails", enterpriseURN, attributesURN}
	if !inMemory {
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
		{"a sub-attribute of meta", "attributes=meta.location", []string{"schemas", "id", "meta"}, `{"meta":{"location":"` + acme.base() + path + `"}}`},
		{"a sub-attribute", "attributes=name.givenName", []string{"schemas", "id", "name"}, `{"name":{"givenName":"Ada"}}`},
		{"a sub-attribute of many", "attributes=emails.value", []string{"schemas", "id", "emails"}, `{"emails":[{"value":"a@x"},{"value":"b@x"}]}`},
		{"the whole beats its part", "attributes=name,name.givenName", []string{"schemas", "id", "name"}, `{"name":{"givenName":"Ada","familyName":"L"}}`},
		{"by the core URN", "attributes=" + userURN + ":title", []string{"schemas", "id", "title"}, `{}`},
		{"an attribute of an extension", "attributes=" + enterpriseURN + ":department", []string{"schemas", "id", enterpriseURN}, `{"` + enterpriseURN + `":{"department":"d"}}`},
		{"an extension as a whole", "attributes=" + strings.ToUpper(attributesURN), []string{"schemas", "id", attributesURN}, `{"` + attributesURN + `":{"team":"t","level":1}}`},
		{"one that has no value", "attributes=nickName", []string{"schemas", "id"}, `{}`},
		{"one that is never returned", "attributes=password", []string{"schemas", "id"}, `{}`},
		{"excluded ones", "excludedAttributes=title,emails", without("title", "emails"), `{}`},
		{"an excluded sub-attribute", "excludedAttributes=name.givenName,emails.type", full, `{"name":{"familyName":"L"},"emails":[{"value":"a@x"},{"value":"b@x"}]}`},
		{"an excluded extension", "excludedAttributes=" + enterpriseURN, without(enterpriseURN), `{}`},
		{"an excluded attribute of an extension", "excludedAttributes=" + attributesURN + ":team", full, `{"` + attributesURN + `":{"level":1}}`},
		{"excluding meta", "excludedAttributes=meta", without("meta"), `{}`},
		{"id and schemas cannot be excluded", "excludedAttributes=id,schemas,title", without("title"), `{}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := "?" + strings.ReplaceAll(tc.query, " ", "%20")
			admin.call(t, "GET", path+q, nil).is(200).shows(tc.shown...).has(tc.members)
			listed := admin.call(t, "GET", "/Users"+q+"&filter=userName%20eq%20%22"+name+"%22", nil).is(200).want("totalResults", 1)
			one := &answer{t: t, what: "list", raw: []byte(asJSON(listed.at("Resources.0")))}
			one.shows(tc.shown...).has(tc.members)
			admin.call(t, "PUT", path+q, body).is(200).shows(tc.shown...).has(tc.members)
			admin.call(t, "PATCH", path+q, patch(`{"op":"replace","path":"title","value":"T"}`)).is(200).shows(tc.shown...).has(tc.members)
			again := strings.Replace(body, name, unique("ada"), 1)
			admin.post(t, "/Users"+q, again).is(201).shows(tc.shown...)
		})
	}
}

func TestRFC7644Section3_9_ProjectionsBySearchAndOnesThatAreRefused(t *testing.T) {
	admin := acme.as(acme.rfc)
	name := unique("ada")
	path := "/Users/" + admin.user(t, name, `"title":"T","name":{"givenName":"Ada","familyName":"L"}`)
	t.Run("by POST .search", func(t *testing.T) {
		f := `"filter":` + quote(`userName eq `+quote(name))
		one := admin.search(t, "/Users", f+`,"attributes":["title","name.givenName"]`).is(200)
		one.want("Resources.0.title", "T").want("Resources.0.userName", nil).want("Resources.0.name.givenName", "Ada").want("Resources.0.name.familyName", nil)
		one = admin.search(t, "/Users", f+`,"excludedAttributes":["title"]`).is(200)
		one.want("Resources.0.title", nil).want("Resources.0.userName", name)
	})
	t.Run("what is no attribute is refused", func(t *testing.T) {
		for _, bad := range []string{"nothing", "name.nothing", "urn:nobody:1.0:X:a", `emails[type eq "work"]`, "user name", "title..", attributesURN + ":nothing"} {
			admin.call(t, "GET", path+query("attributes", bad), nil).refused(400, "invalidValue", "attributes")
			admin.call(t, "GET", "/Users"+query("excludedAttributes", bad), nil).refused(400, "invalidValue", "excludedAttributes")
		}
		admin.call(t, "GET", path+"?attributes=title&excludedAttributes=name", nil).refused(400, "invalidValue", "attributes", "excludedAttributes")
	})
	t.Run("a refused projection leaves nothing behind", func(t *testing.T) {
		free := unique("free")
		admin.post(t, "/Users?attributes=nothing", `{"userName":`+quote(free)+`}`).refused(400, "invalidValue", "attributes")
		admin.find(t, "/Users", `userName eq `+quote(free)).is(200).want("totalResults", 0)
		admin.call(t, "PATCH", path+"?attributes=nothing", patch(`{"op":"replace","path":"title","value":"X"}`)).refused(400, "invalidValue")
		admin.call(t, "GET", path, nil).is(200).want("title", "T")
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
	admin := acme.as(acme.rfc)
	user := admin.user(t, unique("u"), `"displayName":"Ada"`)
	path := "/Groups/" + admin.group(t, unique("g"), user)
	admin.call(t, "GET", path+"?excludedAttributes=members", nil).is(200).shows("schemas", "id", "displayName", "meta")
	admin.call(t, "GET", path+"?attributes=displayName", nil).is(200).shows("schemas", "id", "displayName")
	admin.call(t, "GET", path+"?attributes=members.value", nil).is(200).has(`{"members":[{"value":"` + user + `"}]}`)
	admin.call(t, "GET", "/Groups?excludedAttributes=members"+"&filter=members.value%20eq%20%22"+user+"%22", nil).is(200).want("totalResults", 1).want("Resources.0.members", nil)
	admin.call(t, "GET", "/Users/"+user+"?attributes=groups.display", nil).is(200).shows("schemas", "id", "groups")
	admin.call(t, "GET", "/Users/"+user+"?excludedAttributes=groups", nil).is(200).want("groups", nil).want("displayName", "Ada")
}
