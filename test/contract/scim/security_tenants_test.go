package scim_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// vouch #310, tale #2036, Atlas #175: the token was recognised, and whose it is forgotten. Each
// route is asked for the other tenant's user and group, with the keys and on the hosts of both.

// foreign is a request for something of another tenant.
type foreign struct{ method, path, body string }

func foreignRequests(user, group string) []foreign {
	title := patch(`{"op":"replace","path":"displayName","value":"stolen"}`)
	return []foreign{
		{"GET", "/Users/" + user, ""}, {"PUT", "/Users/" + user, `{"userName":"stolen"}`}, {"PATCH", "/Users/" + user, title}, {"DELETE", "/Users/" + user, ""},
		{"GET", "/Groups/" + group, ""}, {"PUT", "/Groups/" + group, `{"displayName":"stolen"}`}, {"PATCH", "/Groups/" + group, title}, {"DELETE", "/Groups/" + group, ""},
		{"PATCH", "/Groups/" + group, patch(`{"op":"remove","path":"members"}`)}, {"GET", "/Users/" + user + "?attributes=userName", ""},
		{"GET", "/Groups/" + user, ""}, {"GET", "/Users/" + group, ""},
	}
}

func (f foreign) by(t *testing.T, a as) *answer {
	t.Helper()
	var body any
	if f.body != "" {
		body = f.body
	}
	return a.call(t, f.method, f.path, body, "If-Match", "*")
}

func TestVouch310_TenantsAreApart(t *testing.T) {
	run := runName()
	owner := acme.as(acme.rfc)
	user := owner.user(t, "tenant-"+run, `"displayName":"Secret Sally"`, `"externalId":"tenant-`+run+`"`, `"emails":[{"value":"tenant-`+run+`@x.test"}]`)
	group := owner.group(t, "Secret Group "+run, user)
	userBefore, groupBefore := owner.call(t, "GET", "/Users/"+user, nil).is(200), owner.call(t, "GET", "/Groups/"+group, nil).is(200)
	for _, request := range foreignRequests(user, group) {
		for name, token := range map[string]string{"rfc": globex.rfc, "okta": globex.okta, "entra": globex.entra, "auto": globex.auto} {
			got := request.by(t, globex.as(token))
			got.what = name + ": " + got.what
			got.refused(404, "")
			request.by(t, as{acme, "Bearer " + token, 0}).refused(401, "")
		}
		request.by(t, as{globex, "Bearer " + acme.rfc, 0}).refused(401, "")
		request.by(t, globex.as(globex.reader)).refused(403, "")
	}
	globexCannotReach(t, user, group, run)
	for before, now := range map[*answer]*answer{userBefore: owner.call(t, "GET", "/Users/"+user, nil).is(200), groupBefore: owner.call(t, "GET", "/Groups/"+group, nil).is(200)} {
		if string(before.raw) != string(now.raw) {
			t.Errorf("was %s\nis %s", before.raw, now.raw)
		}
	}
	// What is unique is so in one tenant.
	globex.as(globex.rfc).user(t, "tenant-"+run)
	globex.as(globex.rfc).group(t, "Secret Group "+run)
}

// globexCannotReach looks for acme's resources by all that leads from one resource to others.
func globexCannotReach(t *testing.T, user, group, run string) {
	t.Helper()
	thief := globex.as(globex.rfc)
	for endpoint, filters := range map[string][]string{
		"/Users":  {`id eq "` + user + `"`, `userName eq "tenant-` + run + `"`, `externalId eq "tenant-` + run + `"`, `emails.value eq "tenant-` + run + `@x.test"`, `groups.value eq "` + group + `"`, `displayName sw "Secret"`},
		"/Groups": {`id eq "` + group + `"`, `displayName eq "Secret Group ` + run + `"`, `members.value eq "` + user + `"`},
	} {
		for _, filter := range filters {
			thief.call(t, "GET", encoded(endpoint+"?filter="+filter), nil).is(200).want("totalResults", 0)
			search := fmt.Sprintf(`{"schemas":[%q],"filter":%q}`, searchURN, filter)
			thief.call(t, "POST", endpoint+"/.search", search).is(200).want("totalResults", 0)
			thief.call(t, "POST", "/.search", search).is(200).want("totalResults", 0)
		}
	}
	// References to ids of the other tenant lead nowhere and show no names.
	own := thief.user(t, "thief-"+run)
	grafted := thief.group(t, "Graft "+run, own)
	operation := func(method, path, data string) string {
		return `{"method":"` + method + `","path":"` + path + `","bulkId":"b` + path[len(path)-3:] + method + `","data":` + data + `}`
	}
	for _, request := range []foreign{
		{"PATCH", "/Groups/" + grafted, patch(`{"op":"add","path":"members","value":[{"value":"` + user + `","$ref":"` + acme.base() + `/Users/` + user + `"},{"value":"` + group + `","type":"Group"}]}`)},
		{"PUT", "/Groups/" + grafted, `{"displayName":"Graft ` + run + `","members":[{"value":"` + user + `"},{"value":"` + group + `","type":"Group"}]}`},
		{"PATCH", "/Users/" + own, patch(`{"op":"add","path":"` + enterpriseURN + `:manager","value":{"value":"` + user + `"}}`)},
		{"PUT", "/Users/" + own, `{"userName":"thief-` + run + `","` + enterpriseURN + `":{"manager":{"value":"` + user + `","displayName":"x"}}}`},
		{"POST", "/Bulk", `{"schemas":["` + bulkURN + `"],"Operations":[` + strings.Join([]string{
			operation("PATCH", "/Users/"+user, patch(`{"op":"replace","path":"displayName","value":"stolen"}`)), operation("PUT", "/Groups/"+group, `{"displayName":"stolen"}`),
			operation("DELETE", "/Users/"+user, "null"), operation("DELETE", "/Groups/"+group, "null"),
		}, ",") + `]}`},
		{"GET", "/Groups/" + grafted, ""}, {"GET", "/Users/" + own, ""}, {"GET", "/Users", ""}, {"GET", "/Groups", ""}, {"GET", "/", ""},
	} {
		var body any
		if request.body != "" {
			body = request.body
		}
		got := thief.call(t, request.method, request.path, body)
		if got.status != 200 && got.status != 400 || strings.Contains(string(got.raw), "Secret") || strings.Contains(string(got.raw), acme.host) {
			t.Errorf("%s: %d %s", got.what, got.status, clip(got.raw))
		}
		if request.path == "/Bulk" {
			for i := range 4 {
				got.want(fmt.Sprintf("Operations.%d.status", i), "404")
			}
		}
	}
}

// What one tenant declares, the others do not see, and who shows no credential sees none of it.
func TestSchemasOfATenantAreItsOwn(t *testing.T) {
	has := func(a as) bool {
		return strings.Contains(string(a.call(t, "GET", "/Schemas", nil).is(200).raw), attributesURN)
	}
	for name, c := range map[string]struct {
		caller as
		want   bool
	}{
		"acme": {acme.as(acme.rfc), true}, "globex": {globex.as(globex.rfc), false},
		"nobody at acme": {as{acme, "", 0}, false}, "nobody at globex": {as{globex, "", 0}, false},
	} {
		if has(c.caller) != c.want {
			t.Errorf("%s: the schema of acme is shown: %t", name, !c.want)
		}
	}
	globex.as(globex.rfc).call(t, "GET", "/Schemas/"+attributesURN, nil).refused(404, "")
	globex.as(globex.rfc).call(t, "POST", "/Users", `{"userName":"x-`+runName()+`","`+attributesURN+`":{"team":"red"}}`).refused(400, "invalidSyntax")
}

// A cursor is good for the list that it was given out for, in the tenant that it was given out in.
func TestCursorOfAnotherTenant(t *testing.T) {
	run := runName()
	for _, a := range accounts {
		for i := range 3 {
			a.as(a.rfc).user(t, fmt.Sprintf("cursor-%d-%s", i, run))
		}
	}
	list := encoded(`/Users?count=2&filter=userName sw "cursor-"&cursor`)
	next := acme.as(acme.rfc).call(t, "GET", list, nil).is(200).text("nextCursor")
	if next == "" {
		t.Fatal("no nextCursor")
	}
	globex.as(globex.rfc).call(t, "GET", list+"="+next, nil).refused(400, "invalidCursor")
	globex.as(globex.rfc).call(t, "POST", "/Users/.search", `{"schemas":["`+searchURN+`"],"count":2,"filter":"userName sw \"cursor-\"","cursor":"`+next+`"}`).refused(400, "invalidCursor")
	for name, cursor := range map[string]string{
		"nonsense": "abc", "not base64": "%22", "empty JSON": base64.RawURLEncoding.EncodeToString([]byte("{}")), "null": base64.RawURLEncoding.EncodeToString([]byte("null")),
		"long": strings.Repeat("A", 6000), "cut": next[:len(next)-8], "deep": base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(`{"p":`, 500))),
	} {
		got := acme.as(acme.rfc).call(t, "GET", list+"="+cursor, nil)
		got.what = name + ": " + got.what
		got.refused(400, "invalidCursor")
	}
	acme.as(acme.rfc).call(t, "GET", strings.Replace(list, "cursor-", "curso", 1)+"="+next, nil).refused(400, "invalidCursor")
	acme.as(acme.rfc).call(t, "GET", strings.Replace(list, "/Users", "/Groups", 1)+"="+next, nil).refused(400, "invalidFilter")
	acme.as(acme.rfc).call(t, "GET", list+"="+next, nil).is(200)
}
