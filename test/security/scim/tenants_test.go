package scim_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// vouch #310, tale #2036, Atlas #175: tokens were authenticated without checking their tenant. All routes are
// tested for resources of the other tenant, with the keys and hosts of both.

// foreign is a request for a resource of another tenant.
type foreign struct{ method, path, body string }

func foreignRequests(user, group string) []foreign {
	title := scimtest.PatchBody(`{"op":"replace","path":"displayName","value":"stolen"}`)
	return []foreign{
		{"GET", "/Users/" + user, ""}, {"PUT", "/Users/" + user, `{"userName":"stolen"}`}, {"PATCH", "/Users/" + user, title}, {"DELETE", "/Users/" + user, ""},
		{"GET", "/Groups/" + group, ""}, {"PUT", "/Groups/" + group, `{"displayName":"stolen"}`}, {"PATCH", "/Groups/" + group, title}, {"DELETE", "/Groups/" + group, ""},
		{"PATCH", "/Groups/" + group, scimtest.PatchBody(`{"op":"remove","path":"members"}`)}, {"GET", "/Users/" + user + "?attributes=userName", ""},
		{"GET", "/Groups/" + user, ""}, {"GET", "/Users/" + group, ""},
	}
}

func (f foreign) by(t *testing.T, a scimtest.Caller) *scimtest.Response {
	t.Helper()
	return a.Call(t, f.method, f.path, scimtest.Body(f.body), "If-Match", "*")
}

func TestVouch310_TenantIsolation(t *testing.T) {
	run := scimtest.RunID()
	owner := acme.WithToken(acme.RFC)
	user := owner.CreateUser(t, "tenant-"+run, `"displayName":"Secret Sally"`, `"externalId":"tenant-`+run+`"`, `"emails":[{"value":"tenant-`+run+`@x.test"}]`)
	group := owner.CreateGroup(t, "Secret Group "+run, user)
	userBefore, groupBefore := owner.Call(t, "GET", "/Users/"+user, nil).WantStatus(200), owner.Call(t, "GET", "/Groups/"+group, nil).WantStatus(200)
	for _, request := range foreignRequests(user, group) {
		for name, token := range map[string]string{"rfc": globex.RFC, "okta": globex.Okta, "entra": globex.Entra, "auto": globex.Auto} {
			got := request.by(t, globex.WithToken(token))
			got.Request = name + ": " + got.Request
			got.WantError(404, "")
			request.by(t, acme.WithAuthorization("Bearer "+token)).WantError(401, "")
		}
		request.by(t, globex.WithAuthorization("Bearer "+acme.RFC)).WantError(401, "")
		request.by(t, globex.WithToken(globex.Reader)).WantError(403, "")
	}
	globexCannotReach(t, user, group, run)
	for before, now := range map[*scimtest.Response]*scimtest.Response{userBefore: owner.Call(t, "GET", "/Users/"+user, nil).WantStatus(200), groupBefore: owner.Call(t, "GET", "/Groups/"+group, nil).WantStatus(200)} {
		if string(before.Raw) != string(now.Raw) {
			t.Errorf("before %s\nafter %s", before.Raw, now.Raw)
		}
	}
	// Values are unique per tenant.
	globex.WithToken(globex.RFC).CreateUser(t, "tenant-"+run)
	globex.WithToken(globex.RFC).CreateGroup(t, "Secret Group "+run)
}

// globexCannotReach checks that globex cannot find resources of acme by any reference.
func globexCannotReach(t *testing.T, user, group, run string) {
	t.Helper()
	other := globex.WithToken(globex.RFC)
	for endpoint, filters := range map[string][]string{
		"/Users":  {`id eq "` + user + `"`, `userName eq "tenant-` + run + `"`, `externalId eq "tenant-` + run + `"`, `emails.value eq "tenant-` + run + `@x.test"`, `groups.value eq "` + group + `"`, `displayName sw "Secret"`},
		"/Groups": {`id eq "` + group + `"`, `displayName eq "Secret Group ` + run + `"`, `members.value eq "` + user + `"`},
	} {
		for _, filter := range filters {
			other.Call(t, "GET", scimtest.EncodeTarget(endpoint+"?filter="+filter), nil).WantStatus(200).Want("totalResults", 0)
			search := fmt.Sprintf(`{"schemas":[%q],"filter":%q}`, scimtest.SearchURN, filter)
			other.Call(t, "POST", endpoint+"/.search", search).WantStatus(200).Want("totalResults", 0)
			other.Call(t, "POST", "/.search", search).WantStatus(200).Want("totalResults", 0)
		}
	}
	// References to ids of the other tenant are not resolved.
	own := other.CreateUser(t, "other-"+run)
	grafted := other.CreateGroup(t, "Graft "+run, own)
	operation := func(method, path, data string) string {
		return `{"method":"` + method + `","path":"` + path + `","bulkId":"b` + path[len(path)-3:] + method + `","data":` + data + `}`
	}
	for _, request := range []foreign{
		{"PATCH", "/Groups/" + grafted, scimtest.PatchBody(`{"op":"add","path":"members","value":[{"value":"` + user + `","$ref":"` + acme.BaseURL() + `/Users/` + user + `"},{"value":"` + group + `","type":"Group"}]}`)},
		{"PUT", "/Groups/" + grafted, `{"displayName":"Graft ` + run + `","members":[{"value":"` + user + `"},{"value":"` + group + `","type":"Group"}]}`},
		{"PATCH", "/Users/" + own, scimtest.PatchBody(`{"op":"add","path":"` + scimtest.EnterpriseURN + `:manager","value":{"value":"` + user + `"}}`)},
		{"PUT", "/Users/" + own, `{"userName":"other-` + run + `","` + scimtest.EnterpriseURN + `":{"manager":{"value":"` + user + `","displayName":"x"}}}`},
		{"POST", "/Bulk", `{"schemas":["` + scimtest.BulkURN + `"],"Operations":[` + strings.Join([]string{
			operation("PATCH", "/Users/"+user, scimtest.PatchBody(`{"op":"replace","path":"displayName","value":"stolen"}`)), operation("PUT", "/Groups/"+group, `{"displayName":"stolen"}`),
			operation("DELETE", "/Users/"+user, "null"), operation("DELETE", "/Groups/"+group, "null"),
		}, ",") + `]}`},
		{"GET", "/Groups/" + grafted, ""}, {"GET", "/Users/" + own, ""}, {"GET", "/Users", ""}, {"GET", "/Groups", ""}, {"GET", "/", ""},
	} {
		var body any
		if request.body != "" {
			body = request.body
		}
		got := other.Call(t, request.method, request.path, body)
		if got.Status != 200 && got.Status != 400 || strings.Contains(string(got.Raw), "Secret") || strings.Contains(string(got.Raw), acme.Host) {
			t.Errorf("%s: %d %s", got.Request, got.Status, scimtest.Truncate(got.Raw))
		}
		if request.path == "/Bulk" {
			for i := range 4 {
				got.Want(fmt.Sprintf("Operations.%d.status", i), "404")
			}
		}
	}
}

// TestSchemasOfATenantAreItsOwn checks that declared schemas are visible only with credentials of the tenant.
func TestSchemasOfATenantAreItsOwn(t *testing.T) {
	has := func(a scimtest.Caller) bool {
		return strings.Contains(string(a.Call(t, "GET", "/Schemas", nil).WantStatus(200).Raw), scimtest.AttributesURN)
	}
	for name, c := range map[string]struct {
		caller scimtest.Caller
		want   bool
	}{
		"acme": {acme.WithToken(acme.RFC), true}, "globex": {globex.WithToken(globex.RFC), false},
		"nobody at acme": {acme.WithAuthorization(""), false}, "nobody at globex": {globex.WithAuthorization(""), false},
	} {
		if has(c.caller) != c.want {
			t.Errorf("%s: the schema of acme is visible: %t", name, !c.want)
		}
	}
	globex.WithToken(globex.RFC).Call(t, "GET", "/Schemas/"+scimtest.AttributesURN, nil).WantError(404, "")
	globex.WithToken(globex.RFC).Call(t, "POST", "/Users", `{"userName":"x-`+scimtest.RunID()+`","`+scimtest.AttributesURN+`":{"team":"red"}}`).WantError(400, "invalidSyntax")
}

// TestCursorOfAnotherTenant checks that a cursor is valid only for its list and tenant.
func TestCursorOfAnotherTenant(t *testing.T) {
	run := scimtest.RunID()
	for _, a := range scimtest.Accounts {
		for i := range 3 {
			a.WithToken(a.RFC).CreateUser(t, fmt.Sprintf("cursor-%d-%s", i, run))
		}
	}
	list := scimtest.EncodeTarget(`/Users?count=2&filter=userName sw "cursor-"&cursor`)
	next := acme.WithToken(acme.RFC).Call(t, "GET", list, nil).WantStatus(200).Text("nextCursor")
	if next == "" {
		t.Fatal("no nextCursor")
	}
	globex.WithToken(globex.RFC).Call(t, "GET", list+"="+next, nil).WantError(400, "invalidCursor")
	globex.WithToken(globex.RFC).Call(t, "POST", "/Users/.search", `{"schemas":["`+scimtest.SearchURN+`"],"count":2,"filter":"userName sw \"cursor-\"","cursor":"`+next+`"}`).WantError(400, "invalidCursor")
	for name, cursor := range map[string]string{
		"nonsense": "abc", "not base64": "%22", "empty JSON": base64.RawURLEncoding.EncodeToString([]byte("{}")), "null": base64.RawURLEncoding.EncodeToString([]byte("null")),
		"long": strings.Repeat("A", 6000), "cut": next[:len(next)-8], "deep": base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(`{"p":`, 500))),
	} {
		got := acme.WithToken(acme.RFC).Call(t, "GET", list+"="+cursor, nil)
		got.Request = name + ": " + got.Request
		got.WantError(400, "invalidCursor")
	}
	acme.WithToken(acme.RFC).Call(t, "GET", strings.Replace(list, "cursor-", "curso", 1)+"="+next, nil).WantError(400, "invalidCursor")
	acme.WithToken(acme.RFC).Call(t, "GET", strings.Replace(list, "/Users", "/Groups", 1)+"="+next, nil).WantError(400, "invalidFilter")
	acme.WithToken(acme.RFC).Call(t, "GET", list+"="+next, nil).WantStatus(200)
}
