package scim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

func TestRFC7644Section3_3_Create(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	t.Run("returns 201 with the resource, Location and version", func(t *testing.T) {
		name := scimtest.UniqueName("ada")
		got := admin.Post(t, "/Users", fmt.Sprintf(`{"schemas":[%q],"userName":%q,"name":{"givenName":"Ada"},"active":true}`, scimtest.UserURN, name)).WantStatus(201)
		location := acme.BaseURL() + "/Users/" + got.Text("id")
		got.WantMembers(fmt.Sprintf(`{"schemas":[%q],"userName":%q,"name":{"givenName":"Ada"},"active":true}`, scimtest.UserURN, name))
		got.Want("meta.resourceType", "User").Want("meta.location", location).Want("meta.version", got.Header.Get("ETag"))
		if got.Header.Get("Location") != location || !strings.HasPrefix(got.Header.Get("ETag"), `W/"`) {
			t.Errorf("Location %q, ETag %q", got.Header.Get("Location"), got.Header.Get("ETag"))
		}
		created, err := time.Parse(time.RFC3339Nano, got.Text("meta.created"))
		modified, err2 := time.Parse(time.RFC3339Nano, got.Text("meta.lastModified"))
		if err != nil || err2 != nil || time.Since(created).Abs() > time.Minute || modified.Before(created) {
			t.Errorf("created %v %v, lastModified %v %v", created, err, modified, err2)
		}
		admin.Call(t, "GET", "/Users/"+got.Text("id"), nil).WantStatus(200).Want("userName", name)
	})
	t.Run("of a Group", func(t *testing.T) {
		member := admin.CreateUser(t, scimtest.UniqueName("ada"))
		got := admin.Post(t, "/Groups", fmt.Sprintf(`{"schemas":[%q],"displayName":%q,"members":[{"value":%q}]}`, scimtest.GroupURN, scimtest.UniqueName("g"), member)).WantStatus(201)
		got.Want("meta.resourceType", "Group").Want("members.0.value", member).Want("members.0.$ref", acme.BaseURL()+"/Users/"+member)
		if got.Header.Get("Location") != acme.BaseURL()+"/Groups/"+got.Text("id") {
			t.Errorf("Location %q", got.Header.Get("Location"))
		}
	})
	t.Run("read-only attributes are ignored", func(t *testing.T) {
		got := admin.Post(t, "/Users", fmt.Sprintf(`{"schemas":[%q],"id":"mine","userName":%q,"groups":[{"value":"x"}],
			"meta":{"resourceType":"Group","created":"2001-01-01T00:00:00Z","location":"https://evil.example.com/","version":"W/\"x\""},
			%q:{"manager":{"value":"m","displayName":"Nobody","$ref":"https://evil.example.com/"}}}`, scimtest.UserURN, scimtest.UniqueName("u"), scimtest.EnterpriseURN)).WantStatus(201)
		got.Want("groups", nil).Want("meta.resourceType", "User").Want("["+scimtest.EnterpriseURN+"].manager.displayName", nil)
		got.Want("["+scimtest.EnterpriseURN+"].manager.$ref", acme.BaseURL()+"/Users/m")
		if got.Text("id") == "mine" || strings.HasPrefix(got.Text("meta.created"), "2001") || strings.Contains(string(got.Raw), "evil") {
			t.Errorf("%s", got.Raw)
		}
	})
	t.Run("$ref of a member is derived", func(t *testing.T) {
		member := admin.CreateUser(t, scimtest.UniqueName("ada"))
		got := admin.Post(t, "/Groups", fmt.Sprintf(`{"displayName":%q,"members":[{"value":%q,"$ref":"https://evil.example.com/"}]}`, scimtest.UniqueName("g"), member)).WantStatus(201)
		got.Want("members.0.$ref", acme.BaseURL()+"/Users/"+member)
		put := admin.Call(t, "PUT", "/Groups/"+got.Text("id"), strings.Replace(string(got.Raw), acme.BaseURL(), "https://evil.example.com", 1)).WantStatus(200)
		put.Want("members.0.$ref", acme.BaseURL()+"/Users/"+member).Want("meta.version", got.Value("meta.version"))
	})
}

func TestRFC7644Section3_3_UniqueValuesAndIds(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	t.Run("userName is unique, ignoring case", func(t *testing.T) {
		name := scimtest.UniqueName("Grace")
		admin.CreateUser(t, name)
		admin.Post(t, "/Users", `{"userName":`+scimtest.Quote(strings.ToUpper(name))+`}`).WantError(409, "uniqueness", "userName")
		globex.WithToken(globex.RFC).CreateUser(t, name) // names are unique per account
	})
	t.Run("displayName of groups is unique, ignoring case", func(t *testing.T) {
		name := scimtest.UniqueName("Team")
		admin.CreateGroup(t, name)
		admin.Post(t, "/Groups", `{"displayName":`+scimtest.Quote(strings.ToLower(name))+`}`).WantError(409, "uniqueness", "displayName")
	})
	t.Run("ids are generated", func(t *testing.T) {
		first := admin.CreateUser(t, scimtest.UniqueName("u"), `"externalId":"1"`)
		second := admin.CreateUser(t, scimtest.UniqueName("u"), `"externalId":"1"`)
		if first == second || first == "1" || strings.Contains(strings.ToLower(first), "bulkid") {
			t.Errorf("ids %q and %q", first, second)
		}
	})
}

// Bodies that are rejected; %s is an unused name.
var refusedBodies = []struct{ name, body, scimType, word string }{
	{"userName is required", `{"schemas":["` + scimtest.UserURN + `"]}`, "invalidValue", "userName"},
	{"an empty userName is none", `{"userName":""}`, "invalidValue", "userName"},
	{"null is no userName", `{"userName":null}`, "invalidValue", "userName"},
	{"an unknown attribute", `{"userName":"%s","colour":"red"}`, "invalidSyntax", "colour"},
	{"an unknown sub-attribute", `{"userName":"%s","name":{"first":"A"}}`, "invalidSyntax", "name.first"},
	{"an unknown attribute of an extension", `{"userName":"%s","` + scimtest.EnterpriseURN + `":{"boss":"x"}}`, "invalidSyntax", "boss"},
	{"an unknown schema as a member", `{"userName":"%s","urn:nobody:1.0:X":{"a":"b"}}`, "invalidSyntax", "urn:nobody"},
	{"schemas with an unknown one", `{"schemas":["` + scimtest.UserURN + `","urn:nobody:1.0:X"],"userName":"%s"}`, "invalidSyntax", "schemas[1]"},
	{"schemas without the core one", `{"schemas":["` + scimtest.EnterpriseURN + `"],"userName":"%s"}`, "invalidSyntax", "schemas"},
	{"schemas of another type", `{"schemas":["` + scimtest.GroupURN + `"],"userName":"%s"}`, "invalidSyntax", "schemas"},
	{"schemas that are no list", `{"schemas":"` + scimtest.UserURN + `","userName":"%s"}`, "invalidValue", "schemas"},
	{"a number for a string", `{"userName":"%s","title":1}`, "invalidValue", "title"},
	{"a string for a boolean", `{"userName":"%s","active":"true"}`, "invalidValue", "active"},
	{"a string for a complex value", `{"userName":"%s","name":"Ada"}`, "invalidValue", "name"},
	{"a string for a list", `{"userName":"%s","emails":"a@b"}`, "invalidValue", "emails"},
	{"a string for an element", `{"userName":"%s","emails":["a@b"]}`, "invalidValue", "emails[0]"},
	{"a list for one value", `{"userName":"%s","title":["a"]}`, "invalidValue", "title"},
	{"two primary values", `{"userName":"%s","emails":[{"value":"a","primary":true},{"value":"b","primary":true}]}`, "invalidValue", "primary"},
	{"binary that is no base64", `{"userName":"%s","x509Certificates":[{"value":"?"}]}`, "invalidValue", "x509Certificates[0].value"},
	{"a decimal for an integer", `{"userName":"%s","` + scimtest.AttributesURN + `":{"level":1.5}}`, "invalidValue", "level"},
	{"an integer beyond 64 bits", `{"userName":"%s","` + scimtest.AttributesURN + `":{"level":9223372036854775808}}`, "invalidValue", "level"},
	{"a text that is no time", `{"userName":"%s","` + scimtest.AttributesURN + `":{"since":"yesterday"}}`, "invalidValue", "since"},
	{"a URL that is none", `{"userName":"%s","profileUrl":"no url"}`, "invalidValue", "profileUrl"},
	{"a URL without a scheme", `{"userName":"%s","profileUrl":"example.com/ada"}`, "invalidValue", "profileUrl"},
	{"a photo that is no URL", `{"userName":"%s","photos":[{"value":"photo"}]}`, "invalidValue", "photos[0].value"},
	{"half of a surrogate pair", `{"userName":"%s","title":"\ud800"}`, "invalidValue", "surrogate"},
	{"a name of blanks", `{"userName":"  \u3000"}`, "invalidValue", "userName"},
	{"a name with a control character", `{"userName":"%s\u0000"}`, "invalidValue", "userName"},
	{"a name with a line break", `{"userName":"%s","displayName":"Ada\nL"}`, "invalidValue", "displayName"},
	{"a name written backwards", `{"userName":"%s","displayName":"Ada\u202eL"}`, "invalidValue", "displayName"},
	{"a first name written backwards", `{"userName":"%s","name":{"givenName":"\u2067Ada"}}`, "invalidValue", "name.givenName"},
	{"a name twice", `{"userName":"%s","userName":"b"}`, "invalidSyntax", "userName"},
	{"a name twice in another case", `{"userName":"%s","USERNAME":"b"}`, "invalidSyntax", "duplicate name"},
	{"a name twice within a value", `{"userName":"%s","name":{"givenName":"A","GivenName":"B"}}`, "invalidSyntax", "duplicate name"},
	{"an attribute at the top and under the core URN", `{"userName":"%s","title":"a","` + scimtest.UserURN + `":{"title":"b"}}`, "invalidSyntax", "title"},
	{"no JSON", `{"userName":`, "invalidSyntax", ""},
	{"something behind the JSON", `{"userName":"%s"}{}`, "invalidSyntax", ""},
	{"a list", `[{"userName":"%s"}]`, "invalidSyntax", "object"},
	{"an empty body", ``, "invalidSyntax", ""},
	{"nested without end", `{"userName":"%s","name":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "invalidSyntax", "deep"},
}

func TestRFC7644Section3_3_CreateErrors(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	for _, tc := range refusedBodies {
		t.Run(tc.name, func(t *testing.T) {
			name := scimtest.UniqueName("refused")
			admin.Post(t, "/Users", strings.Replace(tc.body, "%s", name, 1)).WantError(400, tc.scimType, tc.word)
			admin.Find(t, "/Users", `userName eq `+scimtest.Quote(name)).WantStatus(200).Want("totalResults", 0)
		})
	}
	t.Run("displayName of a group is required", func(t *testing.T) {
		admin.Post(t, "/Groups", `{"schemas":["`+scimtest.GroupURN+`"]}`).WantError(400, "invalidValue", "displayName")
	})
	t.Run("displayName of a group has no control characters", func(t *testing.T) {
		admin.Post(t, "/Groups", `{"displayName":"\u0007"}`).WantError(400, "invalidValue", "displayName")
		admin.Post(t, "/Groups", `{"displayName":"  "}`).WantError(400, "invalidValue", "displayName")
	})
	t.Run("value of a member is required", func(t *testing.T) {
		admin.Post(t, "/Groups", `{"displayName":"g","members":[{"type":"User"}]}`).WantError(400, "invalidValue", "members", "value")
	})
}

func TestRFC7643Section2_1_NamesAndSchemasInAnyCase(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	t.Run("attribute names and URNs are case-insensitive and returned in canonical form", func(t *testing.T) {
		got := admin.Post(t, "/Users", fmt.Sprintf(`{"SCHEMAS":[%q,%q],"USERNAME":%q,"Name":{"GIVENNAME":"Ada"},%q:{"DEPARTMENT":"d"}}`,
			strings.ToUpper(scimtest.UserURN), strings.ToLower(scimtest.EnterpriseURN), scimtest.UniqueName("u"), strings.ToUpper(scimtest.EnterpriseURN))).WantStatus(201)
		got.Want("schemas.0", scimtest.UserURN).Want("schemas.1", scimtest.EnterpriseURN).Want("name.givenName", "Ada").Want("["+scimtest.EnterpriseURN+"].department", "d")
	})
	t.Run("core attributes under the core URN", func(t *testing.T) {
		name := scimtest.UniqueName("u")
		admin.Post(t, "/Users", fmt.Sprintf(`{"schemas":[%q],%q:{"userName":%q,"title":"T"}}`, scimtest.UserURN, scimtest.UserURN, name)).WantStatus(201).
			Want("userName", name).Want("title", "T").Want("["+scimtest.UserURN+"]", nil)
	})
	t.Run("schemas of the response are those of the resource", func(t *testing.T) {
		path := admin.CreateUserPath(t, `"`+scimtest.EnterpriseURN+`":{}`)
		admin.Call(t, "GET", path, nil).WantStatus(200).WantMembers(`{"schemas":["` + scimtest.UserURN + `"],"` + scimtest.EnterpriseURN + `":null}`)
	})
}

func TestRFC7643Section2_5_NullAndEmptyAreUnassigned(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	path := admin.CreateUserPath(t, `"title":null,"nickName":"","emails":[],"roles":null,"name":{},"addresses":[{}],"phoneNumbers":[{"value":null}],"`+scimtest.EnterpriseURN+`":{"department":null}`)
	admin.Call(t, "GET", path, nil).WantStatus(200).WantMembers(`{"title":null,"nickName":null,"emails":null,"roles":null,"name":null,"addresses":null,"phoneNumbers":null,"` + scimtest.EnterpriseURN + `":null}`)
	id := strings.TrimPrefix(path, "/Users/")
	for _, attribute := range []string{"title", "nickName", "emails", "roles", "name", "addresses", "phoneNumbers.value", scimtest.EnterpriseURN + ":department"} {
		admin.Find(t, "/Users", `id eq "`+id+`" and `+attribute+` pr`).WantStatus(200).Want("totalResults", 0)
	}
}

func TestRFC7643Section4_1_1_PasswordIsNeverReturned(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	const secret = "t1meMa$heen"
	silent := func(got *scimtest.Response) *scimtest.Response {
		t.Helper()
		if strings.Contains(string(got.Raw), secret) || strings.Contains(string(got.Raw), `"password"`) {
			t.Errorf("%s contains the password: %s", got.Request, got.Raw)
		}
		return got
	}
	created := silent(admin.Post(t, "/Users?attributes=password,userName", `{"userName":`+scimtest.Quote(scimtest.UniqueName("u"))+`,"password":"`+secret+`"}`).WantStatus(201))
	path := "/Users/" + created.Text("id")
	silent(admin.Call(t, "GET", path+"?attributes=password", nil).WantStatus(200))
	silent(admin.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"replace","path":"password","value":"`+secret+`"}`)).WantStatus(200))
	silent(admin.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"replace","value":{"password":"`+secret+`"}}`)).WantStatus(200))
	silent(admin.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"remove","path":"password"}`)).WantStatus(200))
	silent(admin.Call(t, "PUT", path, `{"userName":`+scimtest.Quote(created.Text("userName"))+`,"password":"`+secret+`"}`).WantStatus(200))
	silent(admin.Call(t, "GET", "/Schemas/"+scimtest.UserURN, nil).WantStatus(200))
}

func TestRFC7644Section3_8_MediaTypes(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	for media, status := range map[string]int{
		"application/scim+json": 201, "application/json": 201, "application/scim+json; charset=utf-8": 201, "APPLICATION/JSON;charset=UTF-8": 201,
		"text/plain": 415, "application/xml": 415, "application/x-www-form-urlencoded": 415, "application/json; =": 415,
	} {
		t.Run(media, func(t *testing.T) {
			got := admin.Post(t, "/Users", `{"userName":`+scimtest.Quote(scimtest.UniqueName("u"))+`}`, "Content-Type", media).WantStatus(status)
			if status == 415 {
				got.WantError(415, "", "Content-Type")
			}
		})
	}
	admin.Call(t, "GET", "/Users?count=0", nil, "Accept", "application/json").WantStatus(200)
}

func TestRFC7643Section2_4_PairsOfTypeAndValueAreDistinct(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	const emails = `"emails":[{"value":"a@x.test","type":"work","primary":true},{"value":"A@x.test","type":"WORK","display":"A"},{"value":"a@x.test","type":"home"},{"value":"a@x.test","type":"home"}]`
	const distinct = `{"emails":[{"value":"A@x.test","display":"A","type":"WORK","primary":true},{"value":"a@x.test","type":"home"}]}`
	path := admin.CreateUserPath(t, emails)
	admin.Call(t, "GET", path, nil).WantStatus(200).WantMembers(distinct)
	name := admin.Call(t, "GET", path, nil).Text("userName")
	admin.Call(t, "PUT", path, `{"userName":"`+name+`",`+emails+`}`).WantStatus(200).WantMembers(distinct)
	admin.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"add","path":"emails","value":[{"value":"a@x.test","type":"home"}]}`)).WantStatus(200).WantMembers(distinct)
	admin.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"replace","path":"emails[type eq \"home\"].type","value":"work"}`)).WantStatus(200).
		WantMembers(`{"emails":[{"value":"a@x.test","display":"A","type":"work","primary":true}]}`)
}
