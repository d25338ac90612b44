package scim_test

import (
	"bufio"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/test/internal/scimtest"

	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// Regression tests for known vulnerabilities of SCIM servers: authentication and authorization.

// raw sends bytes that client libraries cannot send. It returns nil if the connection is closed without a
// response.
func raw(t *testing.T, request string) *scimtest.Response {
	t.Helper()
	transport, _ := scimtest.Clients[0].Transport.(*http.Transport)
	config := transport.TLSClientConfig.Clone()
	config.ServerName, config.NextProtos = acme.Host, nil
	dialer := &tls.Dialer{Config: config}
	conn, err := dialer.DialContext(t.Context(), "tcp", scimtest.Replicas[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(apiclient.Timeout))
	go func() { _, _ = io.WriteString(conn, request) }() // the response may arrive before the request is complete
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body)
	line, _, _ := strings.Cut(request, "\r\n")
	return &scimtest.Response{T: t, Request: string(scimtest.Truncate([]byte(line))), Status: response.StatusCode, Header: response.Header, Raw: body}
}

// rawGet sends a GET without normalizing the path.
func rawGet(t *testing.T, path, authorization string) *scimtest.Response {
	t.Helper()
	header := "Host: " + acme.Host + "\r\nConnection: close\r\n"
	if authorization != "" {
		header += "Authorization: " + authorization + "\r\n"
	}
	got := raw(t, "GET "+path+" HTTP/1.1\r\n"+header+"\r\n")
	if got == nil {
		t.Fatalf("GET %s: no answer", path)
	}
	return got
}

// alive checks that the server still responds.
func alive(t *testing.T) {
	t.Helper()
	acme.WithToken(acme.RFC).Call(t, "GET", "/Users?count=0", nil).WantStatus(200)
}

// unknownKey returns a token of an API key, with a valid checksum, that no account has.
func unknownKey(t *testing.T) string {
	t.Helper()
	token, err := apikey.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return token.Reveal()
}

// Grafana CVE-2025-41115: externalId "1" became the internal id 1, that of the administrator.
func TestGrafanaCVE2025_41115_ExternalIDIsNotAnID(t *testing.T) {
	a, run := acme.WithToken(acme.RFC), scimtest.RunID()
	for _, external := range []string{"1", "0", "admin", run} {
		one := a.CreateUser(t, "ext1-"+external+run, `"externalId":"`+external+`"`, `"id":"`+external+`"`)
		two := a.CreateUser(t, "ext2-"+external+run, `"externalId":"`+external+`"`)
		if one == external || two == external || one == two {
			t.Errorf("externalId %q: ids are %q and %q", external, one, two)
		}
		for _, method := range []string{"GET", "DELETE"} {
			a.Call(t, method, "/Users/"+external, nil).WantError(404, "")
		}
		a.Call(t, "PATCH", "/Users/"+external, scimtest.PatchBody(`{"op":"replace","path":"active","value":false}`)).WantError(404, "")
		a.Call(t, "PUT", "/Users/"+external, `{"userName":"stolen-`+run+`"}`).WantError(404, "")
		a.Call(t, "PATCH", "/Users/"+two, scimtest.PatchBody(`{"op":"replace","path":"title","value":"T"}`)).WantStatus(200)
		a.Call(t, "GET", "/Users/"+one, nil).WantStatus(200).Want("title", nil)
	}
	// An externalId or userName equal to the id of another user.
	victim := a.CreateUser(t, "victim-"+run)
	thief := a.CreateUser(t, victim, `"externalId":"`+victim+`"`, `"title":"thief"`)
	a.Call(t, "GET", "/Users/"+victim, nil).WantStatus(200).Want("id", victim).Want("title", nil)
	g := a.CreateGroup(t, "External "+run, victim)
	a.Call(t, "GET", "/Users/"+thief, nil).WantStatus(200).Want("groups", nil)
	a.Call(t, "GET", "/Users/"+victim, nil).WantStatus(200).Want("groups.0.value", g)
}

// Zitadel CVE-2026-32130: encoded segments were routed, but not authenticated.
func TestZitadelCVE2026_32130_EncodedPathsAreAuthenticated(t *testing.T) {
	name := "spelled-" + scimtest.RunID()
	id := acme.WithToken(acme.RFC).CreateUser(t, name)
	const base = "/api/scim/v2"
	for _, path := range []string{
		"/Users", "/Users/", "/Users/" + id, "/%55sers", "/%55%73%65%72%73/" + id, "/Users%2f" + id, "/Users%2F" + id, "/Users/%2e/" + id, "/Users/./" + id,
		"//Users", "//Users//" + id, "/./Users", "/../v2/Users", "/%2e%2e/v2/Users", "/users", "/USERS/" + id, "/Users;x", "/Users;x=y/" + id, "/Users%3bx",
		"/Schemas/../Users", "/Schemas/..%2fUsers", "/Schemas/%2e%2e/Users", "/Schemas%2f..%2fUsers", "/ServiceProviderConfig/../Users/" + id, "/Schemas/..;/Users",
		"/ServiceProviderConfig%2f..%2fUsers", "/Users%00", "/Users%0d%0a", "/Users?x=/Schemas", "/Users#/Schemas", "/Users%23/Schemas", "/Users%3f/Schemas", "/Users\\" + id,
		"/Users/%20" + id, "/Users%20", "/%2e/Users", "/Users/..%5c..", "/.search", "/Groups", "/Me", "/Bulk", "", "/", "/Users/" + id + "/",
	} {
		got := rawGet(t, base+path, "")
		if got.Status != 401 && got.Status != 404 && got.Status != 400 || strings.Contains(string(got.Raw), name) || strings.Contains(string(got.Raw), "Resources") {
			t.Errorf("%s without a credential: %d %s", path, got.Status, scimtest.Truncate(got.Raw))
		}
		if got.Status != 400 && strings.HasPrefix(path, "/Users") && got.Header.Get("Content-Type") != "application/scim+json" {
			t.Errorf("%s: Content-Type is %q", path, got.Header.Get("Content-Type"))
		}
		// A reader has no access either.
		if got = rawGet(t, base+path, "Bearer "+acme.Reader); got.Status == 200 || got.Status >= 500 || strings.Contains(string(got.Raw), name) {
			t.Errorf("%s for a reader: %d %s", path, got.Status, scimtest.Truncate(got.Raw))
		}
	}
	for _, path := range []string{"/api//scim/v2/Users", "/API/scim/v2/Users", "/api%2fscim%2fv2%2fUsers", "/x/../api/scim/v2/Users", "//api/scim/v2/Users", "/api/scim/v2/../v2/Users", "https://" + acme.Host + "/api/scim/v2/Users"} {
		if got := rawGet(t, path, ""); got.Status == 200 && len(got.Raw) > 0 || got.Status >= 500 || strings.Contains(string(got.Raw), name) {
			t.Errorf("%s without a credential: %d %s", path, got.Status, scimtest.Truncate(got.Raw))
		}
	}
	rawGet(t, base+"/Users/"+id, "Bearer "+acme.RFC).WantStatus(200).Want("userName", name)
	rawGet(t, base+"/%55sers/"+id, "Bearer "+acme.RFC).WantStatus(200).Want("userName", name)
	refused := []string{"/users", "//Users", "/Users/./" + id}
	if !scimtest.InMemory { // in memory paths are not canonicalized
		refused = append(refused, "/Users%2f"+id)
	}
	for _, path := range refused {
		rawGet(t, base+path, "Bearer "+acme.RFC).WantError(404, "")
	}
}

// Doyensec, "SCIM Hunting": authentication. Every error is a SCIM error with WWW-Authenticate.
func TestDoyensecAuthentication(t *testing.T) {
	unknown := unknownKey(t)
	for name, authorization := range map[string]string{
		"missing": "", "no scheme": acme.RFC, "Okta's non-token": "non-token", "empty": "Bearer ", "two blanks": "Bearer  ", "malformed": "Bearer nonsense",
		"well-formed, unknown": "Bearer " + unknown, "of another account": "Bearer " + globex.RFC, "other scheme": "Basic YTpi",
		"a JWT that nobody has signed": "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.", "cut": "Bearer " + acme.RFC[:len(acme.RFC)-1],
	} {
		for _, request := range []struct{ method, path, body string }{
			{"GET", "/Users", ""}, {"GET", "/Users/x", ""}, {"POST", "/Users", `{"userName":"x"}`}, {"PATCH", "/Groups/x", scimtest.PatchBody(`{"op":"remove","path":"members"}`)},
			{"DELETE", "/Users/x", ""}, {"POST", "/Bulk", `{}`}, {"POST", "/.search", `{}`}, {"GET", "/Me", ""}, {"GET", "/Nothing", ""},
		} {
			var body any
			if request.body != "" {
				body = request.body
			}
			got := acme.WithAuthorization(authorization).Call(t, request.method, request.path, body)
			got.Request = name + ": " + got.Request
			got.WantError(401, "")
			if !strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Bearer ") {
				t.Errorf("%s: WWW-Authenticate is %q", got.Request, got.Header.Get("WWW-Authenticate"))
			}
			if secret := strings.TrimPrefix(authorization, "Bearer "); len(secret) > 10 && strings.Contains(string(got.Raw), secret) {
				t.Errorf("%s: the response contains the credential: %s", got.Request, got.Raw)
			}
		}
	}
	acme.WithAuthorization("").Call(t, "GET", "/Users?access_token="+acme.RFC, nil).WantError(401, "")
	acme.WithAuthorization("").Call(t, "GET", "/Users", nil, "X-Api-Key", acme.RFC, "Cookie", "token="+acme.RFC).WantError(401, "")
	acme.WithAuthorization("Api-Key "+acme.RFC).Call(t, "GET", "/Users?count=0", nil).WantStatus(200)
	acme.WithAuthorization("bearer "+acme.RFC).Call(t, "GET", "/Users?count=0", nil).WantStatus(200)
}

// Keycloak #50985, #50986, #52599 and #50987: filters on members and groups disclosed data that the caller could
// not read. Keycloak #47536: missing permission checks for some methods.
func TestKeycloak50985_ForbiddenDisclosesNothing(t *testing.T) {
	admin, run := acme.WithToken(acme.RFC), scimtest.RunID()
	id := admin.CreateUser(t, "oracle-"+run)
	g := admin.CreateGroup(t, "Oracle "+run, id)
	before := string(admin.Call(t, "GET", "/Groups/"+g, nil).WantStatus(200).Raw)
	search := func(filter string) string {
		return `{"schemas":["` + scimtest.SearchURN + `"],"filter":"` + filter + `"}`
	}
	for key, token := range map[string]string{"reader": acme.Reader, "scoped": acme.Scoped} {
		caller := acme.WithToken(token)
		answers := map[string]string{}
		for _, request := range [][3]string{
			{"GET", "/Users", ""}, {"GET", "/Groups", ""}, {"GET", "/", ""}, {"GET", "/Users?count=0", ""}, {"GET", "/Users/" + id, ""}, {"GET", "/Users/nobody", ""},
			{"GET", `/Groups?filter=members.value+eq+%22` + id + `%22`, ""}, {"GET", `/Groups?filter=members.value+eq+%22nobody%22`, ""},
			{"GET", `/Users?filter=groups.value+eq+%22` + g + `%22`, ""}, {"GET", `/Users?filter=nothing`, ""}, {"GET", `/Users?filter=password+pr`, ""},
			{"POST", "/.search", search("id pr")}, {"POST", "/Groups/.search", search(`members.value eq \"` + id + `\"`)}, {"POST", "/Users/.search", "{"},
			{"POST", "/Users", `{"userName":"oracle-` + run + `"}`}, {"POST", "/Users", `{"userName":"free-` + run + `"}`}, {"POST", "/Groups", `{"displayName":"Oracle ` + run + `"}`},
			{"PUT", "/Users/" + id, `{"userName":"taken"}`}, {"PATCH", "/Groups/" + g, scimtest.PatchBody(`{"op":"remove","path":"members"}`)}, {"PATCH", "/Groups/nobody", scimtest.PatchBody(`{"op":"remove","path":"members"}`)},
			{"DELETE", "/Users/" + id, ""}, {"DELETE", "/Users/nobody", ""}, {"DELETE", "/Groups/" + g, ""}, {"PUT", "/Me", `{"userName":"x"}`}, {"DELETE", "/Me", ""},
			{"POST", "/Bulk", `{"schemas":["` + scimtest.BulkURN + `"],"Operations":[{"method":"DELETE","path":"/Users/` + id + `"}]}`},
		} {
			var body any
			if request[2] != "" {
				body = request[2]
			}
			got := caller.Call(t, request[0], request[1], body)
			got.WantError(403, "", "ScimManage")
			answers[string(got.Raw)] = got.Request
		}
		if len(answers) != 1 {
			t.Errorf("%s: the errors differ and disclose data: %v", key, answers)
		}
		caller.Call(t, "GET", "/ServiceProviderConfig", nil).WantStatus(200)
	}
	if after := string(admin.Call(t, "GET", "/Groups/"+g, nil).WantStatus(200).Raw); after != before {
		t.Errorf("before %s\nafter %s", before, after)
	}
}

// authentik GHSA-9m7q-6qg6-888h: a client could take over existing users and groups by name. CISO Assistant
// #4658 and GitLab CVE-2022-1680: users were matched by e-mail address, which was then changed.
func TestAuthentikGHSA9m7q_NothingIsAdopted(t *testing.T) {
	run := scimtest.RunID()
	owner, other := acme.WithToken(acme.Okta), acme.WithToken(acme.Entra)
	id := owner.CreateUser(t, "owned-"+run, `"externalId":"okta-`+run+`"`, `"emails":[{"value":"owned-`+run+`@x.test","primary":true}]`, `"active":true`)
	g := owner.CreateGroup(t, "Admins "+run, id)
	user, group := owner.Call(t, "GET", "/Users/"+id, nil).WantStatus(200), owner.Call(t, "GET", "/Groups/"+g, nil).WantStatus(200)
	for _, name := range []string{"owned-" + run, "OWNED-" + strings.ToUpper(run)} {
		for _, rest := range []string{`"active":false`, `"emails":[{"value":"thief@x.test"}]`, `"externalId":"okta-` + run + `"`, `"id":"` + id + `"`} {
			other.Call(t, "POST", "/Users", `{"userName":"`+name+`",`+rest+`}`).WantError(409, "uniqueness", "userName")
		}
	}
	other.Call(t, "POST", "/Groups", `{"displayName":"admins `+run+`","externalId":"x","members":[]}`).WantError(409, "uniqueness", "displayName")
	// Same e-mail address, same externalId: another user.
	namesake := other.CreateUser(t, "namesake-"+run, `"externalId":"okta-`+run+`"`, `"emails":[{"value":"owned-`+run+`@x.test"}]`)
	if namesake == id {
		t.Error("a user was found by its e-mail address")
	}
	other.Call(t, "PATCH", "/Users/"+namesake, scimtest.PatchBody(`{"op":"replace","path":"emails","value":[{"value":"thief@x.test"}]}`)).WantStatus(200)
	other.Call(t, "PATCH", "/Users/"+namesake, scimtest.PatchBody(`{"op":"replace","path":"userName","value":"owned-`+run+`"}`)).WantError(409, "uniqueness")
	for before, now := range map[*scimtest.Response]*scimtest.Response{user: owner.Call(t, "GET", "/Users/"+id, nil).WantStatus(200), group: owner.Call(t, "GET", "/Groups/"+g, nil).WantStatus(200)} {
		if string(before.Raw) != string(now.Raw) {
			t.Errorf("before %s\nafter %s", before.Raw, now.Raw)
		}
	}
	// A conflict does not disclose the other resource.
	if got := other.Call(t, "POST", "/Users", `{"userName":"owned-`+run+`"}`); strings.Contains(string(got.Raw), id) {
		t.Errorf("the response contains the other id: %s", got.Raw)
	}
}

// Mass assignment (Doyensec): read-only attributes are ignored and unknown attributes rejected.
func TestDoyensecMassAssignment(t *testing.T) {
	a, run := acme.WithToken(acme.RFC), scimtest.RunID()
	g := a.CreateGroup(t, "Powerful "+run)
	id := a.CreateUser(t, "mass-"+run, `"id":"root"`, `"groups":[{"value":"`+g+`"}]`, `"meta":{"resourceType":"Group","created":"2000-01-01T00:00:00Z","version":"W/\"9\"","location":"https://evil.test"}`)
	got := a.Call(t, "GET", "/Users/"+id, nil).WantStatus(200).Want("groups", nil).Want("meta.resourceType", "User").Want("meta.location", acme.BaseURL()+"/Users/"+id)
	if id == "root" || strings.HasPrefix(got.Text("meta.created"), "2000") || got.Text("meta.version") == `W/"9"` {
		t.Errorf("meta of the client is accepted: %s", got.Raw)
	}
	for _, member := range []string{`"isAdmin":true`, `"permissions":["*"]`, `"status":{"conditions":[]}`, `"spec":{}`, `"metadata":{"namespace":"globex"}`, `"account":"globex"`, `"emailVerified":true`, `"Role":"Admin"`} {
		a.Call(t, "POST", "/Users", `{"userName":"mass2-`+run+`",`+member+`}`).WantError(400, "invalidSyntax", strings.Split(member, `"`)[1])
		a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"add","value":{`+member+`}}`)).WantError(400, "invalidSyntax")
	}
	for _, path := range []string{"groups", "meta.created", "id", "schemas", `groups[value eq \"` + g + `\"]`} {
		a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"add","path":"`+path+`","value":[{"value":"`+g+`"}]}`)).WantError(400, "mutability")
	}
	a.Call(t, "GET", "/Groups/"+g, nil).WantStatus(200).Want("members", nil)
	// Method override headers are ignored.
	a.Call(t, "GET", "/Users/"+id, nil, "X-HTTP-Method-Override", "DELETE").WantStatus(200)
	a.Call(t, "POST", "/Users/.search", `{"schemas":["`+scimtest.SearchURN+`"],"filter":"id eq \"`+id+`\""}`, "X-HTTP-Method", "DELETE").WantStatus(200).Want("totalResults", 1)
	a.Call(t, "GET", "/Users/"+id, nil).WantStatus(200)
}

// TestHostHeaderIsNotInLocations checks that locations use the configured host: otherwise clients could be made
// to send their tokens to another host.
func TestHostHeaderIsNotInLocations(t *testing.T) {
	a, run := acme.WithToken(acme.RFC), scimtest.RunID()
	headers := []string{"X-Forwarded-Host", "evil.test", "X-Forwarded-Proto", "http", "X-Forwarded-Prefix", "/evil", "Forwarded", "host=evil.test;proto=http", "X-Original-URL", "/evil", "X-Host", "evil.test"}
	id := a.CreateUser(t, "host-"+run)
	created := a.Call(t, "POST", "/Groups", `{"displayName":"Host `+run+`","members":[{"value":"`+id+`","$ref":"https://evil.test/Users/1"}]}`, headers...).WantStatus(201)
	g := created.Text("id")
	t.Cleanup(func() { a.Delete(t, "/Groups/"+g) })
	if got, want := created.Header.Get("Location"), acme.BaseURL()+"/Groups/"+g; got != want {
		t.Errorf("Location is %q, want %q", got, want)
	}
	put := a.Call(t, "PUT", "/Groups/"+g, `{"displayName":"Host `+run+`","members":[{"value":"`+id+`","$ref":"https://evil.test/Users/2"}]}`, headers...).WantStatus(200)
	patched := a.Call(t, "PATCH", "/Groups/"+g, scimtest.PatchBody(`{"op":"replace","path":"members","value":[{"value":"`+id+`","$ref":"https://evil.test/Users/3"}]}`), headers...).WantStatus(200)
	added := a.Call(t, "PATCH", "/Groups/"+g, scimtest.PatchBody(`{"op":"add","path":"members[value eq \"`+id+`\"].$ref","value":"https://evil.test/Users/4"}`), headers...)
	managed := a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"add","path":"`+scimtest.EnterpriseURN+`:manager","value":{"value":"`+id+`","$ref":"https://evil.test/Users/5"}}`), headers...).WantStatus(200)
	for _, got := range []*scimtest.Response{created, put, patched, added, managed, a.Call(t, "GET", "/Groups/"+g, nil, headers...).WantStatus(200), a.Call(t, "GET", "/Users", nil, headers...).WantStatus(200), a.Call(t, "GET", "/Schemas", nil, headers...).WantStatus(200)} {
		if strings.Contains(fmt.Sprint(got.Header, string(got.Raw)), "evil") {
			t.Errorf("%s: the response contains the host of the request: %v %s", got.Request, got.Header, scimtest.Truncate(got.Raw))
		}
	}
	put.Want("members.0.$ref", acme.BaseURL()+"/Users/"+id)
}
