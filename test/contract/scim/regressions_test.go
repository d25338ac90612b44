package scim_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// Regression tests for known problems of other SCIM servers.

// TestEntraPatchShapes: PATCH shapes of Entra ID: SCIMMY "wontfix", elimity 400, zulip 501, Rancher 400, scimple PR #1244.
// All shapes in one request.
func TestEntraPatchShapes(t *testing.T) {
	for key, token := range map[string]string{"entra": acme.Entra, "auto": acme.Auto} {
		t.Run(key, func(t *testing.T) {
			a, run := acme.WithToken(token), scimtest.RunID()
			boss, id := a.CreateUser(t, "boss-"+run), a.CreateUser(t, "shapes-"+run, `"active":true`, `"title":"T"`)
			got := a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(
				`{"op":"Replace","path":"active","value":"False"}`,
				`{"op":"Add","path":"emails[type eq \"work\"].value","value":"work@x.test"}`,
				`{"op":"Replace","path":"phoneNumbers[type eq \"mobile\"].value","value":"1"}`,
				`{"op":"Add","path":"`+scimtest.EnterpriseURN+`:manager","value":"`+boss+`"}`,
				`{"op":"Add","path":"`+scimtest.UserURN+`:displayName","value":"D"}`,
				`{"op":"Add","path":"roles[primary eq \"True\"].value","value":"R"}`,
				`{"op":"Replace","path":"title","value":""}`,
				`{"op":"Replace","value":{"name.givenName":"G","`+scimtest.EnterpriseURN+`:department":"E"}}`,
			)).WantStatus(200)
			got.Want("active", false).Want("emails.0.type", "work").Want("emails.0.value", "work@x.test").Want("phoneNumbers.0.type", "mobile").Want("displayName", "D").Want("title", nil)
			got.Want("["+scimtest.EnterpriseURN+"].manager.value", boss).Want("["+scimtest.EnterpriseURN+"].department", "E").Want("roles.0.primary", true).Want("roles.0.value", "R").Want("name.givenName", "G")
			g := a.CreateGroup(t, "Shapes "+run, boss, id)
			a.Call(t, "PATCH", "/Groups/"+g, scimtest.PatchBody(`{"op":"Remove","path":"members","value":[{"$ref":null,"value":"`+boss+`"}]}`)).WantStatus(204)
			left := a.Call(t, "GET", "/Groups/"+g, nil).WantStatus(200).Want("members.0.value", id)
			if len(left.List("members")) != 1 {
				t.Errorf("members are %v", left.List("members"))
			}
		})
	}
}

// TestLargeGroupPatch: slow or truncated large groups (FusionAuth #2784: over 100 members, a PATCH removed some).
func TestLargeGroupPatch(t *testing.T) {
	a, run := acme.WithToken(acme.RFC), scimtest.RunID()
	n := map[bool]int{true: 1500, false: 250}[scimtest.InMemory]
	ids := a.CreateUsers(t, "big-"+run, n+1)
	g := a.CreateGroup(t, "Big "+run, ids[:n]...)
	members := func() []string {
		var found []string
		for _, m := range a.Call(t, "GET", "/Groups/"+g, nil).WantStatus(200).List("members") {
			value, _ := m["value"].(string)
			found = append(found, value)
		}
		slices.Sort(found)
		return found
	}
	all := slices.Sorted(slices.Values(ids[:n]))
	if got := members(); !slices.Equal(got, all) {
		t.Fatalf("%d members of %d", len(got), n)
	}
	began := time.Now()
	changed := a.Call(t, "PATCH", "/Groups/"+g, scimtest.PatchBody(`{"op":"add","path":"members","value":[{"value":"`+ids[n]+`"}]}`, `{"op":"remove","path":"members[value eq \"`+ids[0]+`\"]"}`))
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("a PATCH of two members of %d took %s", n, took)
	}
	if want := map[bool]int{true: 204, false: 200}[n > 1000]; changed.Status != want {
		t.Errorf("%d, want %d: a large group is returned on request only", changed.Status, want)
	}
	if got := members(); !slices.Equal(got, slices.Sorted(slices.Values(ids[1:]))) {
		t.Errorf("%d members of %d after the PATCH", len(got), n)
	}
	a.Call(t, "PATCH", "/Groups/"+g+"?attributes=displayName", scimtest.PatchBody(`{"op":"replace","path":"displayName","value":"Bigger `+run+`"}`)).WantStatus(200).Want("displayName", "Bigger "+run).Want("members", nil)
	if got := members(); len(got) != n {
		t.Errorf("%d members of %d after a change of the name", len(got), n)
	}
	a.Call(t, "GET", "/Groups/"+g+"?excludedAttributes=members", nil).WantStatus(200).Want("members", nil)
	a.Call(t, "GET", "/Groups?filter="+url.QueryEscape(`members.value eq "`+ids[n]+`"`)+"&excludedAttributes=members", nil).WantStatus(200).Want("totalResults", 1).Want("Resources.0.members", nil)
}

// TestListConsistency: wrong totalResults, unstable pages, ignored count (WSO2, authentik, FusionAuth).
func TestListConsistency(t *testing.T) {
	a, run := acme.WithToken(acme.RFC), scimtest.RunID()
	ids := a.CreateUsers(t, "listed-"+run, 23)
	filter := "filter=" + url.QueryEscape(`userName sw "listed-`+run+`"`)
	for _, order := range []string{"", "&sortBy=userName", "&sortBy=userName&sortOrder=descending", "&sortBy=title"} {
		var first, second []string
		for _, read := range []*[]string{&first, &second} {
			for start := 1; start <= 23; start += 5 {
				page := a.Call(t, "GET", fmt.Sprintf("/Users?%s&startIndex=%d&count=5%s", filter, start, order), nil).WantStatus(200).Want("totalResults", 23).Want("startIndex", start).Want("itemsPerPage", min(5, 24-start))
				for _, r := range page.List("Resources") {
					id, _ := r["id"].(string)
					*read = append(*read, id)
				}
			}
		}
		if !slices.Equal(first, second) {
			t.Errorf("%q: the order is not stable", order)
		}
		if slices.Sort(first); !slices.Equal(first, slices.Sorted(slices.Values(ids))) {
			t.Errorf("%q: missing or duplicate resources: %d of %d", order, len(first), len(ids))
		}
	}
	// Pages after the end are empty.
	a.Call(t, "GET", "/Users?"+filter+"&startIndex=101&count=10", nil).WantStatus(200).Want("totalResults", 23).Want("itemsPerPage", 0).Want("Resources.0", nil)
	a.Call(t, "GET", "/Users?"+filter+"&count=0", nil).WantStatus(200).Want("totalResults", 23).Want("itemsPerPage", 0)
	a.Call(t, "GET", "/Users?"+filter+"&startIndex=-3&count=2", nil).WantStatus(200).Want("startIndex", 1).Want("itemsPerPage", 2)
	// Cursor pagination returns each remaining resource once, despite concurrent writes.
	seen, gone := map[string]int{}, map[string]bool{ids[1]: true, ids[20]: true}
	cursor, pages := "", 0
	for {
		page := a.Call(t, "GET", "/Users?"+filter+"&count=4&cursor="+cursor, nil).WantStatus(200)
		for _, r := range page.List("Resources") {
			id, _ := r["id"].(string)
			seen[id]++
		}
		if pages++; pages == 2 {
			for id := range gone {
				a.Call(t, "DELETE", "/Users/"+id, nil).WantStatus(204)
			}
			a.CreateUser(t, "listed-"+run+"-new")
		}
		if cursor = page.Text("nextCursor"); cursor == "" {
			break
		}
	}
	for _, id := range ids {
		if seen[id] != 1 && !gone[id] || seen[id] > 1 {
			t.Errorf("%s is returned %d times", id, seen[id])
		}
	}
}

// TestFilterErrors: unsupported filters that return all resources or 500. All operators of the RFC are
// supported, and invalid filters are rejected with the position.
func TestFilterErrors(t *testing.T) {
	a, run := acme.WithToken(acme.RFC), scimtest.RunID()
	a.CreateUser(t, "f1-"+run, `"displayName":"F `+run+`"`, `"active":true`, `"title":"Engineer"`, `"emails":[{"value":"f1@work.test","type":"work","primary":true},{"value":"f1@home.test","type":"home"}]`, `"`+scimtest.AttributesURN+`":{"level":5}`)
	a.CreateUser(t, "f2-"+run, `"displayName":"F `+run+`"`, `"active":false`, `"emails":[{"value":"f2@home.test","type":"home"}]`)
	for filter, want := range map[string]int{
		`userName eq "F1-` + run + `"`: 1, `userName ne "f1-` + run + `"`: 1, `userName co "1-"`: 1, `userName sw "F"`: 2, `userName ew "` + run + `"`: 2, `title pr`: 1, `not (title pr)`: 1, `not title pr`: 1,
		`userName gt "f1-` + run + `"`: 1, `userName ge "f1-` + run + `"`: 2, `userName lt "f2"`: 1, `userName le "f1-` + run + `"`: 1, `active eq true`: 1, `active eq "True"`: 1, `active ne true`: 1,
		`meta.created gt "2020-01-01T00:00:00Z"`: 2, `meta.lastModified lt "2020-01-01T00:00:00Z"`: 0, `title eq "engineer" or active eq false`: 2, `title eq "x" or active eq false and userName sw "f2"`: 1,
		`emails[type eq "work"]`: 1, `emails[type eq "work" and value co "home"]`: 0, `emails[type eq "home"].value eq "f2@home.test"`: 1, `emails.type eq "home"`: 2, `emails eq "f1@home.test"`: 1, `emails[not (type eq "home") or primary eq true]`: 1,
		scimtest.AttributesURN + `:level gt 4`: 1, scimtest.UserURN + `:title pr`: 1, `title eq null`: 1, `((((title eq "Engineer"))))`: 1, `meta.resourceType eq "User"`: 2, `schemas eq "` + scimtest.AttributesURN + `"`: 1,
	} {
		wantTotal(a.Call(t, "GET", "/Users?filter="+url.QueryEscape(`displayName eq "F `+run+`" and (`+filter+`)`), nil).WantStatus(200), filter, want)
	}
	for filter, position := range map[string]string{`userName xx "a"`: "position 10", `userName eq "a" and`: "position 20", `userName eq "a`: "position 15", `nothing eq "a"`: "position 1", `active gt true`: "position 8", `userName eq "a" or (b`: "position 22"} {
		a.Call(t, "GET", "/Users?filter="+url.QueryEscape(filter), nil).WantError(400, "invalidFilter", position)
	}
}

func wantTotal(a *scimtest.Response, filter string, total int) {
	a.T.Helper()
	if a.Value("totalResults") != float64(total) {
		a.T.Errorf("%s: %v, not %d: %s", filter, a.Value("totalResults"), total, scimtest.Truncate(a.Raw))
	}
}

// TestOptionalFeatures: missing bulk, sort, ETag and value paths (Keycloak #50366, WSO2 #11403, Zitadel).
// authentik #25056: clients disable PATCH if the limits of bulk are missing.
func TestOptionalFeatures(t *testing.T) {
	a, run := acme.WithToken(acme.RFC), scimtest.RunID()
	config := a.Call(t, "GET", "/ServiceProviderConfig", nil).WantStatus(200)
	for _, feature := range []string{"patch", "bulk", "filter", "sort", "etag"} {
		config.Want(feature+".supported", true)
	}
	config.Want("bulk.maxOperations", 1000).Want("bulk.maxPayloadSize", 1<<20).Want("filter.maxResults", 1000).Want("changePassword.supported", false).Want("pagination.cursor", true)
	b, c := a.CreateUser(t, "b-"+run, `"title":"`+run+`"`), a.CreateUser(t, "a-"+run, `"title":"`+run+`"`)
	filter := "filter=" + url.QueryEscape(`title eq "`+run+`"`)
	a.Call(t, "GET", "/Users?"+filter+"&sortBy=userName", nil).WantStatus(200).Want("Resources.0.id", c).Want("Resources.1.id", b)
	a.Call(t, "GET", "/Users?"+filter+"&sortBy=userName&sortOrder=descending", nil).WantStatus(200).Want("Resources.0.id", b)
	etag := a.Call(t, "GET", "/Users/"+b, nil).WantStatus(200).Header.Get("ETag")
	if got := a.Call(t, "GET", "/Users/"+b, nil, "If-None-Match", etag); got.Status != 304 || len(got.Raw) > 0 {
		t.Errorf("If-None-Match: %d %s", got.Status, got.Raw)
	}
	changed := a.Call(t, "PATCH", "/Users/"+b, scimtest.PatchBody(`{"op":"add","path":"nickName","value":"N"}`), "If-Match", etag).WantStatus(200)
	if changed.Header.Get("ETag") == etag || changed.Header.Get("ETag") != changed.Text("meta.version") {
		t.Errorf("ETag before %q, after %q, meta.version %q", etag, changed.Header.Get("ETag"), changed.Text("meta.version"))
	}
	a.Call(t, "PATCH", "/Users/"+b, scimtest.PatchBody(`{"op":"add","path":"nickName","value":"M"}`), "If-Match", etag).WantError(412, "")
	a.Call(t, "PATCH", "/Users/"+b, scimtest.PatchBody(`{"op":"add","path":"emails","value":[{"value":"x@x.test","type":"work"}]}`, `{"op":"replace","path":"emails[type eq \"work\" and value co \"x\"].value","value":"y@x.test"}`)).WantStatus(200).Want("emails.0.value", "y@x.test").Want("nickName", "N")
	g := a.CreateGroup(t, "Nothing missing "+run)
	results := a.Call(t, "POST", "/Bulk", `{"schemas":["`+scimtest.BulkURN+`"],"Operations":[{"method":"PATCH","path":"/Groups/`+g+`","data":`+scimtest.PatchBody(`{"op":"add","path":"members","value":[{"value":"`+b+`"}]}`)+`},{"method":"GET","path":"/Users"},{"method":"DELETE","path":"/Users/`+c+`"}]}`).WantStatus(200)
	results.Want("Operations.0.status", "200").Want("Operations.1.status", "400").Want("Operations.2.status", "204")
	a.Call(t, "GET", "/Groups?filter="+url.QueryEscape(`displayName eq "nothing missing `+run+`" and members[value eq "`+b+`"]`), nil).WantStatus(200).Want("totalResults", 1)
}

// TestErrorDetails: errors without a cause. Each error names the cause, the position and the allowed values.
func TestErrorDetails(t *testing.T) {
	a, run := acme.WithToken(acme.RFC), scimtest.RunID()
	id := a.CreateUser(t, "reason-"+run)
	user := "/Users/" + id
	for _, c := range []struct {
		method, path, body string
		status             int
		scimType           string
		words              []string
	}{
		{"POST", "/Users", `{"displayName":"x"}`, 400, "invalidValue", []string{"userName", "required"}},
		{"POST", "/Users", `{"userName":"y","active":"maybe"}`, 400, "invalidValue", []string{"active", "boolean", `"maybe"`}},
		{"POST", "/Users", `{"userName":"y","emails":{"a":1}}`, 400, "invalidSyntax", []string{"emails[0].a"}},
		{"POST", "/Users", `{"userName":"y","emails":"z"}`, 400, "invalidValue", []string{"emails", "list", `"z"`}},
		{"POST", "/Users", `{"userName":"y","shoeSize":42}`, 400, "invalidSyntax", []string{"shoeSize", "User"}},
		{"POST", "/Users", `{"schemas":["urn:x:y"],"userName":"y"}`, 400, "invalidSyntax", []string{"schemas[0]", "urn:x:y", "/Schemas"}},
		{"POST", "/Users", `{"schemas":["` + scimtest.GroupURN + `"],"userName":"y"}`, 400, "invalidSyntax", []string{"schemas[0]", scimtest.GroupURN, "User"}},
		{"POST", "/Users", `{"userName":"REASON-` + run + `"}`, 409, "uniqueness", []string{"userName"}},
		{"POST", "/Users", `{"userName":"y"`, 400, "invalidSyntax", []string{"JSON"}},
		{"PATCH", user, `{"schemas":["x"],"Operations":[]}`, 400, "invalidSyntax", []string{"schemas", scimtest.PatchURN}},
		{"PATCH", user, scimtest.PatchBody(), 400, "invalidSyntax", []string{"Operations"}},
		{"PATCH", user, scimtest.PatchBody(`{"op":"add","path":"title","value":"x"}`, `{"op":"move","path":"title"}`), 400, "invalidSyntax", []string{"Operations[1].op", "add", "remove", "replace", `"move"`}},
		{"PATCH", user, scimtest.PatchBody(`{"op":"add","path":"shoeSize","value":1}`), 400, "invalidPath", []string{"Operations[0].path", "shoeSize", "User"}},
		{"PATCH", user, scimtest.PatchBody(`{"op":"add","path":"emails[type eq","value":1}`), 400, "invalidPath", []string{"Operations[0].path", "position"}},
		{"PATCH", user, scimtest.PatchBody(`{"op":"replace","path":"emails[type eq \"x\"].value","value":"y"}`), 400, "noTarget", []string{"Operations[0].path", "emails"}},
		{"PATCH", user, scimtest.PatchBody(`{"op":"replace","path":"id","value":"y"}`), 400, "mutability", []string{"Operations[0].path", "id", "read-only"}},
		{"PATCH", user, scimtest.PatchBody(`{"op":"remove","path":"userName"}`), 400, "mutability", []string{"userName", "required"}},
		{"PATCH", user, scimtest.PatchBody(`{"op":"remove"}`), 400, "noTarget", []string{"path"}},
		{"PATCH", user, scimtest.PatchBody(`{"op":"add","path":"title"}`), 400, "invalidValue", []string{"Operations[0].value"}},
		{"GET", "/Users?sortBy=shoeSize", "", 400, "invalidValue", []string{"sortBy", "shoeSize"}},
		{"GET", "/Users?sortBy=userName&sortOrder=up", "", 400, "invalidValue", []string{"sortOrder", "ascending", `"up"`}},
		{"GET", "/Users?attributes=shoeSize", "", 400, "invalidValue", []string{"attributes", "shoeSize"}},
		{"GET", "/Users?attributes=userName&excludedAttributes=title", "", 400, "invalidValue", []string{"attributes", "excludedAttributes"}},
		{"GET", "/Users?count=many", "", 400, "invalidValue", []string{"count", `"many"`}},
		{"GET", "/Users/nobody", "", 404, "", []string{"User", `"nobody"`}},
		{"GET", "/Robots", "", 404, "", []string{"Robots", "/ResourceTypes"}},
	} {
		a.Call(t, c.method, c.path, scimtest.Body(c.body)).WantError(c.status, c.scimType, c.words...)
	}
	a.Call(t, "PUT", user, `{"userName":"y"}`, "If-Match", `W/"nothing"`).WantError(412, "", "If-Match", "W/")
	if got := a.Call(t, "GET", user, nil).WantStatus(200).Value("title"); got != nil {
		t.Errorf("a rejected PATCH was applied in part: title is %v", got)
	}
}

// TestDeprovisioning: users created again, deleted or stuck (Sentry #16258, Rancher #52996).
func TestDeprovisioning(t *testing.T) {
	a, run := acme.WithToken(acme.Okta), scimtest.RunID()
	name := `{"userName":"leaver-` + run + `","externalId":"x-` + run + `","active":true,"title":"T"}`
	id := a.Call(t, "POST", "/Users", name).WantStatus(201).Text("id")
	t.Cleanup(func() { a.Delete(t, "/Users/"+id) })
	g := a.CreateGroup(t, "Leavers "+run, id)
	a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","value":{"active":false}}`)).WantStatus(200)
	// The inactive user is still in lists, filters and groups.
	a.Call(t, "GET", "/Users/"+id, nil).WantStatus(200).Want("active", false).Want("title", "T").Want("groups.0.value", g)
	for _, filter := range []string{`userName eq "leaver-` + run + `"`, `externalId eq "x-` + run + `"`, `id eq "` + id + `" and active eq false`} {
		a.Call(t, "GET", "/Users?filter="+url.QueryEscape(filter), nil).WantStatus(200).Want("totalResults", 1).Want("Resources.0.active", false)
	}
	// Creating it again fails and does not activate it.
	a.Call(t, "POST", "/Users", name).WantError(409, "uniqueness")
	a.Call(t, "GET", "/Users/"+id, nil).WantStatus(200).Want("active", false)
	a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","value":{"active":true}}`)).WantStatus(200).Want("active", true).Want("groups.0.value", g)
	// Deleting a group keeps its members; deleting a user removes it from the group immediately.
	a.Call(t, "DELETE", "/Users/"+id, nil).WantStatus(204)
	a.Call(t, "DELETE", "/Users/"+id, nil).WantError(404, "")
	a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","value":{"active":true}}`)).WantError(404, "")
	a.Call(t, "PUT", "/Users/"+id, name).WantError(404, "")
	a.Call(t, "GET", "/Users?filter="+url.QueryEscape(`userName eq "leaver-`+run+`"`), nil).WantStatus(200).Want("totalResults", 0)
	a.Call(t, "GET", "/Groups/"+g, nil).WantStatus(200).Want("members", nil)
	// A user created again has a new id and no groups.
	again := a.Call(t, "POST", "/Users", name).WantStatus(201).Text("id")
	t.Cleanup(func() { a.Delete(t, "/Users/"+again) })
	if again == id {
		t.Error("the id is used again")
	}
	a.Call(t, "GET", "/Users/"+again, nil).WantStatus(200).Want("groups", nil)
	a.Call(t, "GET", "/Groups/"+g, nil).WantStatus(200).Want("members", nil)
}

// TestMembershipIsIdempotent: membership drift. Entra ID never reads members back, so changes must be
// idempotent and independent of their order.
func TestMembershipIsIdempotent(t *testing.T) {
	a, run := acme.WithToken(acme.Entra), scimtest.RunID()
	one, two := a.CreateUser(t, "drift1-"+run), a.CreateUser(t, "drift2-"+run)
	g := a.CreateGroup(t, "Drift "+run)
	change := func(op string, ids ...string) string {
		return scimtest.PatchBody(`{"op":"` + op + `","path":"members","value":[{"$ref":null,"value":"` + strings.Join(ids, `"},{"$ref":null,"value":"`) + `"}]}`)
	}
	version := func() string { return a.Call(t, "GET", "/Groups/"+g, nil).WantStatus(200).Text("meta.version") }
	count := func(want int) {
		t.Helper()
		if got := a.Call(t, "GET", "/Groups/"+g, nil).WantStatus(200).List("members"); len(got) != want {
			t.Errorf("%d members, not %d: %v", len(got), want, got)
		}
	}
	a.Call(t, "PATCH", "/Groups/"+g, change("Add", one, one, two)).WantStatus(204)
	count(2)
	before := version()
	a.Call(t, "PATCH", "/Groups/"+g, change("Add", two, one)).WantStatus(204)
	if after := version(); after != before {
		t.Errorf("adding existing members: version %s, was %s", after, before)
	}
	a.Call(t, "PATCH", "/Groups/"+g, change("Remove", one)).WantStatus(204)
	before = version()
	a.Call(t, "PATCH", "/Groups/"+g, change("Remove", one)).WantStatus(204)
	if after := version(); after != before {
		t.Errorf("removing missing members: version %s, was %s", after, before)
	}
	count(1)
	// Members of groups and groups of users are consistent.
	a.Call(t, "GET", "/Users/"+two, nil).WantStatus(200).Want("groups.0.value", g)
	a.Call(t, "GET", "/Users/"+one, nil).WantStatus(200).Want("groups", nil)
	a.Call(t, "GET", "/Users?filter="+url.QueryEscape(`groups.value eq "`+g+`"`), nil).WantStatus(200).Want("totalResults", 1).Want("Resources.0.id", two)
	a.Call(t, "GET", "/Groups?filter="+url.QueryEscape(`members.value eq "`+two+`"`), nil).WantStatus(200).Want("totalResults", 1).Want("Resources.0.id", g)
	// Several operations in one request are applied in order.
	a.Call(t, "PATCH", "/Groups/"+g, scimtest.PatchBody(
		`{"op":"Add","path":"members","value":[{"value":"`+one+`"}]}`, `{"op":"Remove","path":"members","value":[{"value":"`+two+`"}]}`,
		`{"op":"Remove","path":"members","value":[{"value":"`+one+`"}]}`, `{"op":"Add","path":"members","value":[{"value":"`+two+`"}]}`,
	)).WantStatus(204)
	count(1)
	a.Call(t, "GET", "/Groups/"+g, nil).WantStatus(200).Want("members.0.value", two)
}
