package clients_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// profileRows are tests of the rows of the profile table: a deviation is accepted with the profiles of its row
// and rejected with all others.
var profileRows = []struct {
	quirk string
	in    []string
	send  func(t *testing.T, a scimtest.Caller, taken bool)
}{
	{"PATCH of a group answers 204", []string{"Okta", "EntraID"}, groupPatchAnswers},
	{"booleans in quotes", []string{"EntraID"}, booleansInQuotes},
	{"operations in capitals", []string{"EntraID"}, operationsInCapitals},
	{"Remove with the values to be removed", []string{"EntraID"}, removeWithValues},
	{"add or replace where the filter matches nothing", []string{"EntraID"}, filterMatchesNothing},
	{"manager as a plain id", []string{"EntraID"}, managerAsPlainID},
	{"dotted and URN-qualified keys in a value", []string{"EntraID"}, qualifiedKeys},
	{"unknown schemas", []string{"EntraID"}, unknownSchemas},
	{"unknown members of the envelope", []string{"EntraID"}, unknownMembers},
	{"text without quotes in a filter", []string{"EntraID"}, unquotedText},
	{`"" removes a value`, []string{"Okta", "EntraID"}, emptyRemoves},
}

func TestProfileRows(t *testing.T) {
	for _, row := range profileRows {
		t.Run(row.quirk, func(t *testing.T) {
			for profile, key := range scimtest.ProfileKeys {
				t.Run(profile, func(t *testing.T) { row.send(t, acme.WithToken(acme.Token(key)), slices.Contains(row.in, profile)) })
			}
		})
	}
}

// TestEveryProfileRowHasATest checks that profileRows has the rows of apiserver/scim/profile.go.
func TestEveryProfileRowHasATest(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../../../apiserver/scim/profile.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		row, ok := n.(*ast.CompositeLit)
		if !ok || row.Type != nil || len(row.Elts) != 4 {
			return true
		}
		quirk, _ := row.Elts[0].(*ast.BasicLit)
		in, _ := row.Elts[2].(*ast.CompositeLit)
		name, err := strconv.Unquote(quirk.Value)
		if err != nil {
			t.Fatal(err)
		}
		var profiles []string
		for _, p := range in.Elts {
			constant, _ := p.(*ast.Ident)
			profiles = append(profiles, strings.TrimPrefix(constant.Name, "Profile"))
		}
		table[name] = fmt.Sprint(profiles)
		return false
	})
	tests := map[string]string{}
	for _, row := range profileRows {
		tests[row.quirk] = fmt.Sprint(row.in)
	}
	if len(table) == 0 || !maps.Equal(table, tests) {
		t.Errorf("table:\n%v\ntests:\n%v", table, tests)
	}
}

func groupPatchAnswers(t *testing.T, a scimtest.Caller, taken bool) {
	id := a.CreateUser(t, "silent-"+scimtest.RunID())
	g := a.CreateGroup(t, "Silent "+scimtest.RunID())
	add := scimtest.PatchBody(`{"op":"add","path":"members","value":[{"value":"` + id + `"}]}`)
	if got := a.Call(t, "PATCH", "/Groups/"+g, add); taken {
		if got.WantStatus(204); len(got.Raw) > 0 || got.Header.Get("ETag") == "" {
			t.Errorf("body %q, ETag %q", got.Raw, got.Header.Get("ETag"))
		}
	} else {
		got.WantStatus(200).Want("id", g).Want("members.0.value", id)
	}
	a.Call(t, "GET", "/Groups/"+g, nil).WantStatus(200).Want("members.0.value", id)
	// Requested attributes are always returned (RFC 7644 section 3.5.2), and so are users.
	a.Call(t, "PATCH", "/Groups/"+g+"?attributes=externalId", scimtest.PatchBody(`{"op":"add","path":"externalId","value":"e"}`)).WantStatus(200).Want("externalId", "e").Want("members", nil)
	a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"add","path":"title","value":"T"}`)).WantStatus(200).Want("title", "T")
}

// either checks that a request succeeds with a status if the profile accepts it, else that it fails.
func either(a *scimtest.Response, taken bool, status int, refusal string, words ...string) *scimtest.Response {
	a.T.Helper()
	if taken {
		return a.WantStatus(status)
	}
	a.WantError(400, refusal, words...)
	return a
}

func booleansInQuotes(t *testing.T, a scimtest.Caller, taken bool) {
	name := "quoted-" + scimtest.RunID()
	created := either(a.Call(t, "POST", "/Users", `{"userName":"`+name+`","active":"False"}`), taken, 201, "invalidValue", "active")
	if !taken {
		a.Call(t, "GET", `/Users?filter=userName+eq+"`+name+`"`, nil).WantStatus(200).Want("totalResults", 0)
		created = a.Call(t, "POST", "/Users", `{"userName":"`+name+`","active":false}`).WantStatus(201)
	}
	id := created.Want("active", false).Text("id")
	t.Cleanup(func() { a.Delete(t, "/Users/"+id) })
	for _, operation := range []string{`{"op":"replace","path":"active","value":"True"}`, `{"op":"replace","value":{"active":"true"}}`} {
		either(a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(operation)), taken, 200, "invalidValue", "active")
		a.Call(t, "GET", "/Users/"+id, nil).WantStatus(200).Want("active", taken)
		a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","path":"active","value":false}`)).WantStatus(200).Want("active", false)
	}
	a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","path":"active","value":"yes"}`)).WantError(400, "invalidValue", "active")
	if taken {
		a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"add","path":"roles[primary eq \"True\"].value","value":"r"}`)).WantStatus(200).Want("roles.0.primary", true).Want("roles.0.value", "r")
	}
}

func operationsInCapitals(t *testing.T, a scimtest.Caller, taken bool) {
	id := a.CreateUser(t, "capitals-"+scimtest.RunID(), `"title":"T"`, `"nickName":"N"`)
	before := a.Call(t, "GET", "/Users/"+id, nil).WantStatus(200)
	for _, op := range []string{"Add", "Replace", "REPLACE"} {
		either(a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"`+op+`","path":"title","value":"`+op+`"}`)), taken, 200, "invalidSyntax", "Operations[0].op", op)
	}
	either(a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"Remove","path":"nickName"}`)), taken, 200, "invalidSyntax", "Operations[0].op", "Remove")
	after := a.Call(t, "GET", "/Users/"+id, nil).WantStatus(200)
	if !taken && string(after.Raw) != string(before.Raw) {
		t.Errorf("before %s\nafter %s", before.Raw, after.Raw)
	}
	if taken {
		after.Want("title", "REPLACE").Want("nickName", nil)
	}
	a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"Update","path":"title","value":"x"}`)).WantError(400, "invalidSyntax", "Update")
}

func removeWithValues(t *testing.T, a scimtest.Caller, taken bool) {
	run := scimtest.RunID()
	one, two := a.CreateUser(t, "remove1-"+run), a.CreateUser(t, "remove2-"+run, `"emails":[{"value":"a@x.test","type":"work"},{"value":"b@x.test","type":"home"}]`)
	g := a.CreateGroup(t, "Remove "+run, one, two)
	either(a.Call(t, "PATCH", "/Groups/"+g, scimtest.PatchBody(`{"op":"remove","path":"members","value":[{"$ref":null,"value":"`+one+`"}]}`)), taken, 204, "invalidValue", "Operations[0]", "remove takes no value")
	left := a.Call(t, "GET", "/Groups/"+g, nil).WantStatus(200).List("members")
	if want := map[bool]int{true: 1, false: 2}[taken]; len(left) != want {
		t.Errorf("%d members, want %d: %v", len(left), want, left)
	}
	either(a.Call(t, "PATCH", "/Users/"+two, scimtest.PatchBody(`{"op":"remove","path":"emails","value":[{"value":"a@x.test"}]}`)), taken, 200, "invalidValue", "remove takes no value")
	if emails := a.Call(t, "GET", "/Users/"+two, nil).WantStatus(200).List("emails"); taken != (len(emails) == 1 && emails[0]["value"] == "b@x.test") {
		t.Errorf("emails are %v", emails)
	}
	// null is no value (RFC 7643 section 2.5).
	a.Call(t, "PATCH", "/Groups/"+g+"?attributes=members", scimtest.PatchBody(`{"op":"remove","path":"members","value":null}`)).WantStatus(200).Want("members", nil)
}

func unknownMembers(t *testing.T, a scimtest.Caller, taken bool) {
	run := scimtest.RunID()
	id := a.CreateUser(t, "envelope-"+run)
	g := a.CreateGroup(t, "Envelope "+run)
	for _, body := range []string{
		`{"schemas":["` + scimtest.PatchURN + `"],"id":"` + g + `","Operations":[{"op":"add","path":"members","value":[{"value":"` + id + `"}]}]}`,
		scimtest.PatchBody(`{"name":"addMember","op":"add","path":"members","value":[{"value":"` + id + `"}]}`),
		scimtest.PatchBody(`{"op":"add","path":"members","value":[{"displayName":"E","value":"` + id + `"}]}`),
		scimtest.PatchBody(`{"op":"replace","value":{"members":[{"displayName":"E","value":"` + id + `"}]}}`),
	} {
		either(a.Call(t, "PATCH", "/Groups/"+g, body), taken, 204, "invalidSyntax")
		a.Call(t, "GET", "/Groups/"+g, nil).WantStatus(200).Want("members.0.value", map[bool]any{true: id}[taken])
		a.Call(t, "PATCH", "/Groups/"+g+"?attributes=members", scimtest.PatchBody(`{"op":"remove","path":"members"}`)).WantStatus(200).Want("members", nil)
	}
	// Unknown attributes are rejected as always, so that a mistake in a mapping is seen.
	a.Call(t, "PATCH", "/Groups/"+g, scimtest.PatchBody(`{"op":"add","value":{"nothing":"x"}}`)).WantError(400, "invalidSyntax", "nothing")
	a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"add","path":"emails","value":[{"value":"e@x.test","nothing":"x"}]}`)).WantError(400, "invalidSyntax", "nothing")
}

func unquotedText(t *testing.T, a scimtest.Caller, taken bool) {
	name := "unquoted-" + scimtest.RunID()
	id := a.CreateUser(t, name)
	for _, got := range []*scimtest.Response{a.Find(t, "/Users", "userName eq "+name), a.Search(t, "/Users", `"filter":"userName eq `+name+`"`)} {
		if either(got, taken, 200, "invalidFilter", "quotes"); taken {
			got.Want("totalResults", 1).Want("Resources.0.id", id)
		}
	}
}

func filterMatchesNothing(t *testing.T, a scimtest.Caller, taken bool) {
	for _, op := range []string{"add", "replace"} {
		id := a.CreateUser(t, op+"-"+scimtest.RunID(), `"phoneNumbers":[{"value":"1","type":"home"}]`)
		for path, attribute := range map[string]string{
			`emails[type eq \"work\"].value`: "emails", `phoneNumbers[type eq \"work\"].value`: "phoneNumbers", `addresses[type eq \"work\"].postalCode`: "addresses",
		} {
			got := either(a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"`+op+`","path":"`+path+`","value":"x"}`)), taken, 200, "noTarget", "Operations[0].path", attribute)
			if created := got.List(attribute); taken && (len(created) == 0 || created[len(created)-1]["type"] != "work") {
				t.Errorf("%s %s: %s", op, path, got.Raw)
			}
		}
		// The filter must determine the new element.
		a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"`+op+`","path":"ims[type ne \"work\"].value","value":"x"}`)).WantError(400, "noTarget", "ims")
	}
}

func managerAsPlainID(t *testing.T, a scimtest.Caller, taken bool) {
	run := scimtest.RunID()
	boss := a.CreateUser(t, "boss-"+run)
	member := `"` + scimtest.EnterpriseURN + `":{"manager":"` + boss + `"}`
	created := either(a.Call(t, "POST", "/Users", `{"userName":"managed-`+run+`",`+member+`}`), taken, 201, "invalidValue", scimtest.EnterpriseURN+":manager")
	if taken {
		created.Want("["+scimtest.EnterpriseURN+"].manager.value", boss).Want("["+scimtest.EnterpriseURN+"].manager.$ref", acme.BaseURL()+"/Users/"+boss)
		a.Call(t, "DELETE", "/Users/"+created.Text("id"), nil).WantStatus(204)
	}
	id := a.CreateUser(t, "bare-"+run)
	for _, operation := range []string{`{"op":"add","path":"` + scimtest.EnterpriseURN + `:manager","value":"` + boss + `"}`, `{"op":"replace","value":{` + member + `}}`} {
		got := either(a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(operation)), taken, 200, "invalidValue", "manager")
		if taken {
			got.Want("["+scimtest.EnterpriseURN+"].manager.value", boss)
		}
		a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"remove","path":"`+scimtest.EnterpriseURN+`:manager"}`)).WantStatus(200).Want("["+scimtest.EnterpriseURN+"]", nil)
	}
	// A single element for a list.
	either(a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"add","path":"emails","value":"x@x.test"}`)), taken, 200, "invalidValue", "emails")
	// The form of the RFC is always accepted.
	a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"add","path":"`+scimtest.EnterpriseURN+`:manager","value":{"value":"`+boss+`"}}`)).WantStatus(200).Want("["+scimtest.EnterpriseURN+"].manager.value", boss)
}

func qualifiedKeys(t *testing.T, a scimtest.Caller, taken bool) {
	id := a.CreateUser(t, "keys-"+scimtest.RunID(), `"name":{"familyName":"F"}`)
	for key, at := range map[string]string{
		"name.givenName": "name.givenName",
		scimtest.EnterpriseURN + ":employeeNumber": "[" + scimtest.EnterpriseURN + "].employeeNumber",
		scimtest.UserURN + ":title":                "title",
		scimtest.AttributesURN + ":team":           "[" + scimtest.AttributesURN + "].team",
		`emails[type eq \"work\"].value`:           "emails.0.value",
		scimtest.UserURN + ":name.honorificSuffix": "name.honorificSuffix",
		`phoneNumbers[type eq \"x\"].value`:        "phoneNumbers.0.value",
	} {
		// Unknown attributes of known schemas are not unknown schemas.
		got := either(a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","value":{"`+key+`":"x"}}`)), taken, 200, "invalidSyntax", "Operations[0].value")
		if taken {
			got.Want(at, "x").Want("name.familyName", "F")
		}
	}
	a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","value":{"name.nothing":"x"}}`)).WantError(400, "invalidSyntax", "name.nothing")
	a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","value":{"name":{"givenName":"y"}}}`)).WantStatus(200).Want("name.givenName", "y").Want("name.familyName", "F")
}

func unknownSchemas(t *testing.T, a scimtest.Caller, taken bool) {
	const foreign = "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"
	name := "Foreign " + scimtest.RunID()
	created := either(a.Call(t, "POST", "/Groups", `{"schemas":["`+scimtest.GroupURN+`","`+foreign+`"],"displayName":"`+name+`"}`), taken, 201, "invalidSyntax", "schemas[1]", foreign[:40])
	if taken {
		created.Want("schemas.0", scimtest.GroupURN).Want("schemas.1", nil)
		a.Call(t, "DELETE", "/Groups/"+created.Text("id"), nil).WantStatus(204)
	}
	created = either(a.Call(t, "POST", "/Groups", `{"schemas":["`+scimtest.GroupURN+`"],"displayName":"`+name+`","urn:x:other:2.0:Group":{"a":"b"}}`), taken, 201, "invalidSyntax", "urn:x:other:2.0:Group")
	if taken {
		created.Want("[urn:x:other:2.0:Group]", nil)
		a.Call(t, "DELETE", "/Groups/"+created.Text("id"), nil).WantStatus(204)
	}
	// Unknown attributes without a URN, and a missing core schema, are always rejected.
	a.Call(t, "POST", "/Groups", `{"schemas":["`+scimtest.GroupURN+`"],"displayName":"`+name+`","nothing":1}`).WantError(400, "invalidSyntax", "nothing")
	a.Call(t, "POST", "/Groups", `{"schemas":["`+foreign+`"],"displayName":"`+name+`"}`).WantError(400, "invalidSyntax", "schemas")
}

func emptyRemoves(t *testing.T, a scimtest.Caller, taken bool) {
	members := []string{
		`"title":"T"`, `"active":true`, `"emails":[{"value":"a@x.test","primary":true}]`,
		`"` + scimtest.AttributesURN + `":{"level":3}`, `"` + scimtest.EnterpriseURN + `":{"manager":{"value":"m"},"department":"D"}`,
	}
	id := a.CreateUser(t, "empty-"+scimtest.RunID(), members...)
	for path, value := range map[string]string{"emails": "emails.0.value", scimtest.AttributesURN + ":level": "[" + scimtest.AttributesURN + "].level", scimtest.EnterpriseURN + ":manager": "[" + scimtest.EnterpriseURN + "].manager.value"} {
		either(a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","path":"`+path+`","value":""}`)), taken, 200, "invalidValue", strings.TrimPrefix(path, scimtest.EnterpriseURN+":"))
		if got := a.Call(t, "GET", "/Users/"+id, nil).WantStatus(200).Value(value); (got == nil) != taken {
			t.Errorf("%s: %s is %v", path, value, got)
		}
	}
	read := a.Call(t, "GET", "/Users/"+id, nil).WantStatus(200).Text("userName")
	either(a.Call(t, "PUT", "/Users/"+id, `{"userName":"`+read+`","emails":"","`+scimtest.AttributesURN+`":{"level":""}}`), taken, 200, "invalidValue")
	// "" for a string is always no value (RFC 7643 section 2.5 leaves it to the server); required attributes are kept.
	a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"add","path":"title","value":"T"}`, `{"op":"replace","path":"title","value":""}`)).WantStatus(200).Want("title", nil)
	a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","path":"userName","value":""}`)).WantError(400, "invalidValue", "userName")
}

// TestProfileDetection checks that clients are detected only if the credential has no profile.
func TestProfileDetection(t *testing.T) {
	run := scimtest.RunID()
	g := acme.WithToken(acme.Auto).CreateGroup(t, "Marks "+run)
	rename := func(op string) string {
		return scimtest.PatchBody(`{"op":"` + op + `","path":"displayName","value":"Marks ` + run + `"}`)
	}
	for name, c := range map[string]struct {
		body, query string
		header      []string
		auto        int // the status with the key without a profile
		rfc         int
	}{
		"none":                     {rename("replace"), "", nil, 200, 200},
		"Okta's User-Agent":        {rename("replace"), "", []string{"User-Agent", "OKTA SCIM Integration"}, 204, 200},
		"the flag of Entra ID":     {rename("replace"), "?aadOptscim062020", nil, 204, 200},
		"the flag with a value":    {rename("replace"), "?aadOptscim062020=true", nil, 204, 200},
		"operations in capitals":   {rename("Replace"), "", nil, 204, 400},
		"all letters are capitals": {rename("REPLACE"), "", nil, 400, 400},
	} {
		wantStatus(acme.WithToken(acme.Auto).Call(t, "PATCH", "/Groups/"+g+c.query, c.body, c.header...), name, c.auto)
		wantStatus(acme.WithToken(acme.RFC).Call(t, "PATCH", "/Groups/"+g+c.query, c.body, c.header...), name+", RFC", c.rfc)
	}
	// The Okta profile does not accept deviations of Entra ID.
	acme.WithToken(acme.Okta).Call(t, "PATCH", "/Groups/"+g, rename("Replace")).WantError(400, "invalidSyntax", "Replace")
}

func wantStatus(a *scimtest.Response, name string, status int) {
	a.T.Helper()
	if a.Status != status {
		a.T.Errorf("%s: %d, not %d: %s", name, a.Status, status, a.Raw)
	}
}
