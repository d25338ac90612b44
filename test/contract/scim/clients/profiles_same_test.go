package clients_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// sameEverywhere are requests without deviations: the responses are the same for all profiles.
const sameEverywhere = `
GET /ServiceProviderConfig
GET /ResourceTypes
GET /Schemas
GET /Users/{id}
GET /Groups/{gid}
GET /Groups/{gid}?excludedAttributes=members
GET /Users/{id}?attributes=userName,emails.value
GET /Users?filter=id eq "{id}"
GET /Users?filter=userName eq "SAME-{run}"
GET /Users?filter=emails[type eq "work"].value eq "a-{run}@x.test"
GET /Users?filter=id eq "{id}" and emails[primary eq "True"]
GET /Users?filter=id eq "{id}" and active eq "True"
GET /Users?filter=id eq "{id}" and not title pr
GET /Users?filter=nothing eq "x"
GET /Users?filter=userName eq
GET /Users?count=0&startIndex=0&filter=id eq "{id}"
GET /Users?filter=id eq "{id}"&cursor
GET /Users?sortBy=nothing
GET /Users/nobody
GET /Nothing
GET /Users?filter=password eq "x"
POST /Users {"userName":"same-{run}"}
POST /Users {"userName":"new-{run}","active":true,"name":{"givenName":"N"},"emails":[{"value":"n@x.test","primary":true}],"password":"secret","id":"mine","groups":[]}
POST /Users {"userName":"two-{run}","emails":[{"value":"a","primary":true},{"value":"b","primary":true}]}
POST /Users {"displayName":"no name"}
POST /Users {"userName":1}
POST /Users {"userName":"x-{run}","nothing":1}
POST /Users {"userName":"x-{run}","name":{"nothing":1}}
POST /Users {"schemas":[],"userName":"x-{run}","emails":"x","emails":"y"}
POST /Users {"userName":"x-{run}","active":"maybe"}
POST /Groups {"displayName":"Same {run}"}
POST /Groups {"displayName":"New {run}","members":[{"value":"{id}"}]}
DELETE /Groups/{made2}
PUT /Users/{id} {"userName":"same-{run}","title":"Put"}
PUT /Users/{id} {"title":"no name"}
PUT /Groups/{gid} {"displayName":"Same {run}","members":[{"value":"{id}"}]}
PATCH /Users/{id} {"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"add","path":"title","value":"T"},{"op":"replace","value":{"nickName":"N","name":{"givenName":"G"}}},{"op":"remove","path":"nickName"}]}
PATCH /Users/{id} {"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"replace","value":{"id":"other","groups":[],"meta":{}}}]}
PATCH /Users/{id} {"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"replace","path":"id","value":"other"}]}
PATCH /Users/{id} {"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"remove","path":"userName"}]}
PATCH /Users/{id} {"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"remove"}]}
PATCH /Users/{id} {"schemas":[],"Operations":[{"op":"remove","path":"nickName"},{"op":"remove","path":"title","value":null},{"op":"remove","path":"active"}]}
PATCH /Users/{id} {"schemas":["urn:x"],"Operations":[{"op":"remove","path":"nickName"}]}
PATCH /Users/{id} {"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"add","path":"nothing","value":"x"}]}
PATCH /Users/{id} {"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"add","path":"urn:ietf:params:scim:schemas:core:2.0:User:title","value":"Q"}]}
PATCH /Users/{id} {"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"replace","path":"title","value":""},{"op":"replace","path":"displayName","value":null}]}
PATCH /Users/{id} {"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"remove","path":"emails[type eq \"none\"]"}]}
PATCH /Users/{id} {"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[]}
PATCH /Users/{id} {"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"jump","path":"title"}]}
PATCH /Groups/{gid}?attributes=members {"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"remove","path":"members[value eq \"{id}\"]"}]}
PATCH /Groups/{gid}?attributes=members {"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"remove","path":"members"}]}
PATCH /Groups/{gid} {"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"remove","path":"displayName"}]}
POST /.search {"schemas":["urn:ietf:params:scim:api:messages:2.0:SearchRequest"],"filter":"id eq \"{id}\""}
POST /Bulk {"schemas":["urn:ietf:params:scim:api:messages:2.0:BulkRequest"],"Operations":[{"method":"PUT","path":"/Groups/{gid}","data":{"displayName":"Same {run}"}},{"method":"DELETE","path":"/Users/nobody"}]}
PUT /Users {"userName":"x"}
DELETE /Groups/{gid}
DELETE /Groups/{gid}
DELETE /Users/{id}
GET /Me
`

// TestProfilesHaveNoOtherDifferences checks that the profiles differ only in the rows of the table.
func TestProfilesHaveNoOtherDifferences(t *testing.T) {
	answers := map[string][]string{}
	for profile, key := range scimtest.ProfileKeys {
		a, run := acme.WithToken(acme.Token(key)), scimtest.RunID()
		id := a.CreateUser(t, "same-"+run, `"active":true`, `"emails":[{"value":"a-`+run+`@x.test","type":"work","primary":true}]`)
		r := &replayed{caller: a, values: map[string]any{"run": run, "id": id, "gid": a.CreateGroup(t, "Same "+run, id)}}
		t.Cleanup(func() { r.tidy(t) })
		for line := range strings.Lines(strings.TrimSpace(sameEverywhere)) {
			answers[profile] = append(answers[profile], r.same(t, line))
		}
	}
	for i, want := range answers["RFC"] {
		for profile := range scimtest.ProfileKeys {
			if got := answers[profile][i]; got != want {
				t.Errorf("RFC:\n\t%s\n%s:\n\t%s", want, profile, got)
			}
		}
	}
}

var (
	timeOrVersion = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+Z"|W/\\?"[^"\\]*\\?"`)
	bodyOfLine    = regexp.MustCompile(`^(\S+) (.*?)(?: (\{"(?:userName|displayName|title|schemas)".*\}))?\s*$`)
)

// same returns a response without values that differ between runs.
func (r *replayed) same(t *testing.T, line string) string {
	t.Helper()
	m := bodyOfLine.FindStringSubmatch(line)
	e := &exchange{method: m[1], target: m[2], body: m[3]}
	if (e.body == "") != (e.method == "GET" || e.method == "DELETE") {
		t.Fatalf("not a request: %s", line)
	}
	target, body, _, err := r.request(e)
	if err != nil {
		t.Fatal(err)
	}
	got := r.caller.Call(t, e.method, target, body)
	text := timeOrVersion.ReplaceAllString(string(got.Raw), "…")
	if got.Status == 201 {
		location := got.Header.Get("Location")
		r.made = append(r.made, strings.TrimPrefix(location, r.caller.BaseURL()))
		r.values[fmt.Sprint("made", len(r.made))] = location[strings.LastIndex(location, "/")+1:]
	}
	for _, name := range slices.Sorted(maps.Keys(r.values)) {
		value, _ := r.values[name].(string)
		text = strings.NewReplacer(value, "{"+name+"}").Replace(text)
	}
	if len(got.Raw) > 0 && !json.Valid(got.Raw) {
		t.Errorf("%s: not JSON: %s", line, got.Raw)
	}
	return fmt.Sprintf("%s: %d, Allow %q, ETag %t: %s", strings.TrimSpace(line), got.Status, got.Header.Get("Allow"), got.Header.Get("ETag") != "", text)
}
