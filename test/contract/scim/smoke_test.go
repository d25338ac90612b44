package scim_test

import "testing"

func TestSmoke(t *testing.T) {
	admin := acme.as(acme.rfc)
	id := admin.user(t, "ada@example.com", `"name":{"givenName":"Ada"}`)
	g := admin.group(t, "Analysts", id)
	admin.call(t, "GET", "/Users/"+id, nil).is(200).want("groups.0.value", g).want("meta.location", acme.base()+"/Users/"+id)
	admin.call(t, "PATCH", "/Groups/"+g, patch(`{"op":"remove","path":"members[value eq \"`+id+`\"]"}`)).is(200).want("members", nil)
	acme.as("").call(t, "GET", "/Users", nil).refused(401, "")
	globex.as(globex.rfc).call(t, "GET", "/Users/"+id, nil).refused(404, "")
}
