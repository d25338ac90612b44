package patch

import (
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// row is a test of a PATCH of example or group.
type row struct {
	name string
	// source is the source of the request: a section of RFC 7644, or a client.
	source string
	quirks Quirks
	ops    string
	// change applies the expected change to the body of the document; nil for no change.
	change func(body map[string]any)
}

func check(t *testing.T, kind *schema.ResourceType, body string, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name+" ("+r.source+")", func(t *testing.T) {
			want := decode(t, body).(map[string]any)
			if r.change != nil {
				r.change(want)
			}
			expected, err := kind.Normalize(want, schema.Leniency{})
			if err != nil {
				t.Fatal(err)
			}
			d := document(t, kind, body)
			changed, err := run(t, kind, d, r.ops, r.quirks)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(expected, d); diff != "" {
				t.Errorf("document (-want +got):\n%s", diff)
			}
			if changed != (r.change != nil) {
				t.Errorf("changed is %t", changed)
			}
		})
	}
}

// put returns a change that sets an attribute to a JSON value, or removes it if the value is empty.
func put(name, value string) func(map[string]any) {
	return func(body map[string]any) {
		if delete(body, name); value != "" {
			decoded, err := decodeValue(value)
			if err != nil {
				panic(err)
			}
			body[name] = decoded
		}
	}
}

func both(changes ...func(map[string]any)) func(map[string]any) {
	return func(body map[string]any) {
		for _, change := range changes {
			change(body)
		}
	}
}

const enterprise = schema.EnterpriseURN

// An extension may name its schema, as resources do (docs/decisions/0039).
func TestExtensionThatNamesItsSchema(t *testing.T) {
	check(t, schema.User, example, []row{
		{"add of an extension that names its schema", "RFC 7643 3", strict,
			`{"op":"add","value":{"` + enterprise + `":{"schemas":["` + enterprise + `"],"division":"D"}}}`,
			put(enterprise, `{"employeeNumber":"701984","manager":{"value":"26118915"},"division":"D"}`)},
		{"replace of an extension that names its schema", "RFC 7643 3", strict,
			`{"op":"replace","path":"` + enterprise + `","value":{"schemas":["` + enterprise + `"],"division":"D"}}`,
			put(enterprise, `{"employeeNumber":"701984","manager":{"value":"26118915"},"division":"D"}`)},
	})
}

func TestUserAsRFC7644(t *testing.T) {
	const home = `{"value":"babs@jensen.org","type":"home"}`
	const work = `{"value":"bjensen@example.com","type":"work","primary":true}`
	check(t, schema.User, example, []row{
		{"attributes without a path", "3.5.2.1", strict,
			`{"op":"add","value":{"emails":[{"value":"x@jensen.org","type":"other"}],"nickname":"Babs"}}`,
			both(put("emails", `[`+work+`,`+home+`,{"value":"x@jensen.org","type":"other"}]`), put("nickName", `"Babs"`))},
		{"add to a complex attribute merges", "3.5.2.1", strict, `{"op":"add","path":"name","value":{"middleName":"J"}}`,
			put("name", `{"givenName":"Barbara","familyName":"Jensen","middleName":"J"}`)},
		{"add replaces a single value", "3.5.2.1", strict, `{"op":"add","path":"displayName","value":"B"}`, put("displayName", `"B"`)},
		{"add of what is there", "3.5.2.1", strict, `{"op":"add","path":"emails","value":[` + home + `]}`, nil},
		{"add of one object to many", "3.5.2.1", strict, `{"op":"add","path":"emails","value":{"value":"x@y"}}`,
			put("emails", `[`+work+`,`+home+`,{"value":"x@y"}]`)},
		{"add of an empty list", "3.5.2.1", strict, `{"op":"add","path":"emails","value":[]}`, nil},
		{"add to a matched element merges", "3.5.2.1", strict, `{"op":"add","path":"emails[type eq \"home\"]","value":{"display":"H"}}`,
			put("emails", `[`+work+`,{"value":"babs@jensen.org","type":"home","display":"H"}]`)},
		{"add through a qualified name", "3.5.2.1", strict, `{"op":"add","path":"` + enterprise + `:division","value":"D"}`,
			put(enterprise, `{"employeeNumber":"701984","manager":{"value":"26118915"},"division":"D"}`)},
		{"a new primary", "3.5.2", strict, `{"op":"add","path":"emails","value":[{"value":"p@x","primary":true}]}`,
			put("emails", `[{"value":"bjensen@example.com","type":"work","primary":false},`+home+`,{"value":"p@x","primary":true}]`)},
		{"another primary by path", "3.5.2", strict, `{"op":"replace","path":"emails[type eq \"home\"].primary","value":true}`,
			put("emails", `[{"value":"bjensen@example.com","type":"work","primary":false},{"value":"babs@jensen.org","type":"home","primary":true}]`)},
		{"remove with a filter", "3.5.2.2", strict, `{"op":"remove","path":"emails[type eq \"work\" and value ew \"example.com\"]"}`, put("emails", `[`+home+`]`)},
		{"remove of a multi-valued attribute", "3.5.2.2", strict, `{"op":"remove","path":"emails"}`, put("emails", ``)},
		{"remove of a single value", "3.5.2.2", strict, `{"op":"remove","path":"displayName"}`, put("displayName", ``)},
		{"remove of a sub-attribute", "3.5.2.2", strict, `{"op":"remove","path":"name.givenName"}`, put("name", `{"familyName":"Jensen"}`)},
		{"remove of the last sub-attributes", "3.5.2.2", strict, `{"op":"remove","path":"name.givenName"},{"op":"remove","path":"name.familyName"}`, put("name", ``)},
		{"remove of an element's sub-attribute", "3.5.2.2", strict, `{"op":"remove","path":"addresses[type eq \"work\"].locality"}`,
			put("addresses", `[{"type":"work","streetAddress":"100 Universal City Plaza"}]`)},
		{"remove of an element's last sub-attributes", "3.5.2.2", strict,
			`{"op":"remove","path":"roles[value eq \"admin\"].primary"},{"op":"remove","path":"roles[value eq \"admin\"].value"}`, put("roles", ``)},
		{"remove of an extension", "3.5.2.2", strict, `{"op":"remove","path":"` + enterprise + `"}`, put(enterprise, ``)},
		{"remove of what is not there", "3.5.2.2", strict, `{"op":"remove","path":"emails[type eq \"x\"]"},{"op":"remove","path":"title"},{"op":"remove","path":"photos.value"}`, nil},
		{"replace without a path", "3.5.2.3", strict,
			`{"op":"replace","value":{"emails":[{"value":"bjensen@example.com","type":"work","primary":true}],"nickname":"Babs"}}`,
			both(put("emails", `[`+work+`]`), put("nickName", `"Babs"`))},
		{"replace of a matched element", "3.5.2.3", strict,
			`{"op":"replace","path":"addresses[type eq \"work\"]","value":{"type":"work","streetAddress":"911 Universal City Plaza","country":"US"}}`,
			put("addresses", `[{"type":"work","streetAddress":"911 Universal City Plaza","country":"US"}]`)},
		{"replace of an element's sub-attribute", "3.5.2.3", strict, `{"op":"replace","path":"addresses[type eq \"work\"].streetAddress","value":"1010 Broadway Ave"}`,
			put("addresses", `[{"type":"work","streetAddress":"1010 Broadway Ave","locality":"Hollywood"}]`)},
		{"replace of some sub-attributes leaves the others", "3.5.2.3", strict, `{"op":"replace","path":"name","value":{"givenName":"B","familyName":null}}`, put("name", `{"givenName":"B"}`)},
		{"replace of what is not there adds", "3.5.2.3", strict, `{"op":"replace","path":"name.middleName","value":"J"}`,
			put("name", `{"givenName":"Barbara","familyName":"Jensen","middleName":"J"}`)},
		{"replace with what is there", "3.5.2.3", strict, `{"op":"replace","value":{"emails":[` + work + `,` + home + `],"active":true,"name":{"givenName":"Barbara"}}}`, nil},
		{"replace with null", "RFC 7643 2.5", strict, `{"op":"replace","path":"displayName","value":null}`, put("displayName", ``)},
		{"replace with an empty list", "RFC 7643 2.5", strict, `{"op":"replace","path":"emails","value":[]}`, put("emails", ``)},
		{"replace of an extension's attributes", "3.5.2.3", strict, `{"op":"replace","path":"` + enterprise + `","value":{"employeeNumber":"1","MANAGER":null}}`,
			put(enterprise, `{"employeeNumber":"1"}`)},
		{"core attributes under their URN", "3.10", strict, `{"op":"replace","value":{"` + schema.UserURN + `":{"title":"T"}}},{"op":"add","path":"` + schema.UserURN + `:NAME.givenname","value":"B"}`,
			both(put("title", `"T"`), put("name", `{"givenName":"B","familyName":"Jensen"}`))},
		{"the core URN as a path", "3.10", strict, `{"op":"add","path":"` + schema.UserURN + `","value":{"title":"T"}}`, put("title", `"T"`)},
		{"there and back", "3.5.2.1", strict, `{"op":"replace","path":"title","value":"T"},{"op":"remove","path":"title"}`, nil},
		{"a sub-attribute of all elements", "3.5.2", strict, `{"op":"replace","path":"emails.display","value":"E"}`,
			put("emails", `[{"value":"bjensen@example.com","type":"work","primary":true,"display":"E"},{"value":"babs@jensen.org","type":"home","display":"E"}]`)},
		{"a sub-attribute without elements", "3.5.2.3", strict, `{"op":"replace","path":"phoneNumbers.value","value":"1"}`, put("phoneNumbers", `[{"value":"1"}]`)},
		{"elements made the same are one", "3.5.2.3", strict, `{"op":"replace","path":"emails[value pr]","value":{"value":"x","primary":true}}`, put("emails", `[{"value":"x","primary":true}]`)},
	})
}

func TestUserAsOktaAndEntra(t *testing.T) {
	const home = `{"value":"babs@jensen.org","type":"home"}`
	const manager = enterprise + ":manager"
	check(t, schema.User, example, []row{
		{"deactivate without a path", "Okta 2.1", okta, `{"op":"replace","value":{"active":false}}`, put("active", `false`)},
		{"read-only values in an object", "Okta 2.1", okta,
			`{"op":"replace","value":{"id":"1","meta":{"resourceType":"User"},"schemas":["x"],"groups":[],"password":"secret","active":true}}`, nil},
		{"a password", "Okta 2.1", okta, `{"op":"replace","path":"password","value":"secret"},{"op":"remove","path":"password"}`, nil},
		{"Add on a filter that matches nothing", "Entra 2.2", entra, `{"op":"Add","path":"phoneNumbers[type eq \"work\"].value","value":"1"}`, put("phoneNumbers", `[{"type":"work","value":"1"}]`)},
		{"Replace on a filter that matches nothing", "Entra 2.2", entra, `{"op":"Replace","path":"phoneNumbers[type eq \"mobile\"].value","value":"1"}`, put("phoneNumbers", `[{"type":"mobile","value":"1"}]`)},
		{"a quoted boolean in a filter", "Entra 2.2", entra, `{"op":"Replace","path":"roles[primary eq \"True\"].value","value":"user"}`, put("roles", `[{"value":"user","primary":true}]`)},
		{"a quoted boolean in a filter that matches nothing", "Entra 2.2", entra, `{"op":"Add","path":"entitlements[primary eq \"True\"].value","value":"e"}`, put("entitlements", `[{"value":"e","primary":true}]`)},
		{"two terms that match nothing", "Entra 2.2", entra, `{"op":"Add","path":"addresses[type eq \"home\" and country eq \"DE\"].postalCode","value":"1"}`,
			put("addresses", `[{"type":"work","streetAddress":"100 Universal City Plaza","locality":"Hollywood"},{"type":"home","country":"DE","postalCode":"1"}]`)},
		{"an element that matches nothing, whole", "Entra 2.2", entra, `{"op":"Replace","path":"ims[type eq \"x\"]","value":{"value":"v"}}`, put("ims", `[{"type":"x","value":"v"}]`)},
		{"no value for what is not there", "Entra 2.2", entra, `{"op":"Replace","path":"ims[type eq \"x\"].value","value":""}`, nil},
		{"disable with a string", "Entra 2.2", entra, `{"op":"Replace","path":"active","value":"False"}`, put("active", `false`)},
		{"the same with a string", "Entra 2.2", entra, `{"op":"Replace","path":"active","value":"True"}`, nil},
		{"a manager as a string", "Entra 2.2", entra, `{"op":"Add","path":"` + manager + `","value":"m2"}`, put(enterprise, `{"employeeNumber":"701984","manager":{"value":"m2"}}`)},
		{"a manager that is empty", "Entra 2.2", entra, `{"op":"Replace","path":"` + manager + `","value":""}`, put(enterprise, `{"employeeNumber":"701984"}`)},
		{"Remove of a manager", "Entra 2.2", entra, `{"op":"Remove","path":"` + manager + `"}`, put(enterprise, `{"employeeNumber":"701984"}`)},
		{"Remove of a manager by value", "Entra 2.2", entra, `{"op":"Remove","path":"` + manager + `","value":[{"$ref":null,"value":"26118915"}]}`, put(enterprise, `{"employeeNumber":"701984"}`)},
		{"Remove of another manager", "Entra 2.2", entra, `{"op":"Remove","path":"` + manager + `","value":"other"}`, nil},
		{"null update with an empty string", "Entra 1.7", entra, `{"op":"Replace","path":"displayName","value":""},{"op":"Replace","path":"active","value":""}`, put("displayName", ``)},
		{"remove of active keeps it", "0039", strict, `{"op":"remove","path":"active"},{"op":"replace","path":"active","value":null},{"op":"replace","value":{"active":[]}}`, nil},
		{"remove with null", "RFC 7643 2.5", strict, `{"op":"remove","path":"displayName","value":null}`, put("displayName", ``)},
		{"null update with null", "Entra 1.7", entra, `{"op":"Replace","path":"name.givenName","value":null}`, put("name", `{"familyName":"Jensen"}`)},
		{"keys that are paths", "Entra 2.2", entra,
			`{"op":"replace","value":{"displayName":"D","name.givenName":"G","` + enterprise + `:employeeNumber":"7","` + schema.UserURN + `:title":"T","emails[type eq \"work\"].value":"w@x","urn:other:x":1}}`,
			both(put("displayName", `"D"`), put("title", `"T"`), put("name", `{"givenName":"G","familyName":"Jensen"}`),
				put(enterprise, `{"employeeNumber":"7","manager":{"value":"26118915"}}`),
				put("emails", `[{"value":"w@x","type":"work","primary":true},`+home+`]`))},
		{"different attributes", "Entra 1.6 preview", entra, `{"op":"remove","path":"displayName"},{"op":"add","path":"title","value":"T"},{"op":"replace","path":"name.givenName","value":"G"}`,
			both(put("displayName", ``), put("title", `"T"`), put("name", `{"givenName":"G","familyName":"Jensen"}`))},
		{"the same attribute", "Entra 1.6 preview", entra, `{"op":"remove","path":"externalId"},{"op":"add","path":"externalId","value":"x"},{"op":"replace","path":"externalId","value":"y"}`, put("externalId", `"y"`)},
		{"Remove of what is listed", "Entra 2.2", entra, `{"op":"Remove","path":"emails","value":[{"value":"BABS@jensen.org"}]},{"op":"Remove","path":"roles","value":[{"value":"nobody"}]}`,
			put("emails", `[{"value":"bjensen@example.com","type":"work","primary":true}]`)},
		{"Remove of what is listed by its type", "Entra 2.2", entra, `{"op":"Remove","path":"emails","value":[{"type":"work"}]}`, put("emails", `[`+home+`]`)},
		{"Remove of an element's value", "Entra 2.2", entra, `{"op":"Remove","path":"emails[type eq \"home\"].value","value":"other"},{"op":"Remove","path":"emails[type eq \"work\"].value","value":"bjensen@example.com"}`,
			put("emails", `[{"type":"work","primary":true},`+home+`]`)},
	})
}

// TestForeignSubAttributes checks that members of a reference that are no sub-attributes of it are ignored where it is changed, too.
func TestForeignSubAttributes(t *testing.T) {
	const manager = enterprise + ":manager"
	foreign := entra
	foreign.ForeignSubAttributes = true
	changed := put(enterprise, `{"employeeNumber":"701984","manager":{"value":"m2"}}`)
	check(t, schema.User, example, []row{
		{"a manager", "Entra 2.2", foreign, `{"op":"Replace","path":"` + manager + `","value":{"value":"m2","mail":"m@x"}}`, changed},
		{"a manager without a path", "Entra 2.2", foreign, `{"op":"Add","value":{"` + manager + `":{"value":"m2","mail":"m@x"}}}`, changed},
		{"only others", "Entra 2.2", foreign, `{"op":"Add","path":"` + manager + `","value":{"mail":"m@x"}}`, nil},
	})
	check(t, club, group, []row{
		{"a member that the path selects", "Entra 2.2", foreign, `{"op":"Add","path":"members[value eq \"b\"]","value":{"display":"B","mail":"b@x"}}`,
			put("members", `[{"value":"a","display":"Babs"},{"value":"b","display":"B"}]`)},
		{"a member that no path selects", "Entra 2.2", foreign, `{"op":"Add","path":"members[value eq \"c\"]","value":{"display":"C","mail":"c@x"}}`,
			put("members", `[{"value":"a","display":"Babs"},{"value":"b"},{"value":"c","display":"C"}]`)},
	})
}

func TestGroupInDocument(t *testing.T) {
	check(t, club, group, []row{
		{"add of members", "3.5.2.1", strict, `{"op":"add","path":"members","value":[{"display":"C","$ref":"https://example.com/v2/Users/c","value":"c"}]}`,
			put("members", `[{"value":"a","display":"Babs"},{"value":"b"},{"value":"c","display":"C"}]`)},
		{"add of members that are there", "3.5.2.1", strict, `{"op":"add","path":"members","value":[{"value":"a"},{"value":"b","$ref":null}]}`, nil},
		{"remove of a member", "3.5.2.2", strict, `{"op":"remove","path":"members[value eq \"a\"]"}`, put("members", `[{"value":"b"}]`)},
		{"remove of all members", "3.5.2.2", strict, `{"op":"remove","path":"members"}`, put("members", ``)},
		{"remove and add", "3.5.2.2", strict, `{"op":"remove","path":"members[value eq \"a\"]"},{"op":"add","path":"members","value":[{"value":"c"}]}`, put("members", `[{"value":"b"},{"value":"c"}]`)},
		{"replace of all members", "3.5.2.2", strict, `{"op":"replace","path":"members","value":[{"value":"b"},{"value":"c"}]}`, put("members", `[{"value":"b"},{"value":"c"}]`)},
		{"replace with the same members", "3.5.2.3", strict, `{"op":"replace","path":"members","value":[{"value":"b"},{"value":"a"}]}`, nil},
		{"rename with the id", "Okta 2.1", okta, `{"op":"replace","value":{"id":"gid","displayName":"X"}}`, put("displayName", `"X"`)},
		{"Add with a reference of null", "Entra 2.2", entra, `{"op":"Add","path":"members","value":[{"$ref":null,"value":"c"}]}`, put("members", `[{"value":"a","display":"Babs"},{"value":"b"},{"value":"c"}]`)},
		{"Remove with a list", "Entra 2.2", entra, `{"op":"Remove","path":"members","value":[{"$ref":null,"value":"a"}]}`, put("members", `[{"value":"b"}]`)},
		{"Remove with an empty list", "Entra 2.2", entra, `{"op":"Remove","path":"members","value":[]}`, nil},
		{"Remove twice", "Entra 2.2", entra, `{"op":"Remove","path":"members","value":[{"value":"x"}]}`, nil},
		{"a member as a string", "Entra 2.2", entra, `{"op":"Add","path":"members","value":"c"}`, put("members", `[{"value":"a","display":"Babs"},{"value":"b"},{"value":"c"}]`)},
	})
}

// TestRemoveFoldsCase checks that a remove matches listed values with the same case folding as filters.
func TestRemoveFoldsCase(t *testing.T) {
	removes := func(stored, listed string) bool {
		d := schema.Document{"userName": "u", "emails": []any{map[string]any{"value": stored}}}
		op := Operation{Op: remove, Path: "emails", HasPath: true, Value: []any{map[string]any{"value": listed}}, HasValue: true}
		if err := Apply(schema.User, d, []Operation{op}, entra); err != nil {
			t.Fatalf("%q and %q: %v", stored, listed, err)
		}
		return d["emails"] == nil
	}
	letters := 0
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if next := unicode.SimpleFold(r); next != r {
			letters++
			if !removes("x"+string(r), "X"+string(next)) {
				t.Errorf("%q does not match %q", next, r)
			}
		}
	}
	if letters < 2000 {
		t.Errorf("only %d letters", letters)
	}
	for stored, listed := range map[string]string{"admİn": "admin", "admın": "admin", "straße": "strasse"} {
		if removes(stored, listed) {
			t.Errorf("%q matches %q", listed, stored)
		}
	}
}

func TestAddIsBounded(t *testing.T) {
	// Elements without a value: each is compared with all others.
	var list []string
	for i := range 9000 {
		list = append(list, `{"streetAddress":"`+strings.Repeat("x", i%7)+string(rune('a'+i%26))+`","postalCode":"`+strings.Repeat("1", i/26)+`"}`)
	}
	d := document(t, schema.User, example)
	_, err := run(t, schema.User, d, `{"op":"add","path":"addresses","value":[`+strings.Join(list, ",")+`]}`, strict)
	if got := typeOf(t, err); got != "413" {
		t.Errorf("got %v", err)
	}
}
