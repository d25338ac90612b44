package scim_test

import (
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// change is the effect of operations on a user: before are members of its body, after the expected members;
// null means none.
type change struct {
	name, before string
	operations   []string
	after        string
}

const (
	work  = `{"value":"w@x","type":"work","primary":true}`
	home  = `{"value":"h@x","type":"home"}`
	mails = `"emails":[` + work + `,` + home + `]`
	ada   = `"name":{"givenName":"Ada","familyName":"L"}`
	ext   = `"` + scimtest.AttributesURN + `":`
	ent   = `"` + scimtest.EnterpriseURN + `":`
)

func op(members string) []string { return []string{`{` + members + `}`} }

// Section 3.5.2.1: add.
var additions = []change{
	{"to what is not there", ``, op(`"op":"add","path":"title","value":"T"`), `{"title":"T"}`},
	{"to what has one value replaces it", `"title":"S"`, op(`"op":"add","path":"title","value":"T"`), `{"title":"T"}`},
	{"without a path the members of the value are added", `"title":"S",` + mails, op(`"op":"add","value":{"title":"T","nickName":"N","emails":[{"value":"n@x"}]}`), `{"title":"T","nickName":"N","emails":[` + work + `,` + home + `,{"value":"n@x"}]}`},
	{"the figure of the RFC: emails and nickname without a path", ``, op(`"op":"add","value":{"emails":[{"value":"babs@jensen.org","type":"home"}],"nickname":"Babs"}`), `{"nickName":"Babs","emails":[{"value":"babs@jensen.org","type":"home"}]}`},
	{"to many values adds one", mails, op(`"op":"add","path":"emails","value":[{"value":"n@x"}]`), `{"emails":[` + work + `,` + home + `,{"value":"n@x"}]}`},
	{"a value that is no list adds one too", mails, op(`"op":"add","path":"emails","value":{"value":"n@x"}`), `{"emails":[` + work + `,` + home + `,{"value":"n@x"}]}`},
	{"a value that is there already is not added", mails, op(`"op":"add","path":"emails","value":[` + home + `]`), `{` + mails + `}`},
	{"to a complex attribute leaves the sub-attributes that are not named", ada, op(`"op":"add","path":"name","value":{"givenName":"A","middleName":"M"}`), `{"name":{"givenName":"A","middleName":"M","familyName":"L"}}`},
	{"to a sub-attribute", ada, op(`"op":"add","path":"name.middleName","value":"M"`), `{"name":{"givenName":"Ada","familyName":"L","middleName":"M"}}`},
	{"to a sub-attribute of what is not there", ``, op(`"op":"add","path":"name.givenName","value":"A"`), `{"name":{"givenName":"A"}}`},
	{"to a sub-attribute of the elements that a filter chooses", mails, op(`"op":"add","path":"emails[type eq \"home\"].display","value":"H"`), `{"emails":[` + work + `,{"value":"h@x","type":"home","display":"H"}]}`},
	{"a primary value takes it from the others", mails, op(`"op":"add","path":"emails","value":[{"value":"n@x","primary":true}]`), `{"emails":[{"value":"w@x","type":"work","primary":false},` + home + `,{"value":"n@x","primary":true}]}`},
	{"to an attribute of an extension adds its URN to schemas", ``, op(`"op":"add","path":"` + scimtest.EnterpriseURN + `:department","value":"D"`), `{` + ent + `{"department":"D"},"schemas":["` + scimtest.UserURN + `","` + scimtest.EnterpriseURN + `"]}`},
	{"to an extension as a whole", ent + `{"costCenter":"c"}`, op(`"op":"add","path":"` + scimtest.EnterpriseURN + `","value":{"department":"D"}`), `{` + ent + `{"costCenter":"c","department":"D"}}`},
	{"of an extension without a path", ``, op(`"op":"add","value":{"` + scimtest.EnterpriseURN + `":{"department":"D"},` + ext + `{"level":5}}`), `{` + ent + `{"department":"D"},` + ext + `{"level":5},"schemas":["` + scimtest.UserURN + `","` + scimtest.EnterpriseURN + `","` + scimtest.AttributesURN + `"]}`},
	{"to a declared list", ext + `{"tags":["a"]}`, op(`"op":"add","path":"` + scimtest.AttributesURN + `:tags","value":["b","a"]`), `{` + ext + `{"tags":["a","b"]}}`},
	{"an immutable attribute that has no value", ext + `{"level":1}`, op(`"op":"add","path":"` + scimtest.AttributesURN + `:badge","value":"B"`), `{` + ext + `{"badge":"B","level":1}}`},
	{"an immutable attribute its own value", ext + `{"badge":"B"}`, op(`"op":"add","path":"` + scimtest.AttributesURN + `:badge","value":"B"`), `{` + ext + `{"badge":"B"}}`},
	{"by the core URN", ``, op(`"op":"add","path":"` + strings.ToUpper(scimtest.UserURN) + `:NAME.GIVENNAME","value":"A"`), `{"name":{"givenName":"A"}}`},
	{"a path of null is none", ``, op(`"op":"add","path":null,"value":{"title":"T"}`), `{"title":"T"}`},
	{"read-only members of a value without a path are passed over", ``, op(`"op":"add","value":{"id":"x","title":"T","meta":{"version":"1"},"groups":[]}`), `{"title":"T"}`},
}

// Section 3.5.2.2: remove.
var removals = []change{
	{"a single value", `"title":"T"`, op(`"op":"remove","path":"title"`), `{"title":null}`},
	{"what is not there", `"nickName":"n"`, op(`"op":"remove","path":"title"`), `{"title":null,"nickName":"n"}`},
	{"a complex value", ada, op(`"op":"remove","path":"name"`), `{"name":null}`},
	{"a sub-attribute", ada, op(`"op":"remove","path":"name.givenName"`), `{"name":{"familyName":"L"}}`},
	{"the last sub-attribute takes the attribute with it", `"name":{"givenName":"A"}`, op(`"op":"remove","path":"name.givenName"`), `{"name":null}`},
	{"all values", mails, op(`"op":"remove","path":"emails"`), `{"emails":null}`},
	{"the values that a filter chooses", mails, op(`"op":"remove","path":"emails[type eq \"work\"]"`), `{"emails":[` + home + `]}`},
	{"the figure of the RFC: by type and value", mails, op(`"op":"remove","path":"emails[type eq \"work\" and value ew \"x\"]"`), `{"emails":[` + home + `]}`},
	{"values that a filter does not find", mails, op(`"op":"remove","path":"emails[type eq \"other\"]"`), `{` + mails + `}`},
	{"the last value takes the attribute with it", `"emails":[` + home + `]`, op(`"op":"remove","path":"emails[type eq \"home\"]"`), `{"emails":null}`},
	{"a sub-attribute of chosen values", mails, op(`"op":"remove","path":"emails[type eq \"work\"].type"`), `{"emails":[{"value":"w@x","primary":true},` + home + `]}`},
	{"a sub-attribute of all values", mails, op(`"op":"remove","path":"emails.type"`), `{"emails":[{"value":"w@x","primary":true},{"value":"h@x"}]}`},
	{"the last attribute of an extension takes its URN from schemas", ent + `{"department":"D"}`, op(`"op":"remove","path":"` + scimtest.EnterpriseURN + `:department"`), `{` + ent + `null,"schemas":["` + scimtest.UserURN + `"]}`},
	{"an extension as a whole", ent + `{"department":"D","costCenter":"c"}`, op(`"op":"remove","path":"` + scimtest.EnterpriseURN + `"`), `{` + ent + `null,"schemas":["` + scimtest.UserURN + `"]}`},
	{"a value of a declared list", ext + `{"tags":["a","b"]}`, op(`"op":"remove","path":"` + scimtest.AttributesURN + `:tags[value eq \"A\"]"`), `{` + ext + `{"tags":["b"]}}`},
}

// Section 3.5.2.3: replace.
var replacements = []change{
	{"a single value", `"title":"S"`, op(`"op":"replace","path":"title","value":"T"`), `{"title":"T"}`},
	{"what is not there is an add", ``, op(`"op":"replace","path":"title","value":"T"`), `{"title":"T"}`},
	{"a list that is not there is an add", ``, op(`"op":"replace","path":"emails","value":[` + home + `]`), `{"emails":[` + home + `]}`},
	{"without a path the attributes of the value, and no others", `"title":"S","nickName":"n",` + mails, op(`"op":"replace","value":{"title":"T","emails":[` + home + `]}`), `{"title":"T","nickName":"n","emails":[` + home + `]}`},
	{"the figure of the RFC: emails and nickname without a path", mails, op(`"op":"replace","value":{"emails":[{"value":"bjensen@example.com","type":"work","primary":true},{"value":"babs@jensen.org","type":"home"}],"nickname":"Babs"}`), `{"nickName":"Babs","emails":[{"value":"bjensen@example.com","type":"work","primary":true},{"value":"babs@jensen.org","type":"home"}]}`},
	{"all values", mails, op(`"op":"replace","path":"emails","value":[{"value":"n@x"}]`), `{"emails":[{"value":"n@x"}]}`},
	{"all values by none", mails, op(`"op":"replace","path":"emails","value":[]`), `{"emails":null}`},
	{"by null takes away", `"title":"T"`, op(`"op":"replace","path":"title","value":null`), `{"title":null}`},
	{"by null without a path takes away", `"title":"T","nickName":"n"`, op(`"op":"replace","value":{"title":null}`), `{"title":null,"nickName":"n"}`},
	{"a complex attribute leaves the sub-attributes that are not named", ada, op(`"op":"replace","path":"name","value":{"givenName":"A"}`), `{"name":{"givenName":"A","familyName":"L"}}`},
	{"the values that a filter chooses", mails, op(`"op":"replace","path":"emails[type eq \"work\"]","value":{"value":"n@x","type":"other"}`), `{"emails":[{"value":"n@x","type":"other"},` + home + `]}`},
	{"the figure of the RFC: an address by its type", `"addresses":[{"type":"work","locality":"A"},{"type":"home","locality":"H"}]`, op(`"op":"replace","path":"addresses[type eq \"work\"]","value":{"type":"work","streetAddress":"911 Universal City Plaza","locality":"Hollywood","region":"CA"}`),
		`{"addresses":[{"type":"work","streetAddress":"911 Universal City Plaza","locality":"Hollywood","region":"CA"},{"type":"home","locality":"H"}]}`},
	{"the figure of the RFC: a sub-attribute of the address", `"addresses":[{"type":"work","streetAddress":"A"},{"type":"home","streetAddress":"H"}]`, op(`"op":"replace","path":"addresses[type eq \"work\"].streetAddress","value":"1010 Broadway Ave"`),
		`{"addresses":[{"type":"work","streetAddress":"1010 Broadway Ave"},{"type":"home","streetAddress":"H"}]}`},
	{"a sub-attribute of all that match", `"roles":[{"value":"a","type":"t"},{"value":"b","type":"t"},{"value":"c"}]`, op(`"op":"replace","path":"roles[type eq \"t\"].display","value":"D"`), `{"roles":[{"value":"a","display":"D","type":"t"},{"value":"b","display":"D","type":"t"},{"value":"c"}]}`},
	{"a sub-attribute of all values", `"roles":[{"value":"a"},{"value":"b"}]`, op(`"op":"replace","path":"roles.type","value":"T"`), `{"roles":[{"value":"a","type":"T"},{"value":"b","type":"T"}]}`},
	{"primary takes it from the others", mails, op(`"op":"replace","path":"emails[type eq \"home\"].primary","value":true`), `{"emails":[{"value":"w@x","type":"work","primary":false},{"value":"h@x","type":"home","primary":true}]}`},
	{"an attribute of an extension", ent + `{"department":"D","costCenter":"c"}`, op(`"op":"replace","path":"` + scimtest.EnterpriseURN + `:department","value":"E"`), `{` + ent + `{"department":"E","costCenter":"c"}}`},
	{"a sub-attribute of an extension", ent + `{"manager":{"value":"m"}}`, op(`"op":"replace","path":"` + scimtest.EnterpriseURN + `:manager.value","value":"n"`), `{` + ent + `{"manager":{"value":"n","$ref":"` + `{base}/Users/n"}}}`},
	{"declared attributes of each type", ext + `{"level":1}`, op(`"op":"replace","path":"` + scimtest.AttributesURN + `","value":{"level":-7,"score":2.5,"remote":false,"since":"2026-01-31T12:00:00+01:00","team":"t"}`), `{` + ext + `{"level":-7,"score":2.5,"remote":false,"since":"2026-01-31T12:00:00+01:00","team":"t"}}`},
	{"in the order of the operations", ``, []string{`{"op":"add","path":"title","value":"A"}`, `{"op":"replace","path":"title","value":"B"}`, `{"op":"remove","path":"title"}`, `{"op":"add","path":"title","value":"C"}`, `{"op":"add","path":"nickName","value":"n"}`}, `{"title":"C","nickName":"n"}`},
	{"what an operation adds a later one finds", ``, []string{`{"op":"add","path":"emails","value":[` + home + `]}`, `{"op":"replace","path":"emails[type eq \"home\"].value","value":"z@x"}`}, `{"emails":[{"value":"z@x","type":"home"}]}`},
}

func TestRFC7644Section3_5_2_Patch(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	for _, table := range []struct {
		op      string
		changes []change
	}{{"add", additions}, {"remove", removals}, {"replace", replacements}} {
		for _, tc := range table.changes {
			t.Run(table.op+" "+tc.name, func(t *testing.T) {
				var members []string
				if tc.before != "" {
					members = append(members, tc.before)
				}
				path := admin.CreateUserPath(t, members...)
				before := admin.Call(t, "GET", path, nil).WantStatus(200)
				after := strings.ReplaceAll(tc.after, "{base}", acme.BaseURL())
				got := admin.Call(t, "PATCH", path, scimtest.PatchBody(tc.operations...)).WantStatus(200).WantMembers(after).Want("id", before.Value("id")).Want("userName", before.Value("userName"))
				read := admin.Call(t, "GET", path, nil).WantStatus(200)
				if string(read.Raw) != string(got.Raw) || got.Header.Get("ETag") != got.Text("meta.version") {
					t.Errorf("response %s with ETag %s, resource %s", got.Raw, got.Header.Get("ETag"), read.Raw)
				}
				// Repeating the request changes neither version nor time, unless its operations revert
				// each other.
				if len(tc.operations) == 1 {
					again := admin.Call(t, "PATCH", path, scimtest.PatchBody(tc.operations...))
					if strings.Contains(tc.operations[0], `[type eq`) && again.Status == 400 {
						again.WantError(400, "noTarget") // the element was removed
						return
					}
					again.WantStatus(200).Want("meta.version", got.Value("meta.version")).Want("meta.lastModified", got.Value("meta.lastModified"))
				}
			})
		}
	}
}

func TestRFC7644Section3_5_2_UnchangedResourceKeepsLastModified(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	path := admin.CreateUserPath(t, `"title":"T",`+mails+`,`+ada+`,`+ext+`{"badge":"B","tags":["a"]},"active":true`)
	before := admin.Call(t, "GET", path, nil).WantStatus(200)
	scimtest.NextSecond()
	for _, operation := range []string{
		`{"op":"add","path":"title","value":"T"}`, `{"op":"replace","path":"title","value":"T"}`, `{"op":"replace","value":{"active":true}}`, `{"op":"add","path":"emails","value":[` + work + `]}`,
		`{"op":"replace","path":"emails","value":[` + work + `,` + home + `]}`, `{"op":"replace","path":"emails[type eq \"work\"].value","value":"w@x"}`, `{"op":"remove","path":"nickName"}`,
		`{"op":"remove","path":"emails[type eq \"fax\"]"}`, `{"op":"replace","path":"name","value":{"givenName":"Ada"}}`, `{"op":"add","path":"` + scimtest.AttributesURN + `:tags","value":["a"]}`, `{"op":"add","path":"emails","value":[]}`,
	} {
		admin.Call(t, "PATCH", path, scimtest.PatchBody(operation)).WantStatus(200).Want("meta.version", before.Value("meta.version")).Want("meta.lastModified", before.Value("meta.lastModified"))
	}
	admin.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"replace","path":"title","value":"U"}`, `{"op":"replace","path":"title","value":"T"}`)).WantStatus(200).
		Want("meta.version", before.Value("meta.version")).Want("meta.lastModified", before.Value("meta.lastModified"))
	changed := admin.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"replace","path":"title","value":"U"}`)).WantStatus(200)
	if changed.Value("meta.version") == before.Value("meta.version") || changed.Text("meta.lastModified") == before.Text("meta.lastModified") {
		t.Errorf("version and lastModified did not change: %s", changed.Raw)
	}
	changed.Want("meta.created", before.Value("meta.created"))
}
