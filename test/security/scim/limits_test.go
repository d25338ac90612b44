package scim_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// Regression tests for known vulnerabilities of SCIM servers: resource exhaustion.

// quick is the time limit for a rejected or cheap request: far above what is needed, and far below the duration
// of an unbounded request.
const quick = 5 * time.Second

// promptly checks that a request does not take too long and that the server still responds.
func promptly(t *testing.T, what string, do func() *scimtest.Response) *scimtest.Response {
	t.Helper()
	began := time.Now()
	got := do()
	if took := time.Since(began); took > quick {
		t.Errorf("%s took %s", what, took)
	}
	return got
}

func searchBody(filter string) string {
	return `{"schemas":["` + scimtest.SearchURN + `"],"filter":` + asText(filter) + `}`
}

// Keycloak #46705: one unpaged list exhausted the memory.
func TestKeycloak46705_UnpagedListsAreCapped(t *testing.T) {
	a, run := acme.WithToken(acme.RFC), scimtest.RunID()
	n := 105
	if scimtest.InMemory {
		n = 1005
	}
	var operations []string
	for i := range n {
		operations = append(operations, fmt.Sprintf(`{"method":"POST","path":"/Users","bulkId":"%d","data":{"userName":"capped-%d-%s"}}`, i, i, run))
	}
	var made []map[string]any
	for len(operations) > 0 {
		part := operations[:min(500, len(operations))]
		made = append(made, a.Call(t, "POST", "/Bulk", `{"schemas":["`+scimtest.BulkURN+`"],"Operations":[`+strings.Join(part, ",")+`]}`).WantStatus(200).List("Operations")...)
		operations = operations[len(part):]
	}
	t.Cleanup(func() {
		for _, o := range made {
			location, _ := o["location"].(string)
			a.Delete(t, strings.TrimPrefix(location, a.BaseURL()))
		}
	})
	filter := scimtest.EncodeTarget(`filter=userName sw "capped-"`)
	for query, want := range map[string]int{"": 100, "&count=1000000": min(n, 1000), "&startIndex=1": 100, "&count=-1": 0} {
		got := a.Call(t, "GET", "/Users?"+filter+query, nil).WantStatus(200).Want("totalResults", n)
		if items := len(got.List("Resources")); items != want {
			t.Errorf("%q: %d resources, want %d", query, items, want)
		}
	}
	for _, got := range []*scimtest.Response{a.Call(t, "GET", "/Users", nil), a.Call(t, "GET", "/", nil), a.Call(t, "POST", "/.search", `{"schemas":["`+scimtest.SearchURN+`"]}`)} {
		if items := len(got.WantStatus(200).List("Resources")); items != 100 {
			t.Errorf("%s: %d resources", got.Request, items)
		}
	}
}

// Keycloak #50475: a PATCH of any number of operations.
func TestKeycloak50475_PatchOperationsAreLimited(t *testing.T) {
	a := acme.WithToken(acme.RFC)
	id := a.CreateUser(t, "ops-"+scimtest.RunID(), `"title":"before"`)
	operations := func(n int) string {
		return scimtest.PatchBody(strings.TrimSuffix(strings.Repeat(`{"op":"replace","path":"title","value":"after"},`, n), ","))
	}
	a.Call(t, "PATCH", "/Users/"+id, operations(1001)).WantError(413, "", "1000")
	a.Call(t, "GET", "/Users/"+id, nil).WantStatus(200).Want("title", "before")
	promptly(t, "1000 operations", func() *scimtest.Response {
		return a.Call(t, "PATCH", "/Users/"+id, operations(1000)).WantStatus(200).Want("title", "after")
	})
	a.Call(t, "POST", "/Bulk", `{"schemas":["`+scimtest.BulkURN+`"],"Operations":[`+strings.TrimSuffix(strings.Repeat(`{"method":"DELETE","path":"/Users/x"},`, 1001), ",")+`]}`).WantError(413, "", "1000")
	// A few operations cannot grow a resource without bound.
	elements := make([]string, 0, 3000)
	for i := range cap(elements) {
		elements = append(elements, fmt.Sprintf(`{"value":"%d@x.test"}`, i))
	}
	add := `{"op":"add","path":"emails","value":[` + strings.Join(elements, ",") + `]}`
	got := promptly(t, "3000 values, many times", func() *scimtest.Response {
		return a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(add, add, add, add))
	})
	if want := map[bool]int{true: 200, false: 400}[scimtest.InMemory]; got.Status != want { // the CRD allows 32
		t.Errorf("%d: %s", got.Status, scimtest.Truncate(got.Raw))
	}
	alive(t)
}

// Keycloak #50467: deep nesting crashed the process. ShiftControl scim-v2-rust #49: the depth was checked after
// parsing.
func TestKeycloak50467_NestingIsLimited(t *testing.T) {
	a := acme.WithToken(acme.RFC)
	id := a.CreateUser(t, "deep-"+scimtest.RunID(), `"emails":[{"value":"deep@x.test"}]`)
	const term = `userName eq "x"`
	nested := func(open string, n int, inner string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(")", strings.Count(open, "(")*n)
	}
	for name, filter := range map[string]string{
		"parentheses": nested("(", 33, term), "not": nested("not (", 33, term), "not without parentheses": strings.Repeat("not ", 33) + term,
		"brackets": `emails[` + nested("(", 33, `value eq "x"`) + `]`, "open": strings.Repeat("(", 8000), "open and words": strings.Repeat("(a ", 2000), "brackets in brackets": strings.Repeat("emails[", 1000),
		"not, 2000 times": strings.Repeat("not(", 2000), "201 terms": strings.TrimSuffix(strings.Repeat("id pr or ", 201), " or "), "9000 bytes": `userName eq "` + strings.Repeat("x", 9000) + `"`,
	} {
		for _, got := range []*scimtest.Response{a.Call(t, "GET", "/Users?filter="+url.QueryEscape(filter), nil), a.Call(t, "POST", "/Users/.search", searchBody(filter)), a.Call(t, "POST", "/.search", searchBody(filter))} {
			got.Request = name + ": " + got.Request[:min(60, len(got.Request))]
			got.WantError(400, "invalidFilter")
			if len(got.Raw) > 500 {
				t.Errorf("%s: the response repeats the request: %d bytes", name, len(got.Raw))
			}
		}
	}
	a.Call(t, "GET", scimtest.EncodeTarget("/Users?filter="+nested("(", 32, term)), nil).WantStatus(200).Want("totalResults", 0)
	// A million parentheses, in all places of filters.
	for n, statuses := range map[int]string{20_000: "400", 100_000: "400 431", 1 << 20: "400 431"} {
		open := strings.Repeat("(", n)
		got := promptly(t, "GET", func() *scimtest.Response { return rawGet(t, "/api/scim/v2/Users?filter="+open, "Bearer "+acme.RFC) })
		if !strings.Contains(statuses, fmt.Sprint(got.Status)) {
			t.Errorf("GET with %d parentheses: %d", n, got.Status)
		}
		for _, body := range []foreign{
			{"POST", "/Users/.search", searchBody(open)}, {"POST", "/.search", searchBody(open)},
			{"PATCH", "/Users/" + id, scimtest.PatchBody(`{"op":"replace","path":"emails[` + open + `","value":"x"}`)}, {"PATCH", "/Users/" + id, scimtest.PatchBody(`{"op":"remove","path":"` + open + `"}`)},
			{"PATCH", "/Users/" + id, scimtest.PatchBody(`{"op":"add","value":{"emails[` + open + `":"x"}}`)}, {"POST", "/Users", `{"userName":` + strings.ReplaceAll(open, "(", "[")},
		} {
			got := promptly(t, body.path, func() *scimtest.Response { return body.by(t, acme.WithToken(acme.Entra)) })
			if want := map[bool]int{true: 413, false: 400}[n >= 1<<20]; got.Status != want || len(got.Raw) > 500 {
				t.Errorf("%s %s with %d parentheses: %d, not %d: %s", body.method, body.path, n, got.Status, want, scimtest.Truncate(got.Raw))
			}
		}
	}
	alive(t)
}

// SCIMMY expanded filters to disjunctive normal form: 16 conjunctions of "(a or b)" were 65,536 terms.
func TestSCIMMY_FiltersAreNotExpanded(t *testing.T) {
	a := acme.WithToken(acme.RFC)
	name := "bomb-" + scimtest.RunID()
	a.CreateUser(t, name, `"emails":[{"value":"bomb@x.test","type":"work"}]`)
	for n := 1; n <= 100; n++ {
		product := strings.TrimSuffix(strings.Repeat(`(userName eq "`+name+`" or title eq "b") and `, n), " and ")
		got := promptly(t, product[:20], func() *scimtest.Response { return a.Call(t, "POST", "/Users/.search", searchBody(product)) })
		inside := promptly(t, "brackets", func() *scimtest.Response {
			return a.Call(t, "POST", "/Users/.search", searchBody(`userName eq "`+name+`" and emails[`+strings.TrimSuffix(strings.Repeat(`(type eq "work" or value eq "b") and `, n), " and ")+`]`))
		})
		switch { // n products have 2n comparisons, n or, n-1 and: at most 200
		case n <= 50:
			got.WantStatus(200).Want("totalResults", 1)
		default:
			got.WantError(400, "invalidFilter", "200")
		}
		if want := map[bool]int{true: 200, false: 400}[n <= 49]; inside.Status != want {
			t.Errorf("%d products in brackets: %d", n, inside.Status)
		}
	}
	alive(t)
}

// idenplane #946, open-mercato #3605, the-dmz #309: filters were used as regular expressions or LIKE patterns.
func TestIdenplane946_FiltersAreNotPatterns(t *testing.T) {
	a, run := acme.WithToken(acme.RFC), scimtest.RunID()
	long := strings.Repeat("a", 250) + "!"
	id := a.CreateUser(t, "redos-"+run, `"displayName":"`+long+`"`)
	for _, value := range []string{`(a+)+$`, `(a|a)*$`, `(.*)*`, `.*`, `^a`, `a.*!`, `[a]`, `a{250}`, `%`, `_`, `a%`, `*`, `a*`, `?`, `(?i)A`, `\\d`, `a|b`} {
		for _, operator := range []string{"co", "sw", "ew", "eq"} {
			filter := fmt.Sprintf(`id eq "%s" and displayName %s "%s"`, id, operator, value)
			promptly(t, filter, func() *scimtest.Response {
				return a.Call(t, "POST", "/Users/.search", searchBody(filter)).WantStatus(200).Want("totalResults", 0)
			})
		}
	}
	for _, filter := range []string{`displayName sw "AAAA"`, `displayName ew "a!"`, `displayName co "a!"`, `displayName eq "` + strings.ToUpper(long) + `"`} {
		a.Call(t, "POST", "/Users/.search", searchBody(`id eq "`+id+`" and `+filter)).WantStatus(200).Want("totalResults", 1)
	}
	// The worst case of a substring search.
	worst := strings.Repeat("a", 200) + "b"
	promptly(t, "co", func() *scimtest.Response {
		return a.Call(t, "POST", "/Users/.search", searchBody(strings.TrimSuffix(strings.Repeat(`displayName co "`+worst[120:]+`" or `, 60), " or "))).WantStatus(200).Want("totalResults", 0)
	})
}

// Cogtrix #124, eneo #443, Snowflake BCR-2276: an unsupported filter returned all users, and clients used the
// first one.
func TestCogtrix124_NoFilterIsIgnored(t *testing.T) {
	a := acme.WithToken(acme.RFC)
	a.CreateUser(t, "ignored-"+scimtest.RunID(), `"active":true`)
	for _, filter := range []string{
		`nothing eq "x"`, `nothing pr`, `not (nothing pr)`, `name.nothing eq "x"`, `emails[nothing eq "x"]`, `emails[type eq "work" and nothing pr]`, `urn:x:y:2.0:User:a eq "b"`,
		`userName foo "x"`, `userName eq`, `userName`, ``, ` `, `userName eq "x" and`, `and userName eq "x"`, `(userName eq "x"`, `userName eq "x")`, `userName eq "x" or nothing eq "y"`,
		`userName pr or nothing pr`, `userName eq "x`, `userName eq x"`, `active gt true`, `active co "t"`, `active eq "maybe"`, `userName eq "a" "b"`, `userName eq "a" userName eq "b"`, `userName eq 'x'`,
		`1 eq 1`, `"a" eq "a"`, `true`, `userName = "x"`, `userName == "x"`, `userName like "x%"`, `userName in ("a")`, `userName eq "x"; drop`, `userName eq "x" -- `, `userName eq null or`,
		`not userName`, `!(userName pr)`, `userName pr && active pr`, `userName prx`, `meta.lastModified gt "yesterday"`, `userName gt true`, `userName eq 1`, `emails[`, `emails[]`, `emails]`, `emails[type eq "work"].`, `*`, `%`, `\`, `userName eq "\x"`,
		`userName[value eq "x"]`, `members[value eq "x"]`, `name eq "x"`, `addresses eq "x"`, `name gt "a"`, `groups.nothing pr`, `.userName pr`, `userName. pr`, `user Name pr`,
	} {
		for _, got := range []*scimtest.Response{a.Call(t, "GET", "/Users?filter="+url.QueryEscape(filter), nil), a.Call(t, "POST", "/Users/.search", searchBody(filter))} {
			got.Request = filter + ": " + got.Request
			got.WantError(400, "invalidFilter")
		}
	}
	// In a list over several types, each attribute must exist in one of them.
	for _, filter := range []string{`nothing eq "x"`, `userName eq "x" and displayName foo "y"`, ``, `userName pr and members pr`} {
		a.Call(t, "GET", "/?filter="+url.QueryEscape(filter), nil).WantError(400, "invalidFilter")
		a.Call(t, "POST", "/.search", searchBody(filter)).WantError(400, "invalidFilter")
	}
	a.Call(t, "GET", "/Users?filter=active+pr&filter=userName+pr", nil).WantError(400, "invalidValue", "filter")
	a.Call(t, "GET", "/Users?filter=%zz", nil).WantError(400, "invalidSyntax")
	a.Call(t, "POST", "/Users/.search", `{"schemas":["`+scimtest.SearchURN+`"],"filter":null}`).WantError(400, "invalidValue", "filter")
	a.Call(t, "POST", "/Users/.search", `{"schemas":["`+scimtest.SearchURN+`"],"Filter":"nothing pr"}`).WantError(400, "invalidFilter")
	a.Call(t, "POST", "/Users/.search", `{"schemas":["`+scimtest.SearchURN+`"],"filters":"userName pr"}`).WantError(400, "invalidSyntax", "filters")
	for _, path := range []string{"/Schemas", "/ResourceTypes", "/ServiceProviderConfig"} {
		a.Call(t, "GET", path+"?filter=id+pr", nil).WantError(403, "", "filter")
	}
}

// TestBulkIDsThatReferToEachOther checks self-references, cycles, long chains and complete graphs of bulkIds.
func TestBulkIDsThatReferToEachOther(t *testing.T) {
	a, run := acme.WithToken(acme.RFC), scimtest.RunID()
	groups := map[bool]int{true: 1000, false: 40}[scimtest.InMemory]
	dense := map[bool]int{true: 120, false: 12}[scimtest.InMemory]
	for name, operations := range map[string][]string{
		"itself":            {bulkGroup("a"+run, "a"+run)},
		"a bulkId's bulkId": {bulkGroup("b" + run), bulkGroup("c"+run, "bulkId:b"+run)},
		"nothing":           {bulkGroup("d"+run, ""), bulkGroup("e"+run, "nobody")},
		"a long one":        {bulkGroup("f"+run, strings.Repeat("x", 100_000))},
		"a chain":           chainOf(run, groups),
		"all to all":        allToAll(run, dense),
	} {
		got := promptly(t, name, func() *scimtest.Response {
			return a.Call(t, "POST", "/Bulk", `{"schemas":["`+scimtest.BulkURN+`"],"Operations":[`+strings.Join(operations, ",")+`]}`).WantStatus(200)
		})
		results := got.List("Operations")
		if len(results) != len(operations) {
			t.Errorf("%s: %d results for %d operations", name, len(results), len(operations))
		}
		made, conflicts := 0, 0
		for _, o := range results {
			switch o["status"] {
			case "201":
				made++
				location, _ := o["location"].(string)
				t.Cleanup(func() { a.Delete(t, strings.TrimPrefix(location, a.BaseURL())) })
			case "409":
				conflicts++
			default:
				t.Errorf("%s: %v", name, o)
			}
		}
		if whole := name == "a chain" || name == "all to all"; whole && conflicts > 0 || made+conflicts != len(operations) {
			t.Errorf("%s: %d made, %d conflicts", name, made, conflicts)
		}
	}
	a.Call(t, "POST", "/Bulk", `{"schemas":["`+scimtest.BulkURN+`"],"Operations":[`+bulkGroup("g"+run)+","+bulkGroup("g"+run)+`]}`).WantError(400, "invalidValue", "bulkId")
	alive(t)
}

// bulkGroup returns an operation that creates a group with members by bulkId.
func bulkGroup(id string, members ...string) string {
	var list []string
	for _, m := range members {
		list = append(list, `{"value":"bulkId:`+m+`","type":"Group"}`)
	}
	return `{"method":"POST","path":"/Groups","bulkId":"` + id + `","data":{"displayName":"Bulk ` + id + `","members":[` + strings.Join(list, ",") + `]}}`
}

// chainOf returns groups that each contain the next one.
func chainOf(run string, n int) []string {
	operations := make([]string, n)
	for i := range operations {
		operations[i] = bulkGroup(fmt.Sprintf("chain%d-%s", i, run), fmt.Sprintf("chain%d-%s", min(i+1, n-1), run))
	}
	operations[n-1] = bulkGroup(fmt.Sprintf("chain%d-%s", n-1, run))
	return operations
}

// allToAll returns groups that each contain all others.
func allToAll(run string, n int) []string {
	operations := make([]string, n)
	for i := range operations {
		var members []string
		for j := range n {
			if j != i {
				members = append(members, fmt.Sprintf("all%d-%s", j, run))
			}
		}
		operations[i] = bulkGroup(fmt.Sprintf("all%d-%s", i, run), members...)
	}
	return operations
}

// TestUnknownPathsAreSCIMErrors checks that unknown paths and methods are SCIM errors, without redirects.
func TestUnknownPathsAreSCIMErrors(t *testing.T) {
	a := acme.WithToken(acme.RFC)
	for _, path := range []string{"/Nothing", "/Nothing/x", "/Users/x/y", "/Users/x/y/z", "/Schemas/x", "/Schemas/x/y", "/ResourceTypes/x", "/Me/x", "/Bulk/x", "/users", "/USERS", "/.searchx", "/Users/x/.search", "/Users/nobody"} {
		a.Call(t, "GET", path, nil).WantError(404, "")
	}
	for path, methods := range map[string]string{"/Users": "PUT PATCH DELETE", "/ServiceProviderConfig": "POST PUT PATCH DELETE", "/Schemas": "POST PUT PATCH DELETE", "/ResourceTypes/User": "POST PUT PATCH DELETE", "/Bulk": "GET PUT PATCH DELETE", "/.search": "PUT DELETE", "/Users/x": "POST OPTIONS"} {
		for method := range strings.FieldsSeq(methods) {
			got := a.Call(t, method, path, nil)
			got.WantError(405, "", method)
			if got.Header.Get("Allow") == "" || strings.Contains(got.Header.Get("Allow"), method) {
				t.Errorf("%s: Allow is %q", got.Request, got.Header.Get("Allow"))
			}
		}
	}
}
