package scim_test

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
)

// profileNames are the profiles that a key can be for, with the keys of the tests.
var profileNames = map[string]string{"RFC": "rfc", "Okta": "okta", "EntraID": "entra"}

// profileRows say the table of client profiles a second time: what is taken in the profiles that
// have it, and how it is refused in the others.
var profileRows = []struct {
	quirk string
	in    []string
	send  func(t *testing.T, a as, taken bool)
}{
	{"PATCH of a group answers 204", []string{"Okta", "EntraID"}, groupPatchAnswers},
	{"booleans in quotes", []string{"EntraID"}, booleansInQuotes},
	{"operations in capitals", []string{"EntraID"}, operationsInCapitals},
	{"Remove with the values to be removed", []string{"EntraID"}, removeWithValues},
	{"add or replace where the filter matches nothing", []string{"EntraID"}, filterMatchesNothing},
	{"manager as a plain id", []string{"EntraID"}, managerAsPlainID},
	{"dotted and URN-qualified keys in a value", []string{"EntraID"}, qualifiedKeys},
	{"unknown schemas", []string{"EntraID"}, unknownSchemas},
	{`"" removes a value`, []string{"Okta", "EntraID"}, emptyTakesAway},
}

func TestProfileRows(t *testing.T) {
	for _, row := range profileRows {
		t.Run(row.quirk, func(t *testing.T) {
			for profile, key := range profileNames {
				t.Run(profile, func(t *testing.T) { row.send(t, acme.as(acme.token(key)), slices.Contains(row.in, profile)) })
			}
		})
	}
}

// The rows here are those of apiserver/scim/profile.go, with the same profiles.
func TestEveryProfileRowHasATest(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../../apiserver/scim/profile.go", nil, 0)
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
		t.Errorf("the table has\n%v\nand the tests\n%v", table, tests)
	}
}

func groupPatchAnswers(t *testing.T, a as, taken bool) {
	id := a.user(t, "silent-"+runName())
	g := a.group(t, "Silent "+runName())
	add := patch(`{"op":"add","path":"members","value":[{"value":"` + id + `"}]}`)
	if got := a.call(t, "PATCH", "/Groups/"+g, add); taken {
		if got.is(204); len(got.raw) > 0 || got.header.Get("ETag") == "" {
			t.Errorf("body %q, ETag %q", got.raw, got.header.Get("ETag"))
		}
	} else {
		got.is(200).want("id", g).want("members.0.value", id)
	}
	a.call(t, "GET", "/Groups/"+g, nil).is(200).want("members.0.value", id)
	// Who asks for attributes must get them (RFC 7644 section 3.5.2), and users are always shown.
	a.call(t, "PATCH", "/Groups/"+g+"?attributes=externalId", patch(`{"op":"add","path":"externalId","value":"e"}`)).is(200).want("externalId", "e").want("members", nil)
	a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"add","path":"title","value":"T"}`)).is(200).want("title", "T")
}

// either checks that an answer is taken with a status, or refused.
func (a *answer) either(taken bool, status int, refusal string, words ...string) *answer {
	a.t.Helper()
	if taken {
		return a.is(status)
	}
	a.refused(400, refusal, words...)
	return a
}

func booleansInQuotes(t *testing.T, a as, taken bool) {
	name := "quoted-" + runName()
	created := a.call(t, "POST", "/Users", `{"userName":"`+name+`","active":"False"}`).either(taken, 201, "invalidValue", "active")
	if !taken {
		a.call(t, "GET", `/Users?filter=userName+eq+"`+name+`"`, nil).is(200).want("totalResults", 0)
		created = a.call(t, "POST", "/Users", `{"userName":"`+name+`","active":false}`).is(201)
	}
	id := created.want("active", false).text("id")
	t.Cleanup(func() { a.tidy(t, "/Users/"+id) })
	for _, operation := range []string{`{"op":"replace","path":"active","value":"True"}`, `{"op":"replace","value":{"active":"true"}}`} {
		a.call(t, "PATCH", "/Users/"+id, patch(operation)).either(taken, 200, "invalidValue", "active")
		a.call(t, "GET", "/Users/"+id, nil).is(200).want("active", taken)
		a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"replace","path":"active","value":false}`)).is(200).want("active", false)
	}
	a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"replace","path":"active","value":"yes"}`)).refused(400, "invalidValue", "active")
	if taken {
		a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"add","path":"roles[primary eq \"True\"].value","value":"r"}`)).is(200).want("roles.0.primary", true).want("roles.0.value", "r")
	}
}

func operationsInCapitals(t *testing.T, a as, taken bool) {
	id := a.user(t, "capitals-"+runName(), `"title":"T"`, `"nickName":"N"`)
	before := a.call(t, "GET", "/Users/"+id, nil).is(200)
	for _, op := range []string{"Add", "Replace", "REPLACE"} {
		a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"`+op+`","path":"title","value":"`+op+`"}`)).either(taken, 200, "invalidSyntax", "Operations[0].op", op)
	}
	a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"Remove","path":"nickName"}`)).either(taken, 200, "invalidSyntax", "Operations[0].op", "Remove")
	// So is a request that does not say what it is.
	a.call(t, "PATCH", "/Users/"+id, `{"Operations":[{"op":"replace","path":"displayName","value":"D"}]}`).either(taken, 200, "invalidSyntax", "schemas")
	after := a.call(t, "GET", "/Users/"+id, nil).is(200)
	if !taken && string(after.raw) != string(before.raw) {
		t.Errorf("was %s\nis %s", before.raw, after.raw)
	}
	if taken {
		after.want("title", "REPLACE").want("nickName", nil).want("displayName", "D")
	}
	a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"Update","path":"title","value":"x"}`)).refused(400, "invalidSyntax", "Update")
}

func removeWithValues(t *testing.T, a as, taken bool) {
	run := runName()
	one, two := a.user(t, "remove1-"+run), a.user(t, "remove2-"+run, `"emails":[{"value":"a@x.test","type":"work"},{"value":"b@x.test","type":"home"}]`)
	g := a.group(t, "Remove "+run, one, two)
	a.call(t, "PATCH", "/Groups/"+g, patch(`{"op":"remove","path":"members","value":[{"$ref":null,"value":"`+one+`"}]}`)).either(taken, 204, "invalidValue", "Operations[0]", "remove takes no value")
	left := a.call(t, "GET", "/Groups/"+g, nil).is(200).list("members")
	if want := map[bool]int{true: 1, false: 2}[taken]; len(left) != want {
		t.Errorf("%d members are left, not %d: %v", len(left), want, left)
	}
	a.call(t, "PATCH", "/Users/"+two, patch(`{"op":"remove","path":"emails","value":[{"value":"a@x.test"}]}`)).either(taken, 200, "invalidValue", "remove takes no value")
	if emails := a.call(t, "GET", "/Users/"+two, nil).is(200).list("emails"); taken != (len(emails) == 1 && emails[0]["value"] == "b@x.test") {
		t.Errorf("emails are %v", emails)
	}
	// null lists nothing: it is never taken for "all".
	a.call(t, "PATCH", "/Groups/"+g, patch(`{"op":"remove","path":"members","value":null}`)).refused(400, "invalidValue")
	a.call(t, "GET", "/Groups/"+g, nil).is(200).want("members.0.value", left[0]["value"])
}

func filterMatchesNothing(t *testing.T, a as, taken bool) {
	for _, op := range []string{"add", "replace"} {
		id := a.user(t, op+"-"+runName(), `"phoneNumbers":[{"value":"1","type":"home"}]`)
		for path, attribute := range map[string]string{
			`emails[type eq \"work\"].value`: "emails", `phoneNumbers[type eq \"work\"].value`: "phoneNumbers", `addresses[type eq \"work\"].postalCode`: "addresses",
		} {
			got := a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"`+op+`","path":"`+path+`","value":"x"}`)).either(taken, 200, "noTarget", "Operations[0].path", attribute)
			if created := got.list(attribute); taken && (len(created) == 0 || created[len(created)-1]["type"] != "work") {
				t.Errorf("%s %s: %s", op, path, got.raw)
			}
		}
		// What the new value would be must follow from the filter.
		a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"`+op+`","path":"ims[type ne \"work\"].value","value":"x"}`)).refused(400, "noTarget", "ims")
	}
}

func managerAsPlainID(t *testing.T, a as, taken bool) {
	run := runName()
	boss := a.user(t, "boss-"+run)
	member := `"` + enterpriseURN + `":{"manager":"` + boss + `"}`
	created := a.call(t, "POST", "/Users", `{"userName":"managed-`+run+`",`+member+`}`).either(taken, 201, "invalidValue", enterpriseURN+":manager")
	if taken {
		created.want("["+enterpriseURN+"].manager.value", boss).want("["+enterpriseURN+"].manager.$ref", acme.base()+"/Users/"+boss)
		a.call(t, "DELETE", "/Users/"+created.text("id"), nil).is(204)
	}
	id := a.user(t, "bare-"+run)
	for _, operation := range []string{`{"op":"add","path":"` + enterpriseURN + `:manager","value":"` + boss + `"}`, `{"op":"replace","value":{` + member + `}}`} {
		got := a.call(t, "PATCH", "/Users/"+id, patch(operation)).either(taken, 200, "invalidValue", "manager")
		if taken {
			got.want("["+enterpriseURN+"].manager.value", boss)
		}
		a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"remove","path":"`+enterpriseURN+`:manager"}`)).is(200).want("["+enterpriseURN+"]", nil)
	}
	// So is one element, for a list of one.
	a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"add","path":"emails","value":"x@x.test"}`)).either(taken, 200, "invalidValue", "emails")
	// The form of the RFC is taken everywhere.
	a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"add","path":"`+enterpriseURN+`:manager","value":{"value":"`+boss+`"}}`)).is(200).want("["+enterpriseURN+"].manager.value", boss)
}

func qualifiedKeys(t *testing.T, a as, taken bool) {
	id := a.user(t, "keys-"+runName(), `"name":{"familyName":"F"}`)
	for key, at := range map[string]string{
		"name.givenName":                    "name.givenName",
		enterpriseURN + ":employeeNumber":   "[" + enterpriseURN + "].employeeNumber",
		userURN + ":title":                  "title",
		attributesURN + ":team":             "[" + attributesURN + "].team",
		`emails[type eq \"work\"].value`:    "emails.0.value",
		userURN + ":name.honorificSuffix":   "name.honorificSuffix",
		`phoneNumbers[type eq \"x\"].value`: "phoneNumbers.0.value",
	} {
		// Where unknown schemas are passed over, a key with a URN must still be told from these.
		got := a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"replace","value":{"`+key+`":"x"}}`)).either(taken, 200, "invalidSyntax", "Operations[0].value")
		if taken {
			got.want(at, "x").want("name.familyName", "F")
		}
	}
	a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"replace","value":{"name.nothing":"x"}}`)).refused(400, "invalidSyntax", "name.nothing")
	a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"replace","value":{"name":{"givenName":"y"}}}`)).is(200).want("name.givenName", "y").want("name.familyName", "F")
}

func unknownSchemas(t *testing.T, a as, taken bool) {
	const foreign = "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"
	name := "Foreign " + runName()
	created := a.call(t, "POST", "/Groups", `{"schemas":["`+groupURN+`","`+foreign+`"],"displayName":"`+name+`"}`).either(taken, 201, "invalidSyntax", "schemas[1]", foreign[:40])
	if taken {
		created.want("schemas.0", groupURN).want("schemas.1", nil)
		a.call(t, "DELETE", "/Groups/"+created.text("id"), nil).is(204)
	}
	created = a.call(t, "POST", "/Groups", `{"schemas":["`+groupURN+`"],"displayName":"`+name+`","urn:x:other:2.0:Group":{"a":"b"}}`).either(taken, 201, "invalidSyntax", "urn:x:other:2.0:Group")
	if taken {
		created.want("[urn:x:other:2.0:Group]", nil)
		a.call(t, "DELETE", "/Groups/"+created.text("id"), nil).is(204)
	}
	// What is in no schema and has no URN is refused everywhere, and so is the lack of the own one.
	a.call(t, "POST", "/Groups", `{"schemas":["`+groupURN+`"],"displayName":"`+name+`","nothing":1}`).refused(400, "invalidSyntax", "nothing")
	a.call(t, "POST", "/Groups", `{"schemas":["`+foreign+`"],"displayName":"`+name+`"}`).refused(400, "invalidSyntax", "schemas")
}

func emptyTakesAway(t *testing.T, a as, taken bool) {
	members := []string{
		`"title":"T"`, `"active":true`, `"emails":[{"value":"a@x.test","primary":true}]`,
		`"` + attributesURN + `":{"level":3}`, `"` + enterpriseURN + `":{"manager":{"value":"m"},"department":"D"}`,
	}
	id := a.user(t, "empty-"+runName(), members...)
	for path, value := range map[string]string{"emails": "emails.0.value", attributesURN + ":level": "[" + attributesURN + "].level", enterpriseURN + ":manager": "[" + enterpriseURN + "].manager.value"} {
		a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"replace","path":"`+path+`","value":""}`)).either(taken, 200, "invalidValue", strings.TrimPrefix(path, enterpriseURN+":"))
		if got := a.call(t, "GET", "/Users/"+id, nil).is(200).at(value); (got == nil) != taken {
			t.Errorf("%s: %s is %v", path, value, got)
		}
	}
	read := a.call(t, "GET", "/Users/"+id, nil).is(200).text("userName")
	a.call(t, "PUT", "/Users/"+id, `{"userName":"`+read+`","emails":"","`+attributesURN+`":{"level":""}}`).either(taken, 200, "invalidValue")
	// "" for a text is no value everywhere (RFC 7643 section 2.5 leaves it to the server), and what is required stays.
	a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"add","path":"title","value":"T"}`, `{"op":"replace","path":"title","value":""}`)).is(200).want("title", nil)
	a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"replace","path":"userName","value":""}`)).refused(400, "invalidValue", "userName")
}

// Without a profile of its own a credential is treated by the client's marks; with one, they mean nothing.
func TestProfileByMarks(t *testing.T) {
	run := runName()
	g := acme.as(acme.auto).group(t, "Marks "+run)
	rename := func(op string) string {
		return patch(`{"op":"` + op + `","path":"displayName","value":"Marks ` + run + `"}`)
	}
	for name, c := range map[string]struct {
		body, query string
		header      []string
		auto        int // the status with the key without a profile
		rfc         int
	}{
		"no mark":                  {rename("replace"), "", nil, 200, 200},
		"Okta's User-Agent":        {rename("replace"), "", []string{"User-Agent", "OKTA SCIM Integration"}, 204, 200},
		"the flag of Entra ID":     {rename("replace"), "?aadOptscim062020", nil, 204, 200},
		"the flag with a value":    {rename("replace"), "?aadOptscim062020=true", nil, 204, 200},
		"operations in capitals":   {rename("Replace"), "", nil, 204, 400},
		"all letters are capitals": {rename("REPLACE"), "", nil, 400, 400},
	} {
		acme.as(acme.auto).call(t, "PATCH", "/Groups/"+g+c.query, c.body, c.header...).markedIs(name, c.auto)
		acme.as(acme.rfc).call(t, "PATCH", "/Groups/"+g+c.query, c.body, c.header...).markedIs(name+", RFC", c.rfc)
	}
	// Okta's key does not make of Okta what only Entra ID may do.
	acme.as(acme.okta).call(t, "PATCH", "/Groups/"+g, rename("Replace")).refused(400, "invalidSyntax", "Replace")
}

func (a *answer) markedIs(name string, status int) {
	a.t.Helper()
	if a.status != status {
		a.t.Errorf("%s: %d, not %d: %s", name, a.status, status, a.raw)
	}
}
