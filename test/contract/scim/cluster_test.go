//go:build !memory

package scim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
)

// apply creates an object like kubectl. It is deleted after the test.
func apply(t *testing.T, o client.Object) {
	t.Helper()
	if err := scimtest.Kubernetes.Create(t.Context(), o, client.FieldOwner("kubectl-create")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = scimtest.Kubernetes.Delete(context.WithoutCancel(t.Context()), o) })
}

// read reads an object from the API server.
func read[T client.Object](t *testing.T, name string, o T) T {
	t.Helper()
	if err := scimtest.Kubernetes.Get(t.Context(), client.ObjectKey{Namespace: acme.Name, Name: name}, o); err != nil {
		t.Fatal(err)
	}
	return o
}

func scimUser(name, userName string) *v1alpha1.ScimUser {
	return &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: acme.Name, Name: name}, Spec: v1alpha1.ScimUserSpec{UserName: userName}}
}

// dns returns a unique object name.
func dns(name string) string { return strings.TrimSuffix(scimtest.UniqueName(name), "@rfc.test") }

// soon waits until check succeeds.
func soon(t *testing.T, what string, check func() error) {
	t.Helper()
	if err := apiclient.Eventually(check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// ready waits until the Ready condition of an object has a status and a reason.
func ready(t *testing.T, o v1alpha1.Object, status metav1.ConditionStatus, reason string) {
	t.Helper()
	soon(t, o.GetName()+" Ready="+string(status), func() error {
		if err := scimtest.Kubernetes.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		c := meta.FindStatusCondition(o.Common().Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Status != status || reason != "" && c.Reason != reason {
			return fmt.Errorf("Ready is %+v", c)
		}
		return nil
	})
}

// totals waits until a filter matches a number of users on both replicas.
func totals(t *testing.T, endpoint, filter string, want int) {
	t.Helper()
	for replica := range scimtest.Replicas {
		soon(t, fmt.Sprintf("%s on replica %d", filter, replica), func() error {
			got := acme.WithToken(acme.RFC).OnReplica(replica).Find(t, endpoint, filter).WantStatus(200)
			if got.Value("totalResults") != float64(want) {
				return fmt.Errorf("totalResults is %v, want %d", got.Value("totalResults"), want)
			}
			return nil
		})
	}
}

func TestSCIMWritesAreVisibleInKubernetes(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	name := scimtest.UniqueName("ada")
	id := admin.CreateUser(t, name, `"externalId":"x","name":{"givenName":"Ada"},"emails":[{"value":"a@x","primary":true}],"`+scimtest.EnterpriseURN+`":{"department":"D"},"`+scimtest.AttributesURN+`":{"level":5}`)
	u := read(t, id, &v1alpha1.ScimUser{})
	if u.Spec.UserName != name || u.Spec.ExternalID != "x" || u.Spec.Name == nil || u.Spec.Name.GivenName != "Ada" || len(u.Spec.Emails) != 1 || u.Spec.Enterprise == nil || u.Spec.Enterprise.Department != "D" || len(u.Spec.Extensions) != 1 {
		t.Errorf("%+v", u.Spec)
	}
	ready(t, u, metav1.ConditionTrue, "")
	groupName := scimtest.UniqueName("g")
	groupID := admin.CreateGroup(t, groupName, id)
	g := read(t, groupID, &v1alpha1.ScimGroup{})
	if g.Spec.DisplayName != groupName {
		t.Errorf("%+v", g.Spec)
	}
	soon(t, "memberCount", func() error {
		if g := read(t, groupID, &v1alpha1.ScimGroup{}); g.Status.MemberCount != 1 {
			return fmt.Errorf("memberCount is %d", g.Status.MemberCount)
		}
		return nil
	})
	admin.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","path":"active","value":false}`, `{"op":"remove","path":"name"}`)).WantStatus(200)
	if u := read(t, id, &v1alpha1.ScimUser{}); u.Spec.Active == nil || *u.Spec.Active || u.Spec.Name != nil {
		t.Errorf("%+v", u.Spec)
	}
	admin.Call(t, "DELETE", "/Users/"+id, nil).WantStatus(204)
	if err := scimtest.Kubernetes.Get(t.Context(), client.ObjectKeyFromObject(u), u); client.IgnoreNotFound(err) != nil || err == nil && u.DeletionTimestamp.IsZero() {
		t.Errorf("the object still exists: %v", err)
	}
}

func TestKubectlWritesAreVisibleOverSCIM(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	name := scimtest.UniqueName("grace")
	u := scimUser(dns("grace"), name)
	u.Spec.Title = "Rear Admiral"
	apply(t, u)
	for replica := range scimtest.Replicas { // immediately by id and by unique values
		admin.OnReplica(replica).Call(t, "GET", "/Users/"+u.Name, nil).WantStatus(200).Want("userName", name).Want("title", "Rear Admiral").Want("active", true).Want("meta.location", acme.BaseURL()+"/Users/"+u.Name)
	}
	totals(t, "/Users", `userName eq `+scimtest.Quote(strings.ToUpper(name)), 1)
	totals(t, "/Users", `title eq "rear admiral" and id eq "`+u.Name+`"`, 1)
	g := &v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: acme.Name, Name: dns("navy")}, Spec: v1alpha1.ScimGroupSpec{
		DisplayName: scimtest.UniqueName("Navy"), Members: []v1alpha1.ScimMember{{Value: u.Name}, {Value: "nobody-yet"}},
	}}
	apply(t, g)
	soon(t, "the member", func() error {
		if members := admin.Call(t, "GET", "/Groups/"+g.Name, nil).WantStatus(200).MemberIDs(); !members[u.Name] || len(members) != 1 {
			return fmt.Errorf("members are %v", members)
		}
		return nil
	})
	soon(t, "the group of the user", func() error {
		if got := admin.Call(t, "GET", "/Users/"+u.Name, nil).WantStatus(200); got.Value("groups.0.value") != g.Name || got.Value("groups.0.display") != g.Spec.DisplayName {
			return fmt.Errorf("%s", got.Raw)
		}
		return nil
	})
	t.Run("a change is visible", func(t *testing.T) { changedByKubectl(t, u.Name) })
	t.Run("SCIM can change it", func(t *testing.T) {
		admin.Call(t, "PATCH", "/Users/"+u.Name, scimtest.PatchBody(`{"op":"replace","path":"title","value":"T"}`)).WantStatus(200).Want("title", "T")
		admin.Call(t, "PATCH", "/Groups/"+g.Name, scimtest.PatchBody(`{"op":"remove","path":"members[value eq \"`+u.Name+`\"]"}`)).WantStatus(200).Want("members.0", nil)
		if kept := read(t, g.Name, &v1alpha1.ScimGroup{}); slices.ContainsFunc(kept.Spec.EffectiveMembers(), func(m v1alpha1.ScimMember) bool { return m.Value == u.Name }) {
			t.Errorf("%+v", kept.Spec)
		}
	})
	t.Run("a deletion is visible", func(t *testing.T) {
		if err := scimtest.Kubernetes.Delete(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		soon(t, "its absence", func() error {
			if got := admin.Call(t, "GET", "/Users/"+u.Name, nil); got.Status != 404 {
				return fmt.Errorf("%d", got.Status)
			}
			return nil
		})
	})
}

// changedByKubectl renames a user and checks that the change is visible over SCIM.
func changedByKubectl(t *testing.T, id string) {
	admin := acme.WithToken(acme.RFC)
	before := admin.Call(t, "GET", "/Users/"+id, nil).WantStatus(200)
	scimtest.NextSecond()
	changed := read(t, id, &v1alpha1.ScimUser{})
	changed.Spec.Title, changed.Spec.UserName = "Commodore", scimtest.UniqueName("renamed")
	if err := scimtest.Kubernetes.Update(t.Context(), changed, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	got := admin.Call(t, "GET", "/Users/"+id, nil).WantStatus(200).Want("title", "Commodore").Want("userName", changed.Spec.UserName)
	if got.Value("meta.version") == before.Value("meta.version") || got.Value("meta.lastModified") == before.Value("meta.lastModified") {
		t.Errorf("version and lastModified did not change: %s", got.Raw)
	}
	totals(t, "/Users", `userName eq `+scimtest.Quote(before.Text("userName")), 0)
	totals(t, "/Users", `title eq "Commodore"`, 1)
}

func TestNameTaken(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	name := scimtest.UniqueName("Ada")
	first := admin.CreateUser(t, name)
	second := scimUser(dns("second"), strings.ToLower(name))
	apply(t, second)
	ready(t, second, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	t.Run("is not a resource", func(t *testing.T) {
		soon(t, "404", func() error {
			if got := admin.Call(t, "GET", "/Users/"+second.Name, nil); got.Status != 404 {
				return fmt.Errorf("%d", got.Status)
			}
			return nil
		})
		totals(t, "/Users", `userName eq `+scimtest.Quote(name), 1)
		totals(t, "/Users", `id eq "`+second.Name+`"`, 0)
		admin.Call(t, "PATCH", "/Users/"+second.Name, scimtest.PatchBody(`{"op":"add","path":"title","value":"x"}`)).WantError(404, "")
		admin.Call(t, "DELETE", "/Users/"+second.Name, nil).WantError(404, "")
		admin.Post(t, "/Users", `{"userName":`+scimtest.Quote(name)+`}`).WantError(409, "uniqueness")
	})
	t.Run("becomes a resource when the name is released", func(t *testing.T) {
		admin.Call(t, "DELETE", "/Users/"+first, nil).WantStatus(204)
		ready(t, second, metav1.ConditionTrue, "")
		totals(t, "/Users", `userName eq `+scimtest.Quote(name), 1)
		admin.Call(t, "GET", "/Users/"+second.Name, nil).WantStatus(200)
	})
	t.Run("a rename by kubectl to a taken name", func(t *testing.T) {
		other := scimtest.UniqueName("other")
		admin.CreateUser(t, other)
		third := scimUser(dns("third"), scimtest.UniqueName("third"))
		apply(t, third)
		ready(t, third, metav1.ConditionTrue, "")
		third.Spec.UserName = other
		if err := scimtest.Kubernetes.Update(t.Context(), third, client.FieldOwner("kubectl-edit")); err != nil {
			t.Fatal(err)
		}
		ready(t, third, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
		totals(t, "/Users", `userName eq `+scimtest.Quote(other), 1)
	})
}

func TestDeletedUserIsRemovedFromGroups(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	for _, way := range []string{"SCIM", "kubectl"} {
		t.Run("deleted by "+way, func(t *testing.T) {
			name := scimtest.UniqueName("leaver")
			id, stays := admin.CreateUser(t, name), admin.CreateUser(t, scimtest.UniqueName("stays"))
			groups := []string{admin.CreateGroup(t, scimtest.UniqueName("g"), id, stays), admin.CreateGroup(t, scimtest.UniqueName("g"), id), admin.CreateGroup(t, scimtest.UniqueName("g"), stays, id)}
			byHand := &v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: acme.Name, Name: dns("hand")}, Spec: v1alpha1.ScimGroupSpec{DisplayName: scimtest.UniqueName("hand"), Members: []v1alpha1.ScimMember{{Value: id}}}}
			apply(t, byHand)
			left := func() error {
				for _, group := range append(groups, byHand.Name) {
					for replica := range scimtest.Replicas {
						if admin.OnReplica(replica).Call(t, "GET", "/Groups/"+group, nil).WantStatus(200).MemberIDs()[id] {
							return fmt.Errorf("still in %s on replica %d", group, replica)
						}
					}
				}
				return nil
			}
			if way == "SCIM" {
				admin.Call(t, "DELETE", "/Users/"+id, nil).WantStatus(204)
				for _, group := range groups { // immediately on the replica of the request
					if admin.Call(t, "GET", "/Groups/"+group, nil).WantStatus(200).MemberIDs()[id] {
						t.Errorf("still in %s", group)
					}
				}
				admin.Find(t, "/Groups", `members.value eq "`+id+`"`).WantStatus(200).Want("totalResults", 0)
			} else if err := scimtest.Kubernetes.Delete(t.Context(), scimUser(id, name)); err != nil {
				t.Fatal(err)
			}
			soon(t, "it left", left)
			totals(t, "/Groups", `members.value eq "`+id+`"`, 0)
			admin.Call(t, "GET", "/Groups/"+groups[0], nil).WantStatus(200).Want("members.0.value", stays)
			if again := admin.CreateUser(t, strings.ToUpper(name)); again == id {
				t.Error("the id was given again")
			} else if err := left(); err != nil {
				t.Error(err)
			} else if got := admin.Call(t, "GET", "/Users/"+again, nil).WantStatus(200); got.Value("groups") != nil {
				t.Errorf("a new user of the same name inherits groups: %s", got.Raw)
			}
		})
	}
}

// keyOf creates a key owned by a user and returns its token.
func keyOf(t *testing.T, user string, permissions ...v1alpha1.Permission) string {
	t.Helper()
	// A key has at most the permissions of its owner.
	owner := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: acme.Name, Name: user}}
	if err := scimtest.Kubernetes.Patch(t.Context(), owner, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"admin":true}}`))); err != nil {
		t.Fatal(err)
	}
	key, token, err := clustertest.Key(acme.Name, dns("key"), v1alpha1.ApiKeySpec{
		Owner: &v1alpha1.ApiKeyOwner{ScimUser: user}, Permissions: permissions, ScimProfile: "RFC",
	})
	if err != nil {
		t.Fatal(err)
	}
	apply(t, key)
	return token
}

// answers waits until GET /Me returns a status on both replicas.
func answers(t *testing.T, token string, status int) {
	t.Helper()
	for replica := range scimtest.Replicas {
		soon(t, fmt.Sprintf("%d on replica %d", status, replica), func() error {
			if got := acme.WithToken(token).OnReplica(replica).Call(t, "GET", "/Me", nil); got.Status != status {
				return fmt.Errorf("%d: %s", got.Status, got.Raw)
			}
			return nil
		})
	}
}

func TestRFC7644Section3_11_Me(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	name := scimtest.UniqueName("me")
	id := admin.CreateUser(t, name)
	reader, manager := keyOf(t, id, "DeploymentRead"), keyOf(t, id, v1alpha1.PermissionScimManage)
	answers(t, reader, 200)
	answers(t, manager, 200)
	got := acme.WithToken(reader).Call(t, "GET", "/Me", nil).WantStatus(200).Want("id", id).Want("userName", name).Want("meta.location", acme.BaseURL()+"/Users/"+id)
	if got.Header.Get("Location") != acme.BaseURL()+"/Users/"+id || got.Header.Get("Content-Location") != acme.BaseURL()+"/Users/"+id || got.Header.Get("ETag") != got.Text("meta.version") {
		t.Errorf("%v", got.Header)
	}
	acme.WithToken(reader).Call(t, "GET", "/Me?attributes=userName", nil).WantStatus(200).WantOnly("schemas", "id", "userName")
	acme.WithToken(reader).Call(t, "GET", "/Users/"+id, nil).WantError(403, "")
	acme.WithToken(reader).Call(t, "PATCH", "/Me", scimtest.PatchBody(`{"op":"add","path":"title","value":"x"}`)).WantError(403, "")
	acme.WithToken(manager).Call(t, "PATCH", "/Me", scimtest.PatchBody(`{"op":"add","path":"title","value":"x"}`)).WantStatus(200).Want("title", "x").WantHeader("Location", acme.BaseURL()+"/Users/"+id)
	acme.WithToken(manager).Call(t, "PUT", "/Me", `{"userName":`+scimtest.Quote(name)+`}`, "If-Match", `W/"stale"`).WantError(412, "")
	acme.WithToken(manager).Call(t, "PUT", "/Me", `{"userName":`+scimtest.Quote(name)+`}`).WantStatus(200).Want("title", nil).Want("id", id)
	acme.WithToken(manager).Call(t, "DELETE", "/Me", nil).WantStatus(204)
	admin.Call(t, "GET", "/Users/"+id, nil).WantError(404, "")
	answers(t, manager, 401)
}

func TestKeysOfInactiveUsersAreRejected(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	id := admin.CreateUser(t, scimtest.UniqueName("worker"))
	token := keyOf(t, id, "DeploymentRead")
	answers(t, token, 200)
	for range 2 {
		admin.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","path":"active","value":false}`)).WantStatus(200).Want("active", false)
		answers(t, token, 401)
		admin.Call(t, "GET", "/Users/"+id, nil).WantStatus(200).Want("active", false)
		admin.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","path":"active","value":true}`)).WantStatus(200).Want("active", true)
		answers(t, token, 200)
	}
	u := read(t, id, &v1alpha1.ScimUser{})
	before, no := client.MergeFrom(u.DeepCopy()), false // the controller may write the status meanwhile
	u.Spec.Active = &no
	if err := scimtest.Kubernetes.Patch(t.Context(), u, before, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	answers(t, token, 401)
}

func TestGitOpsFieldsAreNotChanged(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	name := dns("git")
	manifest := &v1alpha1.ScimUser{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ScimUser"},
		ObjectMeta: metav1.ObjectMeta{Namespace: acme.Name, Name: name},
		Spec:       v1alpha1.ScimUserSpec{UserName: scimtest.UniqueName("git"), Title: "T"},
	}
	if err := scimtest.Kubernetes.Patch(t.Context(), manifest, client.Apply, client.FieldOwner("argocd")); err != nil { //nolint:staticcheck // as other tools do it
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = scimtest.Kubernetes.Delete(context.WithoutCancel(t.Context()), scimUser(name, "")) })
	before := admin.Call(t, "GET", "/Users/"+name, nil).WantStatus(200).Want("title", "T")
	admin.Call(t, "PATCH", "/Users/"+name, scimtest.PatchBody(`{"op":"add","path":"nickName","value":"n"}`, `{"op":"replace","path":"title","value":"U"}`)).WantError(409, "", "argocd", "title")
	admin.Call(t, "PUT", "/Users/"+name, `{"userName":`+scimtest.Quote(manifest.Spec.UserName)+`}`).WantError(409, "", "argocd", "title")
	admin.Call(t, "PATCH", "/Users/"+name, scimtest.PatchBody(`{"op":"replace","path":"userName","value":`+scimtest.Quote(scimtest.UniqueName("other"))+`}`)).WantError(409, "", "argocd", "userName")
	if now := admin.Call(t, "GET", "/Users/"+name, nil).WantStatus(200).Want("nickName", nil); now.Value("title") != "T" || now.Value("meta.lastModified") != before.Value("meta.lastModified") {
		t.Errorf("before %s, after %s", before.Raw, now.Raw)
	}
	admin.Call(t, "PATCH", "/Users/"+name, scimtest.PatchBody(`{"op":"add","path":"nickName","value":"n"}`)).WantStatus(200).Want("nickName", "n").Want("title", "T")
	if err := scimtest.Kubernetes.Patch(t.Context(), manifest.DeepCopy(), client.RawPatch("application/apply-patch+yaml", []byte(scimtest.FormatJSON(map[string]any{
		"apiVersion": manifest.APIVersion, "kind": "ScimUser", "metadata": map[string]any{"name": name, "namespace": acme.Name}, "spec": map[string]any{"userName": manifest.Spec.UserName, "title": "T"},
	}))), client.FieldOwner("argocd")); err != nil {
		t.Errorf("the next sync conflicts: %v", err)
	}
	admin.Call(t, "GET", "/Users/"+name, nil).WantStatus(200).Want("nickName", "n").Want("title", "T")
	admin.Call(t, "DELETE", "/Users/"+name, nil).WantError(409, "", "argocd", "deactivated")
	admin.Call(t, "GET", "/Users/"+name, nil).WantStatus(200).Want("active", false)
}

// each calls a function for 0..n-1 concurrently and waits.
func each(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}
