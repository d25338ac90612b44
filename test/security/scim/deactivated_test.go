package scim_test

import (
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// reactivations are requests that do not contain active: true, for a user with the name {name} and the path
// {path}. They are sent by a client that omits or removes what it does not know, or that an employee who was
// dismissed can cause: with an attribute mapping without a value, a restored backup, or a profile page that
// sends the whole user back.
var reactivations = []struct{ name, method, path, body string }{
	{"PATCH remove", "PATCH", "{path}", scimtest.PatchBody(`{"op":"remove","path":"active"}`)},
	{"PATCH remove by URN", "PATCH", "{path}", scimtest.PatchBody(`{"op":"remove","path":"` + scimtest.UserURN + `:active"}`)},
	{"PATCH remove twice", "PATCH", "{path}", scimtest.PatchBody(`{"op":"remove","path":"active"}`, `{"op":"remove","path":"ACTIVE"}`)},
	{"PATCH replace by null", "PATCH", "{path}", scimtest.PatchBody(`{"op":"replace","path":"active","value":null}`)},
	{"PATCH add null", "PATCH", "{path}", scimtest.PatchBody(`{"op":"add","path":"active","value":null}`)},
	{"PATCH replace by null without a path", "PATCH", "{path}", scimtest.PatchBody(`{"op":"replace","value":{"active":null,"title":"T"}}`)},
	{"PATCH replace by an empty list", "PATCH", "{path}", scimtest.PatchBody(`{"op":"replace","path":"active","value":[]}`)},
	{"PATCH replace by an empty text", "PATCH", "{path}", scimtest.PatchBody(`{"op":"replace","path":"active","value":""}`)},
	{"PATCH remove with the value", "PATCH", "{path}", scimtest.PatchBody(`{"op":"Remove","path":"active","value":"False"}`)},
	{"PATCH false, then remove", "PATCH", "{path}", scimtest.PatchBody(`{"op":"replace","path":"active","value":false}`, `{"op":"remove","path":"active"}`)},
	{"PATCH of another attribute", "PATCH", "{path}", scimtest.PatchBody(`{"op":"replace","path":"title","value":"U"}`)},
	{"PUT without active", "PUT", "{path}", `{"userName":"{name}","title":"P"}`},
	{"PUT with null", "PUT", "{path}", `{"userName":"{name}","active":null}`},
	{"PUT with an empty text", "PUT", "{path}", `{"userName":"{name}","active":""}`},
	{"PUT without active in Bulk", "POST", "/Bulk", `{"schemas":["` + scimtest.BulkURN + `"],"Operations":[{"method":"PUT","path":"{path}","data":{"userName":"{name}"}}]}`},
	{"PATCH remove in Bulk", "POST", "/Bulk", `{"schemas":["` + scimtest.BulkURN + `"],"Operations":[{"method":"PATCH","path":"{path}","data":` + scimtest.PatchBody(`{"op":"remove","path":"active"}`) + `}]}`},
	{"POST of the same user", "POST", "/Users", `{"userName":"{name}"}`},
}

// A person was deactivated and still has a key. Whatever the identity provider sends short of active: true,
// with any profile, does not let the person in again, and changes nothing else about who may enter: the user
// stays inactive, and the key stays without access. Only active: true ends it.
func TestADeactivatedPersonStaysOut(t *testing.T) {
	for profile, key := range scimtest.ProfileKeys {
		t.Run(profile, func(t *testing.T) {
			a, name := acme.WithToken(acme.Token(key)), "dismissed-"+scimtest.RunID()
			id := a.CreateUser(t, name)
			path := "/Users/" + id
			access := accessOf(t, id)
			access(200)
			a.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"replace","path":"active","value":false}`)).WantStatus(200).Want("active", false)
			access(401)
			fill := strings.NewReplacer("{path}", path, "{name}", name)
			for _, r := range reactivations {
				got := a.Call(t, r.method, fill.Replace(r.path), fill.Replace(r.body))
				if got.Status == 200 && r.path == "{path}" {
					got.Want("active", false)
				}
				a.Call(t, "GET", path, nil).WantStatus(200).Want("active", false)
				a.Find(t, "/Users", `active eq false and userName eq "`+name+`"`).WantStatus(200).Want("totalResults", 1)
				if t.Failed() {
					t.Fatalf("%s: %s", r.name, got)
				}
			}
			access(401)
			a.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"replace","path":"active","value":true}`)).WantStatus(200).Want("active", true)
			access(200)
		})
	}
}

// An active user stays active where active is removed or omitted: a client that does not manage it deactivates
// no user.
func TestActiveIsKeptWhereItIsOmitted(t *testing.T) {
	for profile, key := range scimtest.ProfileKeys {
		t.Run(profile, func(t *testing.T) {
			a, name := acme.WithToken(acme.Token(key)), "kept-"+scimtest.RunID()
			path := "/Users/" + a.CreateUser(t, name, `"active":true`)
			a.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"remove","path":"active"}`)).WantStatus(200).Want("active", true)
			a.Call(t, "PUT", path, `{"userName":"`+name+`"}`).WantStatus(200).Want("active", true)
		})
	}
}
