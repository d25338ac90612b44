package scim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestRFC7644Section3_3_Create(t *testing.T) {
	admin := acme.as(acme.rfc)
	t.Run("answers 201 with the resource, its Location and its version", func(t *testing.T) {
		name := unique("ada")
		got := admin.post(t, "/Users", fmt.Sprintf(`{"schemas":[%q],"userName":%q,"name":{"givenName":"Ada"},"active":true}`, userURN, name)).is(201)
		location := acme.base() + "/Users/" + got.text("id")
		got.has(fmt.Sprintf(`{"schemas":[%q],"userName":%q,"name":{"givenName":"Ada"},"active":true}`, userURN, name))
		got.want("meta.resourceType", "User").want("meta.location", location).want("meta.version", got.header.Get("ETag"))
		if got.header.Get("Location") != location || !strings.HasPrefix(got.header.Get("ETag"), `W/"`) {
			t.Errorf("Location %q, ETag %q", got.header.Get("Location"), got.header.Get("ETag"))
		}
		created, err := time.Parse(time.RFC3339Nano, got.text("meta.created"))
		modified, err2 := time.Parse(time.RFC3339Nano, got.text("meta.lastModified"))
		if err != nil || err2 != nil || time.Since(created).Abs() > time.Minute || modified.Before(created) {
			t.Errorf("created %v %v, lastModified %v %v", created, err, modified, err2)
		}
		admin.call(t, "GET", "/Users/"+got.text("id"), nil).is(200).want("userName", name)
	})
	t.Run("a Group too", func(t *testing.T) {
		member := admin.user(t, unique("ada"))
		got := admin.post(t, "/Groups", fmt.Sprintf(`{"schemas":[%q],"displayName":%q,"members":[{"value":%q}]}`, groupURN, unique("g"), member)).is(201)
		got.want("meta.resourceType", "Group").want("members.0.value", member).want("members.0.$ref", acme.base()+"/Users/"+member)
		if got.header.Get("Location") != acme.base()+"/Groups/"+got.text("id") {
			t.Errorf("Location %q", got.header.Get("Location"))
		}
	})
	t.Run("what is read-only is ignored", func(t *testing.T) {
		got := admin.post(t, "/Users", fmt.Sprintf(`{"schemas":[%q],"id":"mine","userName":%q,"groups":[{"value":"x"}],
			"meta":{"resourceType":"Group","created":"2001-01-01T00:00:00Z","location":"https://evil.example.com/","version":"W/\"x\""},
			%q:{"manager":{"value":"m","displayName":"Nobody","$ref":"https://evil.example.com/"}}}`, userURN, unique("u"), enterpriseURN)).is(201)
		got.want("groups", nil).want("meta.resourceType", "User").want("["+enterpriseURN+"].manager.displayName", nil)
		got.want("["+enterpriseURN+"].manager.$ref", acme.base()+"/Users/m")
		if got.text("id") == "mine" || strings.HasPrefix(got.text("meta.created"), "2001") || strings.Contains(string(got.raw), "evil") {
			t.Errorf("%s", got.raw)
		}
	})
	t.Run("the address of a member is the server's to make", func(t *testing.T) {
		member := admin.user(t, unique("ada"))
		got := admin.post(t, "/Groups", fmt.Sprintf(`{"displayName":%q,"members":[{"value":%q,"$ref":"https://evil.example.com/"}]}`, unique("g"), member)).is(201)
		got.want("members.0.$ref", acme.base()+"/Users/"+member)
		put := admin.call(t, "PUT", "/Groups/"+got.text("id"), strings.Replace(string(got.raw), acme.base(), "https://evil.example.com", 1)).is(200)
		put.want("members.0.$ref", acme.base()+"/Users/"+member).want("meta.version", got.at("meta.version"))
	})
}

func TestRFC7644Section3_3_UniqueValuesAndIds(t *testing.T) {
	admin := acme.as(acme.rfc)
	t.Run("a userName that differs in case only is a 409 uniqueness", func(t *testing.T) {
		name := unique("Grace")
		admin.user(t, name)
		admin.post(t, "/Users", `{"userName":`+quote(strings.ToUpper(name))+`}`).refused(409, "uniqueness", "userName")
		globex.as(globex.rfc).user(t, name) // another account's names are no concern
	})
	t.Run("a displayName of a group that differs in case only is a 409 uniqueness", func(t *testing.T) {
		name := unique("Team")
		admin.group(t, name)
		admin.post(t, "/Groups", `{"displayName":`+quote(strings.ToLower(name))+`}`).refused(409, "uniqueness", "displayName")
	})
	t.Run("an id is never the client's", func(t *testing.T) {
		first := admin.user(t, unique("u"), `"externalId":"1"`)
		second := admin.user(t, unique("u"), `"externalId":"1"`)
		if first == second || first == "1" || strings.Contains(strings.ToLower(first), "bulkid") {
			t.Errorf("ids %q and %q", first, second)
		}
	})
}

// Bodies that are refused; %s is a name that is free.
var refusedBodies = []struct{ name, body, scimType, word string }{
	{"userName is required", `{"schemas":["` + userURN + `"]}`, "invalidValue", "userName"},
	{"an empty userName is none", `{"userName":""}`, "invalidValue", "userName"},
	{"null is no userName", `{"userName":null}`, "invalidValue", "userName"},
	{"an unknown attribute", `{"userName":"%s","colour":"red"}`, "invalidSyntax", "colour"},
	{"an unknown sub-attribute", `{"userName":"%s","name":{"first":"A"}}`, "invalidSyntax", "name.first"},
	{"an unknown attribute of an extension", `{"userName":"%s","` + enterpriseURN + `":{"boss":"x"}}`, "invalidSyntax", "boss"},
	{"an unknown schema as a member", `{"userName":"%s","urn:nobody:1.0:X":{"a":"b"}}`, "invalidSyntax", "urn:nobody"},
	{"schemas with an unknown one", `{"schemas":["` + userURN + `","urn:nobody:1.0:X"],"userName":"%s"}`, "invalidSyntax", "schemas[1]"},
	{"schemas without the core one", `{"schemas":["` + enterpriseURN + `"],"userName":"%s"}`, "invalidSyntax", "schemas"},
	{"schemas of another type", `{"schemas":["` + groupURN + `"],"userName":"%s"}`, "invalidSyntax", "schemas"},
	{"schemas that are no list", `{"schemas":"` + userURN + `","userName":"%s"}`, "invalidValue", "schemas"},
	{"a number for a string", `{"userName":"%s","title":1}`, "invalidValue", "title"},
	{"a string for a boolean", `{"userName":"%s","active":"true"}`, "invalidValue", "active"},
	{"a string for a complex value", `{"userName":"%s","name":"Ada"}`, "invalidValue", "name"},
	{"a string for a list", `{"userName":"%s","emails":"a@b"}`, "invalidValue", "emails"},
	{"a string for an element", `{"userName":"%s","emails":["a@b"]}`, "invalidValue", "emails[0]"},
	{"a list for one value", `{"userName":"%s","title":["a"]}`, "invalidValue", "title"},
	{"two primary values", `{"userName":"%s","emails":[{"value":"a","primary":true},{"value":"b","primary":true}]}`, "invalidValue", "primary"},
	{"binary that is no base64", `{"userName":"%s","x509Certificates":[{"value":"?"}]}`, "invalidValue", "x509Certificates[0].value"},
	{"a decimal for an integer", `{"userName":"%s","` + attributesURN + `":{"level":1.5}}`, "invalidValue", "level"},
	{"an integer beyond 64 bits", `{"userName":"%s","` + attributesURN + `":{"level":9223372036854775808}}`, "invalidValue", "level"},
	{"a text that is no time", `{"userName":"%s","` + attributesURN + `":{"since":"yesterday"}}`, "invalidValue", "since"},
	{"a name twice", `{"userName":"%s","userName":"b"}`, "invalidSyntax", "userName"},
	{"a name twice in another case", `{"userName":"%s","USERNAME":"b"}`, "invalidSyntax", "twice"},
	{"a name twice within a value", `{"userName":"%s","name":{"givenName":"A","GivenName":"B"}}`, "invalidSyntax", "twice"},
	{"an attribute at the top and under the core URN", `{"userName":"%s","title":"a","` + userURN + `":{"title":"b"}}`, "invalidSyntax", "title"},
	{"no JSON", `{"userName":`, "invalidSyntax", ""},
	{"something behind the JSON", `{"userName":"%s"}{}`, "invalidSyntax", ""},
	{"a list", `[{"userName":"%s"}]`, "invalidSyntax", "object"},
	{"an empty body", ``, "invalidSyntax", ""},
	{"nested without end", `{"userName":"%s","name":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "invalidSyntax", "deep"},
}

func TestRFC7644Section3_3_CreateRefusesWithInvalidSyntaxOrInvalidValue(t *testing.T) {
	admin := acme.as(acme.rfc)
	for _, tc := range refusedBodies {
		t.Run(tc.name, func(t *testing.T) {
			name := unique("refused")
			admin.post(t, "/Users", strings.Replace(tc.body, "%s", name, 1)).refused(400, tc.scimType, tc.word)
			admin.find(t, "/Users", `userName eq `+quote(name)).is(200).want("totalResults", 0)
		})
	}
	t.Run("displayName of a group is required", func(t *testing.T) {
		admin.post(t, "/Groups", `{"schemas":["`+groupURN+`"]}`).refused(400, "invalidValue", "displayName")
	})
	t.Run("a member needs a value", func(t *testing.T) {
		admin.post(t, "/Groups", `{"displayName":"g","members":[{"type":"User"}]}`).refused(400, "invalidValue", "members", "value")
	})
}

func TestRFC7643Section2_1_NamesAndSchemasInAnyCase(t *testing.T) {
	admin := acme.as(acme.rfc)
	t.Run("attribute names and URNs are taken in any case and answered as the schema has them", func(t *testing.T) {
		got := admin.post(t, "/Users", fmt.Sprintf(`{"SCHEMAS":[%q,%q],"USERNAME":%q,"Name":{"GIVENNAME":"Ada"},%q:{"DEPARTMENT":"d"}}`,
			strings.ToUpper(userURN), strings.ToLower(enterpriseURN), unique("u"), strings.ToUpper(enterpriseURN))).is(201)
		got.want("schemas.0", userURN).want("schemas.1", enterpriseURN).want("name.givenName", "Ada").want("["+enterpriseURN+"].department", "d")
	})
	t.Run("core attributes may stand under the core URN", func(t *testing.T) {
		name := unique("u")
		admin.post(t, "/Users", fmt.Sprintf(`{"schemas":[%q],%q:{"userName":%q,"title":"T"}}`, userURN, userURN, name)).is(201).
			want("userName", name).want("title", "T").want("["+userURN+"]", nil)
	})
	t.Run("schemas of the answer name what the resource has", func(t *testing.T) {
		path := admin.userOf(t, `"`+enterpriseURN+`":{}`)
		admin.call(t, "GET", path, nil).is(200).has(`{"schemas":["` + userURN + `"],"` + enterpriseURN + `":null}`)
	})
}

func TestRFC7643Section2_5_NullAndEmptyAreUnassigned(t *testing.T) {
	admin := acme.as(acme.rfc)
	path := admin.userOf(t, `"title":null,"nickName":"","emails":[],"roles":null,"name":{},"addresses":[{}],"phoneNumbers":[{"value":null}],"`+enterpriseURN+`":{"department":null}`)
	admin.call(t, "GET", path, nil).is(200).has(`{"title":null,"nickName":null,"emails":null,"roles":null,"name":null,"addresses":null,"phoneNumbers":null,"` + enterpriseURN + `":null}`)
	id := strings.TrimPrefix(path, "/Users/")
	for _, attribute := range []string{"title", "nickName", "emails", "roles", "name", "addresses", "phoneNumbers.value", enterpriseURN + ":department"} {
		admin.find(t, "/Users", `id eq "`+id+`" and `+attribute+` pr`).is(200).want("totalResults", 0)
	}
}

func TestRFC7643Section4_1_1_PasswordIsTakenAndNeverReturned(t *testing.T) {
	admin := acme.as(acme.rfc)
	const secret = "t1meMa$heen"
	silent := func(got *answer) *answer {
		t.Helper()
		if strings.Contains(string(got.raw), secret) || strings.Contains(string(got.raw), `"password"`) {
			t.Errorf("%s tells the password: %s", got.what, got.raw)
		}
		return got
	}
	created := silent(admin.post(t, "/Users?attributes=password,userName", `{"userName":`+quote(unique("u"))+`,"password":"`+secret+`"}`).is(201))
	path := "/Users/" + created.text("id")
	silent(admin.call(t, "GET", path+"?attributes=password", nil).is(200))
	silent(admin.call(t, "PATCH", path, patch(`{"op":"replace","path":"password","value":"`+secret+`"}`)).is(200))
	silent(admin.call(t, "PATCH", path, patch(`{"op":"replace","value":{"password":"`+secret+`"}}`)).is(200))
	silent(admin.call(t, "PATCH", path, patch(`{"op":"remove","path":"password"}`)).is(200))
	silent(admin.call(t, "PUT", path, `{"userName":`+quote(created.text("userName"))+`,"password":"`+secret+`"}`).is(200))
	silent(admin.call(t, "GET", "/Schemas/"+userURN, nil).is(200))
}

func TestRFC7644Section3_8_MediaTypes(t *testing.T) {
	admin := acme.as(acme.rfc)
	for media, status := range map[string]int{
		"application/scim+json": 201, "application/json": 201, "application/scim+json; charset=utf-8": 201, "APPLICATION/JSON;charset=UTF-8": 201,
		"text/plain": 415, "application/xml": 415, "application/x-www-form-urlencoded": 415, "application/json; =": 415,
	} {
		t.Run(media, func(t *testing.T) {
			got := admin.post(t, "/Users", `{"userName":`+quote(unique("u"))+`}`, "Content-Type", media).is(status)
			if status == 415 {
				got.refused(415, "", "Content-Type")
			}
		})
	}
	admin.call(t, "GET", "/Users?count=0", nil, "Accept", "application/json").is(200)
}
