package scim_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// What users of other servers complain of, in the order of shared/domain/scim.md section 7: a test
// for each that ours gives them no reason to.

// 1. Entra's PATCH shapes: SCIMMY "wontfix", elimity 400, zulip 501, Rancher 400, scimple PR #1244.
// All of them in one request, as a client sends them that has never heard of any of these servers.
func TestComplaint1_EntraPatchShapesBreakNothing(t *testing.T) {
	for key, token := range map[string]string{"entra": acme.entra, "auto": acme.auto} {
		t.Run(key, func(t *testing.T) {
			a, run := acme.as(token), runName()
			boss, id := a.user(t, "boss-"+run), a.user(t, "shapes-"+run, `"active":true`, `"title":"T"`)
			got := a.call(t, "PATCH", "/Users/"+id, patch(
				`{"op":"Replace","path":"active","value":"False"}`,
				`{"op":"Add","path":"emails[type eq \"work\"].value","value":"work@x.test"}`,
				`{"op":"Replace","path":"phoneNumbers[type eq \"mobile\"].value","value":"1"}`,
				`{"op":"Add","path":"`+enterpriseURN+`:manager","value":"`+boss+`"}`,
				`{"op":"Add","path":"`+userURN+`:displayName","value":"D"}`,
				`{"op":"Add","path":"roles[primary eq \"True\"].value","value":"R"}`,
				`{"op":"Replace","path":"title","value":""}`,
				`{"op":"Replace","value":{"name.givenName":"G","`+enterpriseURN+`:department":"E"}}`,
			)).is(200)
			got.want("active", false).want("emails.0.type", "work").want("emails.0.value", "work@x.test").want("phoneNumbers.0.type", "mobile").want("displayName", "D").want("title", nil)
			got.want("["+enterpriseURN+"].manager.value", boss).want("["+enterpriseURN+"].department", "E").want("roles.0.primary", true).want("roles.0.value", "R").want("name.givenName", "G")
			g := a.group(t, "Shapes "+run, boss, id)
			a.call(t, "PATCH", "/Groups/"+g, patch(`{"op":"Remove","path":"members","value":[{"$ref":null,"value":"`+boss+`"}]}`)).is(204)
			left := a.call(t, "GET", "/Groups/"+g, nil).is(200).want("members.0.value", id)
			if len(left.list("members")) != 1 {
				t.Errorf("members are %v", left.list("members"))
			}
		})
	}
}

// 2. Big groups: slow or truncated (FusionAuth #2784: over 100 members, a PATCH removed some).
func TestComplaint2_BigGroupsAreWholeAndQuick(t *testing.T) {
	a, run := acme.as(acme.rfc), runName()
	n := map[bool]int{true: 1500, false: 250}[inMemory]
	ids := a.users(t, "big-"+run, n+1)
	g := a.group(t, "Big "+run, ids[:n]...)
	members := func() []string {
		var found []string
		for _, m := range a.call(t, "GET", "/Groups/"+g, nil).is(200).list("members") {
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
	changed := a.call(t, "PATCH", "/Groups/"+g, patch(`{"op":"add","path":"members","value":[{"value":"`+ids[n]+`"}]}`, `{"op":"remove","path":"members[value eq \"`+ids[0]+`\"]"}`))
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("a PATCH of two members of %d took %s", n, took)
	}
	if want := map[bool]int{true: 204, false: 200}[n > 1000]; changed.status != want {
		t.Errorf("%d, not %d: a big group is shown to those who ask", changed.status, want)
	}
	if got := members(); !slices.Equal(got, slices.Sorted(slices.Values(ids[1:]))) {
		t.Errorf("%d members of %d after the PATCH", len(got), n)
	}
	a.call(t, "PATCH", "/Groups/"+g+"?attributes=displayName", patch(`{"op":"replace","path":"displayName","value":"Bigger `+run+`"}`)).is(200).want("displayName", "Bigger "+run).want("members", nil)
	if got := members(); len(got) != n {
		t.Errorf("%d members of %d after a change of the name", len(got), n)
	}
	a.call(t, "GET", "/Groups/"+g+"?excludedAttributes=members", nil).is(200).want("members", nil)
	a.call(t, "GET", "/Groups?filter="+url.QueryEscape(`members.value eq "`+ids[n]+`"`)+"&excludedAttributes=members", nil).is(200).want("totalResults", 1).want("Resources.0.members", nil)
}

// users are many, made and taken away in bulk.
func (a as) users(t *testing.T, prefix string, n int) []string {
	t.Helper()
	ids := make([]string, 0, n)
	for len(ids) < n {
		var operations []string
		for i := range min(500, n-len(ids)) {
			operations = append(operations, fmt.Sprintf(`{"method":"POST","path":"/Users","bulkId":"%d","data":{"userName":"%s-%05d"}}`, i, prefix, len(ids)+i))
		}
		for _, o := range a.call(t, "POST", "/Bulk", `{"schemas":["`+bulkURN+`"],"Operations":[`+strings.Join(operations, ",")+`]}`).is(200).list("Operations") {
			location, _ := o["location"].(string)
			if o["status"] != "201" {
				t.Fatal(o)
			}
			ids = append(ids, location[strings.LastIndex(location, "/")+1:])
			t.Cleanup(func() { a.tidy(t, strings.TrimPrefix(location, a.base())) })
		}
	}
	return ids
}

// 3. Lists: wrong totalResults, unstable pages, ignored count (WSO2, authentik, FusionAuth).
func TestComplaint3_ListsAreWhatTheySay(t *testing.T) {
	a, run := acme.as(acme.rfc), runName()
	ids := a.users(t, "listed-"+run, 23)
	filter := "filter=" + url.QueryEscape(`userName sw "listed-`+run+`"`)
	for _, order := range []string{"", "&sortBy=userName", "&sortBy=userName&sortOrder=descending", "&sortBy=title"} {
		var first, second []string
		for _, read := range []*[]string{&first, &second} {
			for start := 1; start <= 23; start += 5 {
				page := a.call(t, "GET", fmt.Sprintf("/Users?%s&startIndex=%d&count=5%s", filter, start, order), nil).is(200).want("totalResults", 23).want("startIndex", start).want("itemsPerPage", min(5, 24-start))
				for _, r := range page.list("Resources") {
					id, _ := r["id"].(string)
					*read = append(*read, id)
				}
			}
		}
		if !slices.Equal(first, second) {
			t.Errorf("%q: the order is not the same twice", order)
		}
		if slices.Sort(first); !slices.Equal(first, slices.Sorted(slices.Values(ids))) {
			t.Errorf("%q: not each of them once: %d of %d", order, len(first), len(ids))
		}
	}
	// Behind the end there is nothing, not the first page again.
	a.call(t, "GET", "/Users?"+filter+"&startIndex=101&count=10", nil).is(200).want("totalResults", 23).want("itemsPerPage", 0).want("Resources.0", nil)
	a.call(t, "GET", "/Users?"+filter+"&count=0", nil).is(200).want("totalResults", 23).want("itemsPerPage", 0)
	a.call(t, "GET", "/Users?"+filter+"&startIndex=-3&count=2", nil).is(200).want("startIndex", 1).want("itemsPerPage", 2)
	// Who goes on by a cursor meets everybody who stays, once, whoever comes and goes meanwhile.
	seen, gone := map[string]int{}, map[string]bool{ids[1]: true, ids[20]: true}
	cursor, pages := "", 0
	for {
		page := a.call(t, "GET", "/Users?"+filter+"&count=4&cursor="+cursor, nil).is(200)
		for _, r := range page.list("Resources") {
			id, _ := r["id"].(string)
			seen[id]++
		}
		if pages++; pages == 2 {
			for id := range gone {
				a.call(t, "DELETE", "/Users/"+id, nil).is(204)
			}
			a.user(t, "listed-"+run+"-new")
		}
		if cursor = page.text("nextCursor"); cursor == "" {
			break
		}
	}
	for _, id := range ids {
		if seen[id] != 1 && !gone[id] || seen[id] > 1 {
			t.Errorf("%s is met %d times", id, seen[id])
		}
	}
}

// 4. Unsupported filters answered with everything or 500: all operators of the RFC are supported, and
// what is no filter is refused with the place of the mistake.
func TestComplaint4_FiltersAreAnsweredOrRefused(t *testing.T) {
	a, run := acme.as(acme.rfc), runName()
	a.user(t, "f1-"+run, `"displayName":"F `+run+`"`, `"active":true`, `"title":"Engineer"`, `"emails":[{"value":"f1@work.test","type":"work","primary":true},{"value":"f1@home.test","type":"home"}]`, `"`+attributesURN+`":{"level":5}`)
	a.user(t, "f2-"+run, `"displayName":"F `+run+`"`, `"active":false`, `"emails":[{"value":"f2@home.test","type":"home"}]`)
	for filter, want := range map[string]int{
		`userName eq "F1-` + run + `"`: 1, `userName ne "f1-` + run + `"`: 1, `userName co "1-"`: 1, `userName sw "F"`: 2, `userName ew "` + run + `"`: 2, `title pr`: 1, `not (title pr)`: 1, `not title pr`: 1,
		`userName gt "f1-` + run + `"`: 1, `userName ge "f1-` + run + `"`: 2, `userName lt "f2"`: 1, `userName le "f1-` + run + `"`: 1, `active eq true`: 1, `active eq "True"`: 1, `active ne true`: 1,
		`meta.created gt "2020-01-01T00:00:00Z"`: 2, `meta.lastModified lt "2020-01-01T00:00:00Z"`: 0, `title eq "engineer" or active eq false`: 2, `title eq "x" or active eq false and userName sw "f2"`: 1,
		`emails[type eq "work"]`: 1, `emails[type eq "work" and value co "home"]`: 0, `emails[type eq "home"].value eq "f2@home.test"`: 1, `emails.type eq "home"`: 2, `emails eq "f1@home.test"`: 1, `emails[not (type eq "home") or primary eq true]`: 1,
		attributesURN + `:level gt 4`: 1, userURN + `:title pr`: 1, `title eq null`: 1, `((((title eq "Engineer"))))`: 1, `meta.resourceType eq "User"`: 2, `schemas eq "` + attributesURN + `"`: 1,
	} {
		a.call(t, "GET", "/Users?filter="+url.QueryEscape(`displayName eq "F `+run+`" and (`+filter+`)`), nil).is(200).wantIn(filter, want)
	}
	for filter, position := range map[string]string{`userName xx "a"`: "position 10", `userName eq "a" and`: "position 20", `userName eq "a`: "position 15", `nothing eq "a"`: "position 1", `active gt true`: "position 8", `userName eq "a" or (b`: "position 22"} {
		a.call(t, "GET", "/Users?filter="+url.QueryEscape(filter), nil).refused(400, "invalidFilter", position)
	}
}

func (a *answer) wantIn(filter string, total int) {
	a.t.Helper()
	if a.at("totalResults") != float64(total) {
		a.t.Errorf("%s: %v, not %d: %s", filter, a.at("totalResults"), total, clip(a.raw))
	}
}

// 5. Missing bulk, sort, ETag, value paths (Keycloak #50366, WSO2 #11403, Zitadel): they are there, and
// /ServiceProviderConfig says so. authentik #25056: without bulk's limits it turns PATCH off.
func TestComplaint5_NothingIsMissing(t *testing.T) {
	a, run := acme.as(acme.rfc), runName()
	config := a.call(t, "GET", "/ServiceProviderConfig", nil).is(200)
	for _, feature := range []string{"patch", "bulk", "filter", "sort", "etag"} {
		config.want(feature+".supported", true)
	}
	config.want("bulk.maxOperations", 1000).want("bulk.maxPayloadSize", 1<<20).want("filter.maxResults", 1000).want("changePassword.supported", false).want("pagination.cursor", true)
	b, c := a.user(t, "b-"+run, `"title":"`+run+`"`), a.user(t, "a-"+run, `"title":"`+run+`"`)
	filter := "filter=" + url.QueryEscape(`title eq "`+run+`"`)
	a.call(t, "GET", "/Users?"+filter+"&sortBy=userName", nil).is(200).want("Resources.0.id", c).want("Resources.1.id", b)
	a.call(t, "GET", "/Users?"+filter+"&sortBy=userName&sortOrder=descending", nil).is(200).want("Resources.0.id", b)
	etag := a.call(t, "GET", "/Users/"+b, nil).is(200).header.Get("ETag")
	if got := a.call(t, "GET", "/Users/"+b, nil, "If-None-Match", etag); got.status != 304 || len(got.raw) > 0 {
		t.Errorf("If-None-Match: %d %s", got.status, got.raw)
	}
	changed := a.call(t, "PATCH", "/Users/"+b, patch(`{"op":"add","path":"nickName","value":"N"}`), "If-Match", etag).is(200)
	if changed.header.Get("ETag") == etag || changed.header.Get("ETag") != changed.text("meta.version") {
		t.Errorf("ETag was %q, is %q, and meta.version %q", etag, changed.header.Get("ETag"), changed.text("meta.version"))
	}
	a.call(t, "PATCH", "/Users/"+b, patch(`{"op":"add","path":"nickName","value":"M"}`), "If-Match", etag).refused(412, "")
	a.call(t, "PATCH", "/Users/"+b, patch(`{"op":"add","path":"emails","value":[{"value":"x@x.test","type":"work"}]}`, `{"op":"replace","path":"emails[type eq \"work\" and value co \"x\"].value","value":"y@x.test"}`)).is(200).want("emails.0.value", "y@x.test").want("nickName", "N")
	g := a.group(t, "Nothing missing "+run)
	results := a.call(t, "POST", "/Bulk", `{"schemas":["`+bulkURN+`"],"Operations":[{"method":"PATCH","path":"/Groups/`+g+`","data":`+patch(`{"op":"add","path":"members","value":[{"value":"`+b+`"}]}`)+`},{"method":"GET","path":"/Users"},{"method":"DELETE","path":"/Users/`+c+`"}]}`).is(200)
	results.want("Operations.0.status", "200").want("Operations.1.status", "400").want("Operations.2.status", "204")
	a.call(t, "GET", "/Groups?filter="+url.QueryEscape(`displayName eq "nothing missing `+run+`" and members[value eq "`+b+`"]`), nil).is(200).want("totalResults", 1)
}

// 6. Failures without a reason: each refusal names what is wrong, where, and what is allowed.
func TestComplaint6_RefusalsGiveTheirReason(t *testing.T) {
	a, run := acme.as(acme.rfc), runName()
	id := a.user(t, "reason-"+run)
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
		{"POST", "/Users", `{"schemas":["` + groupURN + `"],"userName":"y"}`, 400, "invalidSyntax", []string{"schemas[0]", groupURN, "User"}},
		{"POST", "/Users", `{"userName":"REASON-` + run + `"}`, 409, "uniqueness", []string{"userName"}},
		{"POST", "/Users", `{"userName":"y"`, 400, "invalidSyntax", []string{"JSON"}},
		{"PATCH", user, `{"schemas":["x"],"Operations":[]}`, 400, "invalidSyntax", []string{"schemas", patchURN}},
		{"PATCH", user, patch(), 400, "invalidSyntax", []string{"Operations"}},
		{"PATCH", user, patch(`{"op":"add","path":"title","value":"x"}`, `{"op":"move","path":"title"}`), 400, "invalidSyntax", []string{"Operations[1].op", "add", "remove", "replace", `"move"`}},
		{"PATCH", user, patch(`{"op":"add","path":"shoeSize","value":1}`), 400, "invalidPath", []string{"Operations[0].path", "shoeSize", "User"}},
		{"PATCH", user, patch(`{"op":"add","path":"emails[type eq","value":1}`), 400, "invalidPath", []string{"Operations[0].path", "position"}},
		{"PATCH", user, patch(`{"op":"replace","path":"emails[type eq \"x\"].value","value":"y"}`), 400, "noTarget", []string{"Operations[0].path", "emails"}},
		{"PATCH", user, patch(`{"op":"replace","path":"id","value":"y"}`), 400, "mutability", []string{"Operations[0].path", "id", "read-only"}},
		{"PATCH", user, patch(`{"op":"remove","path":"userName"}`), 400, "mutability", []string{"userName", "required"}},
		{"PATCH", user, patch(`{"op":"remove"}`), 400, "noTarget", []string{"path"}},
		{"PATCH", user, patch(`{"op":"add","path":"title"}`), 400, "invalidValue", []string{"Operations[0].value"}},
		{"GET", "/Users?sortBy=shoeSize", "", 400, "invalidValue", []string{"sortBy", "shoeSize"}},
		{"GET", "/Users?sortBy=userName&sortOrder=up", "", 400, "invalidValue", []string{"sortOrder", "ascending", `"up"`}},
		{"GET", "/Users?attributes=shoeSize", "", 400, "invalidValue", []string{"attributes", "shoeSize"}},
		{"GET", "/Users?attributes=userName&excludedAttributes=title", "", 400, "invalidValue", []string{"attributes", "excludedAttributes"}},
		{"GET", "/Users?count=many", "", 400, "invalidValue", []string{"count", `"many"`}},
		{"GET", "/Users/nobody", "", 404, "", []string{"User", `"nobody"`}},
		{"GET", "/Robots", "", 404, "", []string{"Robots", "/ResourceTypes"}},
	} {
		foreign{c.method, c.path, c.body}.by(t, a).refused(c.status, c.scimType, c.words...)
	}
	a.call(t, "PUT", user, `{"userName":"y"}`, "If-Match", `W/"nothing"`).refused(412, "", "If-Match", "W/")
	if got := a.call(t, "GET", user, nil).is(200).at("title"); got != nil {
		t.Errorf("a refused PATCH has done its first half: title is %v", got)
	}
}

// 7. Deprovisioning surprises: users re-created, deleted or stuck (Sentry #16258, Rancher #52996).
func TestComplaint7_DeprovisioningIsWhatWasAskedFor(t *testing.T) {
	a, run := acme.as(acme.okta), runName()
	name := `{"userName":"leaver-` + run + `","externalId":"x-` + run + `","active":true,"title":"T"}`
	id := a.call(t, "POST", "/Users", name).is(201).text("id")
	t.Cleanup(func() { a.tidy(t, "/Users/"+id) })
	g := a.group(t, "Leavers "+run, id)
	a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"replace","value":{"active":false}}`)).is(200)
	// It is inactive, and otherwise all there: in lists, in filters, in its groups.
	a.call(t, "GET", "/Users/"+id, nil).is(200).want("active", false).want("title", "T").want("groups.0.value", g)
	for _, filter := range []string{`userName eq "leaver-` + run + `"`, `externalId eq "x-` + run + `"`, `id eq "` + id + `" and active eq false`} {
		a.call(t, "GET", "/Users?filter="+url.QueryEscape(filter), nil).is(200).want("totalResults", 1).want("Resources.0.active", false)
	}
	// Who is created again is told so, and is not activated by it.
	a.call(t, "POST", "/Users", name).refused(409, "uniqueness")
	a.call(t, "GET", "/Users/"+id, nil).is(200).want("active", false)
	a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"replace","value":{"active":true}}`)).is(200).want("active", true).want("groups.0.value", g)
	// A group that goes takes nobody with it; a user who goes leaves the group, and is gone at once.
	a.call(t, "DELETE", "/Users/"+id, nil).is(204)
	a.call(t, "DELETE", "/Users/"+id, nil).refused(404, "")
	a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"replace","value":{"active":true}}`)).refused(404, "")
	a.call(t, "PUT", "/Users/"+id, name).refused(404, "")
	a.call(t, "GET", "/Users?filter="+url.QueryEscape(`userName eq "leaver-`+run+`"`), nil).is(200).want("totalResults", 0)
	a.call(t, "GET", "/Groups/"+g, nil).is(200).want("members", nil)
	// Who comes back is somebody new, and in none of the old groups.
	again := a.call(t, "POST", "/Users", name).is(201).text("id")
	t.Cleanup(func() { a.tidy(t, "/Users/"+again) })
	if again == id {
		t.Error("the id is used again")
	}
	a.call(t, "GET", "/Users/"+again, nil).is(200).want("groups", nil)
	a.call(t, "GET", "/Groups/"+g, nil).is(200).want("members", nil)
}

// 8. Membership drift that Entra never repairs: it never reads members back, and so a change must do
// the same whether it comes once or twice, and in whichever order.
func TestComplaint8_MembershipDoesNotDrift(t *testing.T) {
	a, run := acme.as(acme.entra), runName()
	one, two := a.user(t, "drift1-"+run), a.user(t, "drift2-"+run)
	g := a.group(t, "Drift "+run)
	change := func(op string, ids ...string) string {
		return patch(`{"op":"` + op + `","path":"members","value":[{"$ref":null,"value":"` + strings.Join(ids, `"},{"$ref":null,"value":"`) + `"}]}`)
	}
	version := func() string { return a.call(t, "GET", "/Groups/"+g, nil).is(200).text("meta.version") }
	count := func(want int) {
		t.Helper()
		if got := a.call(t, "GET", "/Groups/"+g, nil).is(200).list("members"); len(got) != want {
			t.Errorf("%d members, not %d: %v", len(got), want, got)
		}
	}
	a.call(t, "PATCH", "/Groups/"+g, change("Add", one, one, two)).is(204)
	count(2)
	before := version()
	a.call(t, "PATCH", "/Groups/"+g, change("Add", two, one)).is(204)
	if after := version(); after != before {
		t.Errorf("members that are there already made %s of %s", after, before)
	}
	a.call(t, "PATCH", "/Groups/"+g, change("Remove", one)).is(204)
	before = version()
	a.call(t, "PATCH", "/Groups/"+g, change("Remove", one)).is(204)
	if after := version(); after != before {
		t.Errorf("members that are gone already made %s of %s", after, before)
	}
	count(1)
	// Both sides say the same: who is a member, and whose member one is.
	a.call(t, "GET", "/Users/"+two, nil).is(200).want("groups.0.value", g)
	a.call(t, "GET", "/Users/"+one, nil).is(200).want("groups", nil)
	a.call(t, "GET", "/Users?filter="+url.QueryEscape(`groups.value eq "`+g+`"`), nil).is(200).want("totalResults", 1).want("Resources.0.id", two)
	a.call(t, "GET", "/Groups?filter="+url.QueryEscape(`members.value eq "`+two+`"`), nil).is(200).want("totalResults", 1).want("Resources.0.id", g)
	// Several changes in one request are all done, in their order.
	a.call(t, "PATCH", "/Groups/"+g, patch(
		`{"op":"Add","path":"members","value":[{"value":"`+one+`"}]}`, `{"op":"Remove","path":"members","value":[{"value":"`+two+`"}]}`,
		`{"op":"Remove","path":"members","value":[{"value":"`+one+`"}]}`, `{"op":"Add","path":"members","value":[{"value":"`+two+`"}]}`,
	)).is(204)
	count(1)
	a.call(t, "GET", "/Groups/"+g, nil).is(200).want("members.0.value", two)
}
