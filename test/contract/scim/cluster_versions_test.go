//go:build !memory

package scim_test

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/contract/scim/internal/suite"
)

// shownAs waits until both replicas return the same resource with a version other than before, and returns it.
// A client that has the previous version gets the new one.
func shownAs(t *testing.T, path, before string, check func(*suite.Response) bool) *suite.Response {
	t.Helper()
	var got [2]*suite.Response
	soon(t, path, func() error {
		for replica := range suite.Replicas {
			got[replica] = acme.WithToken(acme.RFC).OnReplica(replica).Call(t, "GET", path, nil, "If-None-Match", before)
			if got[replica].Status != 200 || !check(got[replica]) {
				return fmt.Errorf("replica %d: %s", replica, got[replica])
			}
		}
		return nil
	})
	if string(got[0].Raw) != string(got[1].Raw) || got[0].Header.Get("ETag") != got[0].Text("meta.version") {
		t.Errorf("%s and %s", got[0], got[1])
	}
	for replica := range suite.Replicas {
		acme.WithToken(acme.RFC).OnReplica(replica).Call(t, "GET", path, nil, "If-None-Match", got[0].Header.Get("ETag")).WantStatus(304)
	}
	return got[0]
}

// TestTheVersionCoversWhatIsShown checks that a client with the previous version gets a group whose member was
// deleted or renamed, and a user whose groups changed, whatever tool made the change.
func TestTheVersionCoversWhatIsShown(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	stays, leaves := admin.CreateUser(t, suite.UniqueName("stays")), admin.CreateUser(t, suite.UniqueName("leaves"))
	id := admin.CreateGroup(t, suite.UniqueName("shown"), stays, leaves)
	group, user := "/Groups/"+id, "/Users/"+stays
	first := admin.Call(t, "GET", group, nil).WantStatus(200).Header.Get("ETag")
	without := admin.Call(t, "GET", group+"?excludedAttributes=members", nil).WantStatus(200).Header.Get("ETag")

	if err := suite.Kubernetes.Delete(t.Context(), scimUser(leaves, "")); err != nil {
		t.Fatal(err)
	}
	deleted := shownAs(t, group, first, func(got *suite.Response) bool { return len(got.List("members")) == 1 }).Header.Get("ETag")
	admin.Call(t, "PATCH", user, suite.PatchBody(`{"op":"add","path":"displayName","value":"Renamed"}`)).WantStatus(200)
	renamed := shownAs(t, group, deleted, func(got *suite.Response) bool { return got.Value("members.0.display") == "Renamed" }).Header.Get("ETag")
	admin.Call(t, "GET", group+"?excludedAttributes=members", nil, "If-None-Match", without).WantStatus(304)
	admin.Call(t, "PATCH", user, suite.PatchBody(`{"op":"add","path":"title","value":"not shown in the group"}`)).WantStatus(200)

	// Another group shows up in the user, and a new name of it.
	before := admin.Call(t, "GET", user, nil).WantStatus(200).Header.Get("ETag")
	other := admin.CreateGroup(t, suite.UniqueName("other"), stays)
	joined := shownAs(t, user, before, func(got *suite.Response) bool { return len(got.List("groups")) == 2 }).Header.Get("ETag")
	g := read(t, other, &v1alpha1.ScimGroup{})
	g.Spec.DisplayName = suite.UniqueName("new name")
	if err := suite.Kubernetes.Update(t.Context(), g, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	shownAs(t, user, joined, func(got *suite.Response) bool {
		return got.Value("groups.0.display") == g.Spec.DisplayName || got.Value("groups.1.display") == g.Spec.DisplayName
	})

	// A write is rejected only if the attributes that are stored have changed.
	admin.Call(t, "PATCH", group, suite.PatchBody(`{"op":"add","path":"externalId","value":"x"}`), "If-Match", first).WantStatus(200)
	admin.Call(t, "PATCH", group, suite.PatchBody(`{"op":"add","path":"externalId","value":"y"}`), "If-Match", renamed).WantError(412, "", "If-Match")
}
