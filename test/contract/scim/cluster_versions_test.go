//go:build !memory

package scim_test

import (
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// shownAs waits until both replicas return the same resource with a version other than before, and returns it.
// A client that has the previous version gets the new one.
func shownAs(t *testing.T, path, before string, check func(*scimtest.Response) bool) *scimtest.Response {
	t.Helper()
	var got [2]*scimtest.Response
	soon(t, path, func() error {
		for replica := range scimtest.Replicas {
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
	for replica := range scimtest.Replicas {
		acme.WithToken(acme.RFC).OnReplica(replica).Call(t, "GET", path, nil, "If-None-Match", got[0].Header.Get("ETag")).WantStatus(304)
	}
	return got[0]
}

// TestTheVersionCoversWhatIsShown checks that a client with the previous version gets a group whose member was
// deleted or renamed, and a user whose groups changed, whatever tool made the change.
func TestTheVersionCoversWhatIsShown(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	stays, leaves := admin.CreateUser(t, scimtest.UniqueName("stays")), admin.CreateUser(t, scimtest.UniqueName("leaves"))
	id := admin.CreateGroup(t, scimtest.UniqueName("shown"), stays, leaves)
	group, user := "/Groups/"+id, "/Users/"+stays
	first := admin.Call(t, "GET", group, nil).WantStatus(200).Header.Get("ETag")
	without := admin.Call(t, "GET", group+"?excludedAttributes=members", nil).WantStatus(200).Header.Get("ETag")

	if err := scimtest.Kubernetes.Delete(t.Context(), scimUser(leaves, "")); err != nil {
		t.Fatal(err)
	}
	deleted := shownAs(t, group, first, func(got *scimtest.Response) bool { return len(got.List("members")) == 1 }).Header.Get("ETag")
	admin.Call(t, "PATCH", user, scimtest.PatchBody(`{"op":"add","path":"displayName","value":"Renamed"}`)).WantStatus(200)
	renamed := shownAs(t, group, deleted, func(got *scimtest.Response) bool { return got.Value("members.0.display") == "Renamed" }).Header.Get("ETag")
	admin.Call(t, "GET", group+"?excludedAttributes=members", nil, "If-None-Match", without).WantStatus(304)
	admin.Call(t, "PATCH", user, scimtest.PatchBody(`{"op":"add","path":"title","value":"not shown in the group"}`)).WantStatus(200)

	// Another group shows up in the user, and a new name of it.
	before := admin.Call(t, "GET", user, nil).WantStatus(200).Header.Get("ETag")
	other := admin.CreateGroup(t, scimtest.UniqueName("other"), stays)
	joined := shownAs(t, user, before, func(got *scimtest.Response) bool { return len(got.List("groups")) == 2 }).Header.Get("ETag")
	g := read(t, other, &v1alpha1.ScimGroup{})
	g.Spec.DisplayName = scimtest.UniqueName("new name")
	if err := scimtest.Kubernetes.Update(t.Context(), g, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	shownAs(t, user, joined, func(got *scimtest.Response) bool {
		return got.Value("groups.0.display") == g.Spec.DisplayName || got.Value("groups.1.display") == g.Spec.DisplayName
	})

	// A write is rejected only if the attributes that are stored have changed.
	admin.Call(t, "PATCH", group, scimtest.PatchBody(`{"op":"add","path":"externalId","value":"x"}`), "If-Match", first).WantStatus(200)
	admin.Call(t, "PATCH", group, scimtest.PatchBody(`{"op":"add","path":"externalId","value":"y"}`), "If-Match", renamed).WantError(412, "", "If-Match")
}

// TestLastModifiedTellsChangesInTheSameSecondApart checks that a client that asks for the changes since the last one
// that it has seen misses none, whatever tool made them.
func TestLastModifiedTellsChangesInTheSameSecondApart(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	created := admin.Post(t, "/Users", `{"userName":"`+scimtest.UniqueName("delta")+`"}`).WantStatus(201)
	path, last := "/Users/"+created.Text("id"), created.Text("meta.lastModified")
	if last != created.Text("meta.created") {
		t.Errorf("created %s, modified %s", created.Text("meta.created"), last)
	}
	changed := func(got *scimtest.Response) {
		t.Helper()
		if before, after := instant(t, last), instant(t, got.Text("meta.lastModified")); !after.After(before) {
			t.Errorf("modified %s, then %s", before, after)
		}
		admin.Find(t, "/Users", `id eq "`+created.Text("id")+`" and meta.lastModified gt "`+last+`"`).WantStatus(200).Want("totalResults", 1)
		last = got.Text("meta.lastModified")
		admin.Call(t, "GET", path, nil).WantStatus(200).Want("meta.lastModified", last).Want("meta.created", created.Text("meta.created"))
		admin.Find(t, "/Users", `id eq "`+created.Text("id")+`" and meta.lastModified gt "`+last+`"`).WantStatus(200).Want("totalResults", 0)
	}
	for i := range 5 {
		changed(admin.Call(t, "PATCH", path, scimtest.PatchBody(fmt.Sprintf(`{"op":"add","path":"title","value":"T%d"}`, i))).WantStatus(200))
	}
	u := read(t, created.Text("id"), &v1alpha1.ScimUser{})
	u.Spec.Title = "kubectl"
	if err := scimtest.Kubernetes.Update(t.Context(), u, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	soon(t, "the change of kubectl", func() error {
		if got := admin.Find(t, "/Users", `title eq "kubectl" and id eq "`+created.Text("id")+`"`); got.Text("Resources.0.title") != "kubectl" {
			return fmt.Errorf("%s", got)
		}
		return nil
	})
	changed(admin.Call(t, "GET", path, nil).WantStatus(200))
	changed(admin.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"remove","path":"title"}`)).WantStatus(200))
	admin.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"remove","path":"title"}`)).WantStatus(200).Want("meta.lastModified", last)
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
