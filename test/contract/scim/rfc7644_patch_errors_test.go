package scim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// Operations that are rejected, on a user with a title, e-mail addresses, a name and a badge.
var refusedOperations = []struct{ name, operation, scimType, word string }{
	{"remove without a path", `{"op":"remove"}`, "noTarget", "path"},
	{"remove with a value", `{"op":"remove","path":"emails","value":[{"value":"w@x"}]}`, "invalidValue", "value"},
	{"replace where the filter finds nothing", `{"op":"replace","path":"emails[type eq \"fax\"].value","value":"x"}`, "noTarget", "emails"},
	{"replace an element where the filter finds nothing", `{"op":"replace","path":"emails[type eq \"fax\"]","value":{"value":"x"}}`, "noTarget", "emails"},
	{"add where the filter finds nothing", `{"op":"add","path":"emails[type eq \"fax\"].value","value":"x"}`, "noTarget", "emails"},
	{"add without a value", `{"op":"add","path":"title"}`, "invalidValue", "value"},
	{"replace without a value", `{"op":"replace","path":"title"}`, "invalidValue", "value"},
	{"add without path and object", `{"op":"add","value":"T"}`, "invalidValue", "value"},
	{"an unknown op", `{"op":"move","path":"title"}`, "invalidSyntax", "op"},
	{"an op that is no text", `{"op":1,"path":"title"}`, "invalidSyntax", "op"},
	{"no op", `{"path":"title","value":"x"}`, "invalidSyntax", "op"},
	{"an unknown member", `{"op":"add","path":"title","value":"x","from":"y"}`, "invalidSyntax", "from"},
	{"a path that is no text", `{"op":"add","path":1,"value":"x"}`, "invalidSyntax", "path"},
	{"an unknown attribute", `{"op":"add","path":"nothing","value":"x"}`, "invalidPath", "nothing"},
	{"an unknown sub-attribute", `{"op":"add","path":"name.nothing","value":"x"}`, "invalidPath", "name.nothing"},
	{"an unknown schema", `{"op":"add","path":"urn:nobody:1.0:X:a","value":"x"}`, "invalidPath", "urn:nobody"},
	{"an unknown attribute without a path", `{"op":"add","value":{"nothing":"x"}}`, "invalidSyntax", "nothing"},
	{"an unknown attribute of an extension without a path", `{"op":"add","value":{"` + scimtest.EnterpriseURN + `":{"nothing":"x"}}}`, "invalidSyntax", "nothing"},
	{"a prototype", `{"op":"add","path":"__proto__.x","value":"x"}`, "invalidPath", ""},
	{"an empty path", `{"op":"add","path":"","value":"x"}`, "invalidPath", "at position 1:"},
	{"a path with a blank", `{"op":"add","path":"na me","value":"x"}`, "invalidPath", "at position 4:"},
	{"a path that ends too early", `{"op":"add","path":"emails[type eq \"work\"","value":"x"}`, "invalidPath", "at position 22:"},
	{"empty brackets", `{"op":"add","path":"emails[]","value":"x"}`, "invalidPath", "at position 8:"},
	{"brackets twice", `{"op":"add","path":"emails[type pr][type pr]","value":"x"}`, "invalidPath", "at position"},
	{"a path that ends in a dot", `{"op":"add","path":"emails[type pr].","value":"x"}`, "invalidPath", "at position"},
	{"a path two deep", `{"op":"add","path":"name.givenName.x","value":"x"}`, "invalidPath", ""},
	{"an index", `{"op":"add","path":"emails[0]","value":"x"}`, "invalidPath", "at position"},
	{"a JSON pointer", `{"op":"add","path":"/title","value":"x"}`, "invalidPath", "at position 1:"},
	{"brackets behind what has one value", `{"op":"add","path":"name[givenName eq \"Ada\"]","value":{}}`, "invalidPath", "name"},
	{"a filter by an unknown sub-attribute", `{"op":"add","path":"emails[nothing eq \"x\"].value","value":"x"}`, "invalidFilter", "nothing"},
	{"a filter that does not fit the type", `{"op":"add","path":"emails[primary gt true].value","value":"x"}`, "invalidFilter", "primary"},
	{"a wrong type", `{"op":"replace","path":"title","value":5}`, "invalidValue", "title"},
	{"a text for a boolean", `{"op":"replace","path":"active","value":"false"}`, "invalidValue", "active"},
	{"a text for a list", `{"op":"add","path":"emails","value":"x@x"}`, "invalidValue", "emails"},
	{"a text for a complex value", `{"op":"replace","path":"name","value":"Ada"}`, "invalidValue", "name"},
	{"a text for an extension", `{"op":"add","path":"` + scimtest.EnterpriseURN + `","value":"x"}`, "invalidValue", scimtest.EnterpriseURN},
	{"two primary values", `{"op":"add","path":"emails","value":[{"value":"a","primary":true},{"value":"b","primary":true}]}`, "invalidValue", "primary"},
	{"primary for all values", `{"op":"replace","path":"emails.primary","value":true}`, "invalidValue", "primary"},
	{"to change id", `{"op":"replace","path":"id","value":"x"}`, "mutability", "id"},
	{"to remove id", `{"op":"remove","path":"id"}`, "mutability", "id"},
	{"to change meta", `{"op":"replace","path":"meta.created","value":"2020-01-01T00:00:00Z"}`, "mutability", "meta"},
	{"to change groups", `{"op":"add","path":"groups","value":[{"value":"x"}]}`, "mutability", "groups"},
	{"to remove groups", `{"op":"remove","path":"groups"}`, "mutability", "groups"},
	{"to change a read-only sub-attribute", `{"op":"add","path":"` + scimtest.EnterpriseURN + `:manager.displayName","value":"x"}`, "mutability", "manager.displayName"},
	{"to remove what is required", `{"op":"remove","path":"userName"}`, "mutability", "userName"},
	{"to change what is immutable", `{"op":"replace","path":"` + scimtest.AttributesURN + `:badge","value":"C"}`, "mutability", "badge"},
	{"to change what is immutable without a path", `{"op":"add","value":{"` + scimtest.AttributesURN + `":{"badge":"C"}}}`, "mutability", "badge"},
	{"to remove what is immutable", `{"op":"remove","path":"` + scimtest.AttributesURN + `:badge"}`, "mutability", "badge"},
	{"to remove an extension with what is immutable", `{"op":"remove","path":"` + scimtest.AttributesURN + `"}`, "mutability", "badge"},
	{"required by null", `{"op":"replace","path":"userName","value":null}`, "invalidValue", "userName"},
	{"required by nothing", `{"op":"replace","value":{"userName":""}}`, "invalidValue", "userName"},
	{"an integer that is none", `{"op":"add","path":"` + scimtest.AttributesURN + `:level","value":1.5}`, "invalidValue", "level"},
	{"a time that is none", `{"op":"add","path":"` + scimtest.AttributesURN + `:since","value":"now"}`, "invalidValue", "since"},
}

func TestRFC7644Section3_5_2_PatchIsAtomic(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	path := admin.CreateUserPath(t, `"title":"T",`+mails+`,`+ada+`,`+ext+`{"badge":"B"},"active":true`)
	before := admin.Call(t, "GET", path, nil).WantStatus(200)
	unchanged := func(t *testing.T) {
		t.Helper()
		if now := admin.Call(t, "GET", path, nil).WantStatus(200); string(now.Raw) != string(before.Raw) {
			t.Fatalf("before %s, after %s", before.Raw, now.Raw)
		}
	}
	for _, tc := range refusedOperations {
		t.Run("rejects "+tc.name, func(t *testing.T) {
			admin.Call(t, "PATCH", path, scimtest.PatchBody(tc.operation)).WantError(400, tc.scimType, tc.word)
			got := admin.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"replace","path":"title","value":"other"}`, `{"op":"remove","path":"name"}`, `{"op":"add","path":"`+scimtest.EnterpriseURN+`:department","value":"D"}`, tc.operation))
			if got.WantError(400, tc.scimType, tc.word); !strings.Contains(tc.name, "required by") && !strings.Contains(got.Text("detail"), "Operations[3]") {
				t.Errorf("the error does not name the operation: %s", got.Raw)
			}
			unchanged(t)
		})
	}
	t.Run("a taken name", func(t *testing.T) {
		other := scimtest.UniqueName("other")
		admin.CreateUser(t, other)
		admin.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"replace","path":"title","value":"other"}`, `{"op":"replace","path":"userName","value":`+scimtest.Quote(strings.ToUpper(other))+`}`)).WantError(409, "uniqueness", "userName")
		unchanged(t)
	})
	t.Run("a body that is not a PATCH", func(t *testing.T) {
		for body, word := range map[string]string{
			`{}`: "Operations", `{"schemas":["` + scimtest.UserURN + `"],"Operations":[{"op":"remove","path":"title"}]}`: "schemas",
			`{"schemas":["` + scimtest.PatchURN + `"]}`: "Operations", scimtest.PatchBody(): "Operations", `{"schemas":["` + scimtest.PatchURN + `"],"Operations":{}}`: "Operations", `{"schemas":["` + scimtest.PatchURN + `"],"Operations":["x"]}`: "Operations[0]",
			`{"schemas":["` + scimtest.PatchURN + `"],"title":"x","Operations":[{"op":"remove","path":"title"}]}`: "title", `{"userName":"x"}`: "userName",
		} {
			admin.Call(t, "PATCH", path, body).WantError(400, "invalidSyntax", word)
		}
		unchanged(t)
	})
	t.Run("names are case-insensitive", func(t *testing.T) {
		admin.Call(t, "PATCH", path, `{"SCHEMAS":["`+strings.ToUpper(scimtest.PatchURN)+`"],"operations":[{"OP":"add","Path":"title","VALUE":"T"}]}`).WantStatus(200)
		unchanged(t)
	})
}

func TestRFC7644Section3_5_2_Limits(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	path := admin.CreateUserPath(t)
	many := func(n int) string {
		return scimtest.PatchBody(strings.TrimSuffix(strings.Repeat(`{"op":"add","path":"title","value":"x"},`, n), ","))
	}
	admin.Call(t, "PATCH", path, many(1000)).WantStatus(200).Want("title", "x")
	admin.Call(t, "PATCH", path, many(1001)).WantError(413, "", "1000")
	t.Run("limits of paths", func(t *testing.T) {
		for _, filter := range []string{strings.Repeat("(", 100) + "type pr" + strings.Repeat(")", 100), strings.Repeat("type pr or ", 300) + "type pr", `value eq "` + strings.Repeat("x", 9000) + `"`} {
			admin.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"remove","path":`+scimtest.Quote("emails["+filter+"]")+`}`)).WantError(400, "invalidPath")
		}
	})
	t.Run("limit of visited elements", func(t *testing.T) {
		begun := time.Now()
		got := admin.Call(t, "PATCH", path, many(1000))
		if got.WantStatus(200); time.Since(begun) > 5*time.Second {
			t.Errorf("took %v", time.Since(begun))
		}
	})
}

func TestRFC7644Section3_5_2_MembersOfGroups(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	a, b, c := admin.CreateUser(t, scimtest.UniqueName("a")), admin.CreateUser(t, scimtest.UniqueName("b")), admin.CreateUser(t, scimtest.UniqueName("c"))
	replace := strings.NewReplacer("{a}", a, "{b}", b, "{c}", c)
	for _, tc := range []struct{ name, before, operation, after string }{
		{"add one", "a", `{"op":"add","path":"members","value":[{"value":"{b}"}]}`, "a b"},
		{"add one without a path", "a", `{"op":"add","value":{"members":[{"value":"{b}"}]}}`, "a b"},
		{"the figure of the RFC: add with display and $ref", "a", `{"op":"add","path":"members","value":[{"display":"Babs Jensen","$ref":"https://example.com/v2/Users/{b}","value":"{b}"}]}`, "a b"},
		{"add one that is there", "a b", `{"op":"add","path":"members","value":[{"value":"{b}"}]}`, "a b"},
		{"add one twice", "a", `{"op":"add","path":"members","value":[{"value":"{b}"},{"value":"{b}"}]}`, "a b"},
		{"add to an empty group", "", `{"op":"add","path":"members","value":[{"value":"{a}"},{"value":"{b}"},{"value":"{c}"}]}`, "a b c"},
		{"remove one by its value", "a b", `{"op":"remove","path":"members[value eq \"{a}\"]"}`, "b"},
		{"remove by or", "a b c", `{"op":"remove","path":"members[value eq \"{a}\" or value eq \"{c}\"]"}`, "b"},
		{"remove by not", "a b c", `{"op":"remove","path":"members[not (value eq \"{a}\")]"}`, "a"},
		{"remove one that is not there", "a", `{"op":"remove","path":"members[value eq \"{b}\"]"}`, "a"},
		{"remove the last", "a", `{"op":"remove","path":"members[value eq \"{a}\"]"}`, ""},
		{"remove all", "a b", `{"op":"remove","path":"members"}`, ""},
		{"replace all", "a b", `{"op":"replace","path":"members","value":[{"value":"{b}"},{"value":"{c}"}]}`, "b c"},
		{"replace all without a path", "a", `{"op":"replace","value":{"members":[{"value":"{b}"}]}}`, "b"},
		{"replace by none", "a b", `{"op":"replace","path":"members","value":[]}`, ""},
		{"several operations", "a", `{"op":"remove","path":"members[value eq \"{a}\"]"},{"op":"add","path":"members","value":[{"value":"{b}"}]},{"op":"add","path":"members","value":[{"value":"{c}"}]},{"op":"remove","path":"members[value eq \"{b}\"]"}`, "c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ids := map[string]string{"a": a, "b": b, "c": c}
			var members []string
			for _, m := range strings.Fields(tc.before) {
				members = append(members, ids[m])
			}
			path := "/Groups/" + admin.CreateGroup(t, scimtest.UniqueName("g"), members...)
			got := admin.Call(t, "PATCH", path, scimtest.PatchBody(replace.Replace(tc.operation))).WantStatus(200)
			read := admin.Call(t, "GET", path, nil).WantStatus(200)
			for _, seen := range []*scimtest.Response{got, read} {
				names := seen.MemberIDs()
				for name, id := range ids {
					if names[id] != strings.Contains(tc.after, name) {
						t.Errorf("%s: member %s: %v, want %q: %s", seen.Request, name, names[id], tc.after, seen.Raw)
					}
				}
			}
			if tc.before == tc.after {
				again := admin.Call(t, "PATCH", path, scimtest.PatchBody(replace.Replace(tc.operation))).WantStatus(200)
				again.Want("meta.version", read.Value("meta.version")).Want("meta.lastModified", read.Value("meta.lastModified"))
			}
			for name, id := range ids {
				in := admin.Find(t, "/Users", fmt.Sprintf(`id eq %q and groups.value eq %q`, id, read.Text("id"))).WantStatus(200)
				if want := strings.Contains(tc.after, name); (in.Value("totalResults") == 1.0) != want {
					t.Errorf("user %s: groups %v, want %v", name, in.Value("totalResults"), want)
				}
			}
		})
	}
}

func TestRFC7644Section3_5_2_RejectedOperationKeepsAllMembers(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	a, b, c := admin.CreateUser(t, scimtest.UniqueName("a")), admin.CreateUser(t, scimtest.UniqueName("b")), admin.CreateUser(t, scimtest.UniqueName("c"))
	path := "/Groups/" + admin.CreateGroup(t, scimtest.UniqueName("g"), a, b)
	before := admin.Call(t, "GET", path, nil)
	for _, tc := range []struct{ operation, scimType string }{
		{`{"op":"add","path":"members","value":[{"type":"User"}]}`, "invalidValue"}, {`{"op":"add","path":"members","value":["x"]}`, "invalidValue"}, {`{"op":"remove","path":"members","value":[{"value":"` + a + `"}]}`, "invalidValue"},
		{`{"op":"replace","path":"members[value eq \"` + a + `\"].value","value":"` + c + `"}`, "mutability"}, {`{"op":"remove","path":"displayName"}`, "mutability"}, {`{"op":"replace","path":"members[value eq \"` + c + `\"]","value":{"value":"` + c + `"}}`, "noTarget"},
	} {
		admin.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"remove","path":"members[value eq \"`+b+`\"]"}`, tc.operation)).WantError(400, tc.scimType, "Operations[1]")
	}
	if now := admin.Call(t, "GET", path, nil).WantStatus(200); string(now.Raw) != string(before.Raw) {
		t.Errorf("before %s, after %s", before.Raw, now.Raw)
	}
}
