package scim_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/test/contract/internal/apiclient"
)

// What went wrong elsewhere, case by case (shared/domain/scim.md section 6): who may do what.

// raw sends bytes as they are, for what no client library sends, and returns nothing if the
// connection was cut without an answer.
func raw(t *testing.T, request string) *answer {
	t.Helper()
	transport, _ := clients[0].Transport.(*http.Transport)
	config := transport.TLSClientConfig.Clone()
	config.ServerName, config.NextProtos = acme.host, nil
	dialer := &tls.Dialer{Config: config}
	conn, err := dialer.DialContext(t.Context(), "tcp", replicas[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(apiclient.Patience))
	go func() { _, _ = io.WriteString(conn, request) }() // it may be answered before it is read
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body)
	line, _, _ := strings.Cut(request, "\r\n")
	return &answer{t: t, what: string(clip([]byte(line))), status: response.StatusCode, header: response.Header, raw: body}
}

// rawGet is a GET of a path on the wire.
func rawGet(t *testing.T, path, authorization string) *answer {
	t.Helper()
	header := "Host: " + acme.host + "\r\nConnection: close\r\n"
	if authorization != "" {
		header += "Authorization: " + authorization + "\r\n"
	}
	got := raw(t, "GET "+path+" HTTP/1.1\r\n"+header+"\r\n")
	if got == nil {
		t.Fatalf("GET %s: no answer", path)
	}
	return got
}

// alive tells that the server has survived.
func alive(t *testing.T) {
	t.Helper()
	acme.as(acme.rfc).call(t, "GET", "/Users?count=0", nil).is(200)
}

// Grafana CVE-2025-41115: externalId "1" became the internal id 1, that of the administrator.
func TestGrafanaCVE2025_41115_ExternalIDIsNoKey(t *testing.T) {
	a, run := acme.as(acme.rfc), runName()
	for _, external := range []string{"1", "0", "admin", run} {
		one := a.user(t, "ext1-"+external+run, `"externalId":"`+external+`"`, `"id":"`+external+`"`)
		two := a.user(t, "ext2-"+external+run, `"externalId":"`+external+`"`)
		if one == external || two == external || one == two {
			t.Errorf("externalId %q: ids are %q and %q", external, one, two)
		}
		for _, method := range []string{"GET", "DELETE"} {
			a.call(t, method, "/Users/"+external, nil).refused(404, "")
		}
		a.call(t, "PATCH", "/Users/"+external, patch(`{"op":"replace","path":"active","value":false}`)).refused(404, "")
		a.call(t, "PUT", "/Users/"+external, `{"userName":"stolen-`+run+`"}`).refused(404, "")
		a.call(t, "PATCH", "/Users/"+two, patch(`{"op":"replace","path":"title","value":"T"}`)).is(200)
		a.call(t, "GET", "/Users/"+one, nil).is(200).want("title", nil)
	}
	// Nor is another user's id a user's externalId, or its name.
	victim := a.user(t, "victim-"+run)
	thief := a.user(t, victim, `"externalId":"`+victim+`"`, `"title":"thief"`)
	a.call(t, "GET", "/Users/"+victim, nil).is(200).want("id", victim).want("title", nil)
	g := a.group(t, "External "+run, victim)
	a.call(t, "GET", "/Users/"+thief, nil).is(200).want("groups", nil)
	a.call(t, "GET", "/Users/"+victim, nil).is(200).want("groups.0.value", g)
}

// Zitadel CVE-2026-32130: encoded segments were routed, but not authenticated.
func TestZitadelCVE2026_32130_NoSpellingStepsAroundAuthentication(t *testing.T) {
	name := "spelled-" + runName()
	id := acme.as(acme.rfc).user(t, name)
	const base = "/api/scim/v2"
	for _, path := range []string{
		"/Users", "/Users/", "/Users/" + id, "/%55sers", "/%55%73%65%72%73/" + id, "/Users%2f" + id, "/Users%2F" + id, "/Users/%2e/" + id, "/Users/./" + id,
		"//Users", "//Users//" + id, "/./Users", "/../v2/Users", "/%2e%2e/v2/Users", "/users", "/USERS/" + id, "/Users;x", "/Users;x=y/" + id, "/Users%3bx",
		"/Schemas/../Users", "/Schemas/..%2fUsers", "/Schemas/%2e%2e/Users", "/Schemas%2f..%2fUsers", "/ServiceProviderConfig/../Users/" + id, "/Schemas/..;/Users",
		"/ServiceProviderConfig%2f..%2fUsers", "/Users%00", "/Users%0d%0a", "/Users?x=/Schemas", "/Users#/Schemas", "/Users%23/Schemas", "/Users%3f/Schemas", "/Users\\" + id,
		"/Users/%20" + id, "/Users%20", "/%2e/Users", "/Users/..%5c..", "/.search", "/Groups", "/Me", "/Bulk", "", "/", "/Users/" + id + "/",
	} {
		got := rawGet(t, base+path, "")
		if got.status != 401 && got.status != 404 && got.status != 400 || strings.Contains(string(got.raw), name) || strings.Contains(string(got.raw), "Resources") {
			t.Errorf("%s without a credential: %d %s", path, got.status, clip(got.raw))
		}
		if got.status != 400 && strings.HasPrefix(path, "/Users") && got.header.Get("Content-Type") != "application/scim+json" {
			t.Errorf("%s: Content-Type is %q", path, got.header.Get("Content-Type"))
		}
		// And none of them leads somebody who may read to anything but that path.
		if got = rawGet(t, base+path, "Bearer "+acme.reader); got.status == 200 || got.status >= 500 || strings.Contains(string(got.raw), name) {
			t.Errorf("%s for a reader: %d %s", path, got.status, clip(got.raw))
		}
	}
	for _, path := range []string{"/api//scim/v2/Users", "/API/scim/v2/Users", "/api%2fscim%2fv2%2fUsers", "/x/../api/scim/v2/Users", "//api/scim/v2/Users", "/api/scim/v2/../v2/Users", "https://" + acme.host + "/api/scim/v2/Users"} {
		if got := rawGet(t, path, ""); got.status == 200 && len(got.raw) > 0 || got.status >= 500 || strings.Contains(string(got.raw), name) {
			t.Errorf("%s without a credential: %d %s", path, got.status, clip(got.raw))
		}
	}
	rawGet(t, base+"/Users/"+id, "Bearer "+acme.rfc).is(200).want("userName", name)
	rawGet(t, base+"/%55sers/"+id, "Bearer "+acme.rfc).is(200).want("userName", name)
	refused := []string{"/users", "//Users", "/Users/./" + id}
	if !inMemory { // whose front end does not make paths canonical
		refused = append(refused, "/Users%2f"+id)
	}
	for _, path := range refused {
		rawGet(t, base+path, "Bearer "+acme.rfc).refused(404, "")
	}
}

// Doyensec, "SCIM Hunting": authentication. Every refusal is a SCIM error that says how to do better.
func TestDoyensecAuthentication(t *testing.T) {
	for name, authorization := range map[string]string{
		"missing": "", "no scheme": acme.rfc, "Okta's non-token": "non-token", "empty": "Bearer ", "two blanks": "Bearer  ", "malformed": "Bearer nonsense",
		"well-formed, unknown": "Bearer sk-quoin-" + strings.Repeat("0", 50), "of another account": "Bearer " + globex.rfc, "other scheme": "Basic YTpi",
		"a JWT that nobody has signed": "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.", "cut": "Bearer " + acme.rfc[:len(acme.rfc)-1],
	} {
		for _, request := range []struct{ method, path, body string }{
			{"GET", "/Users", ""}, {"GET", "/Users/x", ""}, {"POST", "/Users", `{"userName":"x"}`}, {"PATCH", "/Groups/x", patch(`{"op":"remove","path":"members"}`)},
			{"DELETE", "/Users/x", ""}, {"POST", "/Bulk", `{}`}, {"POST", "/.search", `{}`}, {"GET", "/Me", ""}, {"GET", "/Nothing", ""},
		} {
			var body any
			if request.body != "" {
				body = request.body
			}
			got := as{acme, authorization, 0}.call(t, request.method, request.path, body)
			got.what = name + ": " + got.what
			got.refused(401, "")
			if !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer ") {
				t.Errorf("%s: WWW-Authenticate is %q", got.what, got.header.Get("WWW-Authenticate"))
			}
			if secret := strings.TrimPrefix(authorization, "Bearer "); len(secret) > 10 && strings.Contains(string(got.raw), secret) {
				t.Errorf("%s: the credential is shown: %s", got.what, got.raw)
			}
		}
	}
	as{acme, "", 0}.call(t, "GET", "/Users?access_token="+acme.rfc, nil).refused(401, "")
	as{acme, "", 0}.call(t, "GET", "/Users", nil, "X-Api-Key", acme.rfc, "Cookie", "token="+acme.rfc).refused(401, "")
	as{acme, "Api-Key " + acme.rfc, 0}.call(t, "GET", "/Users?count=0", nil).is(200)
	as{acme, "bearer " + acme.rfc, 0}.call(t, "GET", "/Users?count=0", nil).is(200)
}

// Keycloak #50985, #50986, #52599 and #50987: filters on members and groups told what the caller
// could not read. Keycloak #47536: verbs without their permission.
func TestKeycloak50985_NothingIsToldToWhomItIsForbidden(t *testing.T) {
	admin, run := acme.as(acme.rfc), runName()
	id := admin.user(t, "oracle-"+run)
	g := admin.group(t, "Oracle "+run, id)
	before := string(admin.call(t, "GET", "/Groups/"+g, nil).is(200).raw)
	search := func(filter string) string { return `{"schemas":["` + searchURN + `"],"filter":"` + filter + `"}` }
	for key, token := range map[string]string{"reader": acme.reader, "scoped": acme.scoped} {
		caller := acme.as(token)
		answers := map[string]string{}
		for _, request := range [][3]string{
			{"GET", "/Users", ""}, {"GET", "/Groups", ""}, {"GET", "/", ""}, {"GET", "/Users?count=0", ""}, {"GET", "/Users/" + id, ""}, {"GET", "/Users/nobody", ""},
			{"GET", `/Groups?filter=members.value+eq+%22` + id + `%22`, ""}, {"GET", `/Groups?filter=members.value+eq+%22nobody%22`, ""},
			{"GET", `/Users?filter=groups.value+eq+%22` + g + `%22`, ""}, {"GET", `/Users?filter=nothing`, ""}, {"GET", `/Users?filter=password+pr`, ""},
			{"POST", "/.search", search("id pr")}, {"POST", "/Groups/.search", search(`members.value eq \"` + id + `\"`)}, {"POST", "/Users/.search", "{"},
			{"POST", "/Users", `{"userName":"oracle-` + run + `"}`}, {"POST", "/Users", `{"userName":"free-` + run + `"}`}, {"POST", "/Groups", `{"displayName":"Oracle ` + run + `"}`},
			{"PUT", "/Users/" + id, `{"userName":"taken"}`}, {"PATCH", "/Groups/" + g, patch(`{"op":"remove","path":"members"}`)}, {"PATCH", "/Groups/nobody", patch(`{"op":"remove","path":"members"}`)},
			{"DELETE", "/Users/" + id, ""}, {"DELETE", "/Users/nobody", ""}, {"DELETE", "/Groups/" + g, ""}, {"PUT", "/Me", `{"userName":"x"}`}, {"DELETE", "/Me", ""},
			{"POST", "/Bulk", `{"schemas":["` + bulkURN + `"],"Operations":[{"method":"DELETE","path":"/Users/` + id + `"}]}`},
		} {
			var body any
			if request[2] != "" {
				body = request[2]
			}
			got := caller.call(t, request[0], request[1], body)
			got.refused(403, "", "ScimManage")
			answers[string(got.raw)] = got.what
		}
		if len(answers) != 1 {
			t.Errorf("%s: the refusals differ, and so tell something: %v", key, answers)
		}
		caller.call(t, "GET", "/ServiceProviderConfig", nil).is(200)
	}
	if after := string(admin.call(t, "GET", "/Groups/"+g, nil).is(200).raw); after != before {
		t.Errorf("was %s\nis %s", before, after)
	}
}

// authentik GHSA-9m7q-6qg6-888h: a client took over users and groups that it had not made, by their
// names. CISO Assistant #4658 and GitLab CVE-2022-1680: one was found by its e-mail address, which
// then was changed.
func TestAuthentikGHSA9m7q_NothingIsAdopted(t *testing.T) {
	run := runName()
	owner, other := acme.as(acme.okta), acme.as(acme.entra)
	id := owner.user(t, "owned-"+run, `"externalId":"okta-`+run+`"`, `"emails":[{"value":"owned-`+run+`@x.test","primary":true}]`, `"active":true`)
	g := owner.group(t, "Admins "+run, id)
	user, group := owner.call(t, "GET", "/Users/"+id, nil).is(200), owner.call(t, "GET", "/Groups/"+g, nil).is(200)
	for _, name := range []string{"owned-" + run, "OWNED-" + strings.ToUpper(run)} {
		for _, rest := range []string{`"active":false`, `"emails":[{"value":"thief@x.test"}]`, `"externalId":"okta-` + run + `"`, `"id":"` + id + `"`} {
			other.call(t, "POST", "/Users", `{"userName":"`+name+`",`+rest+`}`).refused(409, "uniqueness", "userName")
		}
	}
	other.call(t, "POST", "/Groups", `{"displayName":"admins `+run+`","externalId":"x","members":[]}`).refused(409, "uniqueness", "displayName")
	// Same e-mail address, same externalId: another user.
	namesake := other.user(t, "namesake-"+run, `"externalId":"okta-`+run+`"`, `"emails":[{"value":"owned-`+run+`@x.test"}]`)
	if namesake == id {
		t.Error("a user was found by its e-mail address")
	}
	other.call(t, "PATCH", "/Users/"+namesake, patch(`{"op":"replace","path":"emails","value":[{"value":"thief@x.test"}]}`)).is(200)
	other.call(t, "PATCH", "/Users/"+namesake, patch(`{"op":"replace","path":"userName","value":"owned-`+run+`"}`)).refused(409, "uniqueness")
	for before, now := range map[*answer]*answer{user: owner.call(t, "GET", "/Users/"+id, nil).is(200), group: owner.call(t, "GET", "/Groups/"+g, nil).is(200)} {
		if string(before.raw) != string(now.raw) {
			t.Errorf("was %s\nis %s", before.raw, now.raw)
		}
	}
	// A conflict does not show whom it is with.
	if got := other.call(t, "POST", "/Users", `{"userName":"owned-`+run+`"}`); strings.Contains(string(got.raw), id) {
		t.Errorf("the other's id is shown: %s", got.raw)
	}
}

// Mass assignment (Doyensec): what the server says of a resource is no wish of the client's, and
// what is in no schema is refused.
func TestDoyensecMassAssignment(t *testing.T) {
	a, run := acme.as(acme.rfc), runName()
	g := a.group(t, "Powerful "+run)
	id := a.user(t, "mass-"+run, `"id":"root"`, `"groups":[{"value":"`+g+`"}]`, `"meta":{"resourceType":"Group","created":"2000-01-01T00:00:00Z","version":"W/\"9\"","location":"https://evil.test"}`)
	got := a.call(t, "GET", "/Users/"+id, nil).is(200).want("groups", nil).want("meta.resourceType", "User").want("meta.location", acme.base()+"/Users/"+id)
	if id == "root" || strings.HasPrefix(got.text("meta.created"), "2000") || got.text("meta.version") == `W/"9"` {
		t.Errorf("the client's meta is believed: %s", got.raw)
	}
	for _, member := range []string{`"isAdmin":true`, `"permissions":["*"]`, `"status":{"conditions":[]}`, `"spec":{}`, `"metadata":{"namespace":"globex"}`, `"account":"globex"`, `"emailVerified":true`, `"Role":"Admin"`} {
		a.call(t, "POST", "/Users", `{"userName":"mass2-`+run+`",`+member+`}`).refused(400, "invalidSyntax", strings.Split(member, `"`)[1])
		a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"add","value":{`+member+`}}`)).refused(400, "invalidSyntax")
	}
	for _, path := range []string{"groups", "meta.created", "id", "schemas", `groups[value eq \"` + g + `\"]`} {
		a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"add","path":"`+path+`","value":[{"value":"`+g+`"}]}`)).refused(400, "mutability")
	}
	a.call(t, "GET", "/Groups/"+g, nil).is(200).want("members", nil)
	// A method in a header is none.
	a.call(t, "GET", "/Users/"+id, nil, "X-HTTP-Method-Override", "DELETE").is(200)
	a.call(t, "POST", "/Users/.search", `{"schemas":["`+searchURN+`"],"filter":"id eq \"`+id+`\""}`, "X-HTTP-Method", "DELETE").is(200).want("totalResults", 1)
	a.call(t, "GET", "/Users/"+id, nil).is(200)
}

// locations of an answer are those of the configured address, whatever the request says of its host:
// a client that follows them would else take its token to somebody else.
func TestHostHeaderIsInNoLocation(t *testing.T) {
	a, run := acme.as(acme.rfc), runName()
	headers := []string{"X-Forwarded-Host", "evil.test", "X-Forwarded-Proto", "http", "X-Forwarded-Prefix", "/evil", "Forwarded", "host=evil.test;proto=http", "X-Original-URL", "/evil", "X-Host", "evil.test"}
	id := a.user(t, "host-"+run)
	created := a.call(t, "POST", "/Groups", `{"displayName":"Host `+run+`","members":[{"value":"`+id+`","$ref":"https://evil.test/Users/1"}]}`, headers...).is(201)
	g := created.text("id")
	t.Cleanup(func() { a.tidy(t, "/Groups/"+g) })
	if got, want := created.header.Get("Location"), acme.base()+"/Groups/"+g; got != want {
		t.Errorf("Location is %q, not %q", got, want)
	}
	put := a.call(t, "PUT", "/Groups/"+g, `{"displayName":"Host `+run+`","members":[{"value":"`+id+`","$ref":"https://evil.test/Users/2"}]}`, headers...).is(200)
	patched := a.call(t, "PATCH", "/Groups/"+g, patch(`{"op":"replace","path":"members","value":[{"value":"`+id+`","$ref":"https://evil.test/Users/3"}]}`), headers...).is(200)
	added := a.call(t, "PATCH", "/Groups/"+g, patch(`{"op":"add","path":"members[value eq \"`+id+`\"].$ref","value":"https://evil.test/Users/4"}`), headers...)
	managed := a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"add","path":"`+enterpriseURN+`:manager","value":{"value":"`+id+`","$ref":"https://evil.test/Users/5"}}`), headers...).is(200)
	for _, got := range []*answer{created, put, patched, added, managed, a.call(t, "GET", "/Groups/"+g, nil, headers...).is(200), a.call(t, "GET", "/Users", nil, headers...).is(200), a.call(t, "GET", "/Schemas", nil, headers...).is(200)} {
		if strings.Contains(fmt.Sprint(got.header, string(got.raw)), "evil") {
			t.Errorf("%s: the request's host is in the answer: %v %s", got.what, got.header, clip(got.raw))
		}
	}
	put.want("members.0.$ref", acme.base()+"/Users/"+id)
}
