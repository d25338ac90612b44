//go:build !memory

package scim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/contract/internal/apiclient"
	"github.com/quoin-dev/quoin/test/contract/internal/clustertest"
)

// What SCIM and Kubernetes are to each other: the same resources, whoever writes them.

// apply creates an object as kubectl does. It is deleted with the test.
func apply(t *testing.T, o client.Object) {
	t.Helper()
	if err := k8s.Create(t.Context(), o, client.FieldOwner("kubectl-create")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k8s.Delete(context.WithoutCancel(t.Context()), o) })
}

// read is an object as the API server has it.
func read[T client.Object](t *testing.T, name string, o T) T {
	t.Helper()
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: name}, o); err != nil {
		t.Fatal(err)
	}
	return o
}

func scimUser(name, userName string) *v1alpha1.ScimUser {
	return &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: acme.name, Name: name}, Spec: v1alpha1.ScimUserSpec{UserName: userName}}
}

// dns is a name that an object can have, and that no other one has.
func dns(name string) string { return strings.TrimSuffix(unique(name), "@rfc.test") }

// soon waits for a condition that controllers or informers have to bring about.
func soon(t *testing.T, what string, check func() error) {
	t.Helper()
	if err := apiclient.Eventually(check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// ready waits until the condition Ready of an object has a status and a reason.
func ready(t *testing.T, o v1alpha1.Object, status metav1.ConditionStatus, reason string) {
	t.Helper()
	soon(t, o.GetName()+" Ready="+string(status), func() error {
		if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		c := meta.FindStatusCondition(o.Common().Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Status != status || reason != "" && c.Reason != reason {
			return fmt.Errorf("Ready is %+v", c)
		}
		return nil
	})
}

// totals waits until a filter finds so many users on both replicas.
func totals(t *testing.T, endpoint, filter string, want int) {
	t.Helper()
	for replica := range replicas {
		soon(t, fmt.Sprintf("%s on replica %d", filter, replica), func() error {
			got := acme.as(acme.rfc).at(replica).find(t, endpoint, filter).is(200)
			if got.at("totalResults") != float64(want) {
				return fmt.Errorf("totalResults is %v, want %d", got.at("totalResults"), want)
			}
			return nil
		})
	}
}

func TestWhatSCIMWritesKubectlShows(t *testing.T) {
	admin := acme.as(acme.rfc)
	name := unique("ada")
	id := admin.user(t, name, `"externalId":"x","name":{"givenName":"Ada"},"emails":[{"value":"a@x","primary":true}],"`+enterpriseURN+`":{"department":"D"},"`+attributesURN+`":{"level":5}`)
	u := read(t, id, &v1alpha1.ScimUser{})
	if u.Spec.UserName != name || u.Spec.ExternalID != "x" || u.Spec.Name == nil || u.Spec.Name.GivenName != "Ada" || len(u.Spec.Emails) != 1 || u.Spec.Enterprise == nil || u.Spec.Enterprise.Department != "D" || len(u.Spec.Extensions) != 1 {
		t.Errorf("%+v", u.Spec)
	}
	ready(t, u, metav1.ConditionTrue, "")
	groupName := unique("g")
	groupID := admin.group(t, groupName, id)
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
	admin.call(t, "PATCH", "/Users/"+id, patch(`{"op":"replace","path":"active","value":false}`, `{"op":"remove","path":"name"}`)).is(200)
	if u := read(t, id, &v1alpha1.ScimUser{}); u.Spec.Active == nil || *u.Spec.Active || u.Spec.Name != nil {
		t.Errorf("%+v", u.Spec)
	}
	admin.call(t, "DELETE", "/Users/"+id, nil).is(204)
	if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(u), u); client.IgnoreNotFound(err) != nil || err == nil && u.DeletionTimestamp.IsZero() {
		t.Errorf("it is still there: %v", err)
	}
}

func TestWhatKubectlWritesSCIMShows(t *testing.T) {
	admin := acme.as(acme.rfc)
	name := unique("grace")
	u := scimUser(dns("grace"), name)
	u.Spec.Title = "Rear Admiral"
	apply(t, u)
	for replica := range replicas { // by id, and by what is unique: at once
		admin.at(replica).call(t, "GET", "/Users/"+u.Name, nil).is(200).want("userName", name).want("title", "Rear Admiral").want("active", true).want("meta.location", acme.base()+"/Users/"+u.Name)
	}
	totals(t, "/Users", `userName eq `+quote(strings.ToUpper(name)), 1)
	totals(t, "/Users", `title eq "rear admiral" and id eq "`+u.Name+`"`, 1)
	g := &v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: acme.name, Name: dns("navy")}, Spec: v1alpha1.ScimGroupSpec{
		DisplayName: unique("Navy"), Members: []v1alpha1.ScimMember{{Value: u.Name}, {Value: "nobody-yet"}},
	}}
	apply(t, g)
	soon(t, "the member", func() error {
		if members := admin.call(t, "GET", "/Groups/"+g.Name, nil).is(200).memberIDs(); !members[u.Name] || len(members) != 1 {
			return fmt.Errorf("members are %v", members)
		}
		return nil
	})
	soon(t, "the group of the user", func() error {
		if got := admin.call(t, "GET", "/Users/"+u.Name, nil).is(200); got.at("groups.0.value") != g.Name || got.at("groups.0.display") != g.Spec.DisplayName {
			return fmt.Errorf("%s", got.raw)
		}
		return nil
	})
	t.Run("a change is visible", func(t *testing.T) { changedByKubectl(t, u.Name) })
	t.Run("SCIM changes it as its own, in place", func(t *testing.T) {
		admin.call(t, "PATCH", "/Users/"+u.Name, patch(`{"op":"replace","path":"title","value":"T"}`)).is(200).want("title", "T")
		admin.call(t, "PATCH", "/Groups/"+g.Name, patch(`{"op":"remove","path":"members[value eq \"`+u.Name+`\"]"}`)).is(200).want("members.0", nil)
		if kept := read(t, g.Name, &v1alpha1.ScimGroup{}); slices.ContainsFunc(kept.Spec.Members, func(m v1alpha1.ScimMember) bool { return m.Value == u.Name }) {
			t.Errorf("%+v", kept.Spec)
		}
	})
	t.Run("deleting it takes it away", func(t *testing.T) {
		if err := k8s.Delete(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		soon(t, "its absence", func() error {
			if got := admin.call(t, "GET", "/Users/"+u.Name, nil); got.status != 404 {
				return fmt.Errorf("%d", got.status)
			}
			return nil
		})
	})
}

// changedByKubectl renames a user, whom SCIM then shows so.
func changedByKubectl(t *testing.T, id string) {
	admin := acme.as(acme.rfc)
	before := admin.call(t, "GET", "/Users/"+id, nil).is(200)
	nextSecond()
	changed := read(t, id, &v1alpha1.ScimUser{})
	changed.Spec.Title, changed.Spec.UserName = "Commodore", unique("renamed")
	if err := k8s.Update(t.Context(), changed, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	got := admin.call(t, "GET", "/Users/"+id, nil).is(200).want("title", "Commodore").want("userName", changed.Spec.UserName)
	if got.at("meta.version") == before.at("meta.version") || got.at("meta.lastModified") == before.at("meta.lastModified") {
		t.Errorf("version and lastModified did not move: %s", got.raw)
	}
	totals(t, "/Users", `userName eq `+quote(before.text("userName")), 0)
	totals(t, "/Users", `title eq "Commodore"`, 1)
}

func TestANameThatIsTakenByKubectl(t *testing.T) {
	admin := acme.as(acme.rfc)
	name := unique("Ada")
	first := admin.user(t, name)
	second := scimUser(dns("second"), strings.ToLower(name))
	apply(t, second)
	ready(t, second, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	t.Run("is no user", func(t *testing.T) {
		soon(t, "404", func() error {
			if got := admin.call(t, "GET", "/Users/"+second.Name, nil); got.status != 404 {
				return fmt.Errorf("%d", got.status)
			}
			return nil
		})
		totals(t, "/Users", `userName eq `+quote(name), 1)
		totals(t, "/Users", `id eq "`+second.Name+`"`, 0)
		admin.call(t, "PATCH", "/Users/"+second.Name, patch(`{"op":"add","path":"title","value":"x"}`)).refused(404, "")
		admin.call(t, "DELETE", "/Users/"+second.Name, nil).refused(404, "")
		admin.post(t, "/Users", `{"userName":`+quote(name)+`}`).refused(409, "uniqueness")
	})
	t.Run("becomes one when the name is free", func(t *testing.T) {
		admin.call(t, "DELETE", "/Users/"+first, nil).is(204)
		ready(t, second, metav1.ConditionTrue, "")
		totals(t, "/Users", `userName eq `+quote(name), 1)
		admin.call(t, "GET", "/Users/"+second.Name, nil).is(200)
	})
	t.Run("a rename by kubectl to a taken name gives way too", func(t *testing.T) {
		other := unique("other")
		admin.user(t, other)
		third := scimUser(dns("third"), unique("third"))
		apply(t, third)
		ready(t, third, metav1.ConditionTrue, "")
		third.Spec.UserName = other
		if err := k8s.Update(t.Context(), third, client.FieldOwner("kubectl-edit")); err != nil {
			t.Fatal(err)
		}
		ready(t, third, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
		totals(t, "/Users", `userName eq `+quote(other), 1)
	})
}

func TestADeletedUserLeavesEveryGroupAndFreesTheName(t *testing.T) {
	admin := acme.as(acme.rfc)
	for _, way := range []string{"SCIM", "kubectl"} {
		t.Run("deleted by "+way, func(t *testing.T) {
			name := unique("leaver")
			id, stays := admin.user(t, name), admin.user(t, unique("stays"))
			groups := []string{admin.group(t, unique("g"), id, stays), admin.group(t, unique("g"), id), admin.group(t, unique("g"), stays, id)}
			byHand := &v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: acme.name, Name: dns("hand")}, Spec: v1alpha1.ScimGroupSpec{DisplayName: unique("hand"), Members: []v1alpha1.ScimMember{{Value: id}}}}
			apply(t, byHand)
			left := func() error {
				for _, group := range append(groups, byHand.Name) {
					for replica := range replicas {
						if admin.at(replica).call(t, "GET", "/Groups/"+group, nil).is(200).memberIDs()[id] {
							return fmt.Errorf("still in %s on replica %d", group, replica)
						}
					}
				}
				return nil
			}
			if way == "SCIM" {
				admin.call(t, "DELETE", "/Users/"+id, nil).is(204)
				for _, group := range groups { // on the replica that was asked, at once
					if admin.call(t, "GET", "/Groups/"+group, nil).is(200).memberIDs()[id] {
						t.Errorf("still in %s", group)
					}
				}
				admin.find(t, "/Groups", `members.value eq "`+id+`"`).is(200).want("totalResults", 0)
			} else if err := k8s.Delete(t.Context(), scimUser(id, name)); err != nil {
				t.Fatal(err)
			}
			soon(t, "it left", left)
			totals(t, "/Groups", `members.value eq "`+id+`"`, 0)
			admin.call(t, "GET", "/Groups/"+groups[0], nil).is(200).want("members.0.value", stays)
			if again := admin.user(t, strings.ToUpper(name)); again == id {
				t.Error("the id was given again")
			} else if err := left(); err != nil {
				t.Error(err)
			} else if got := admin.call(t, "GET", "/Users/"+again, nil).is(200); got.at("groups") != nil {
				t.Errorf("the next one of that name inherits groups: %s", got.raw)
			}
		})
	}
}

// keyOf makes a key that a user owns, and returns its token.
func keyOf(t *testing.T, user string, permissions ...v1alpha1.Permission) string {
	t.Helper()
	key, token, err := clustertest.Key(acme.name, dns("key"), v1alpha1.ApiKeySpec{
		Owner: &v1alpha1.ApiKeyOwner{ScimUser: user}, Permissions: permissions, ScimProfile: "RFC",
	})
	if err != nil {
		t.Fatal(err)
	}
	apply(t, key)
	return token
}

// answers waits until GET /Me has a status on both replicas.
func answers(t *testing.T, token string, status int) {
	t.Helper()
	for replica := range replicas {
		soon(t, fmt.Sprintf("%d on replica %d", status, replica), func() error {
			if got := acme.as(token).at(replica).call(t, "GET", "/Me", nil); got.status != status {
				return fmt.Errorf("%d: %s", got.status, got.raw)
			}
			return nil
		})
	}
}

func TestRFC7644Section3_11_Me(t *testing.T) {
	admin := acme.as(acme.rfc)
	name := unique("me")
	id := admin.user(t, name)
	reader, manager := keyOf(t, id, "DeploymentRead"), keyOf(t, id, v1alpha1.PermissionScimManage)
	answers(t, reader, 200)
	answers(t, manager, 200)
	got := acme.as(reader).call(t, "GET", "/Me", nil).is(200).want("id", id).want("userName", name).want("meta.location", acme.base()+"/Users/"+id)
	if got.header.Get("Content-Location") != acme.base()+"/Users/"+id || got.header.Get("ETag") != got.text("meta.version") {
		t.Errorf("%v", got.header)
	}
	acme.as(reader).call(t, "GET", "/Me?attributes=userName", nil).is(200).shows("schemas", "id", "userName")
	acme.as(reader).call(t, "GET", "/Users/"+id, nil).refused(403, "")
	acme.as(reader).call(t, "PATCH", "/Me", patch(`{"op":"add","path":"title","value":"x"}`)).refused(403, "")
	acme.as(manager).call(t, "PATCH", "/Me", patch(`{"op":"add","path":"title","value":"x"}`)).is(200).want("title", "x")
	acme.as(manager).call(t, "PUT", "/Me", `{"userName":`+quote(name)+`}`, "If-Match", `W/"stale"`).refused(412, "")
	acme.as(manager).call(t, "PUT", "/Me", `{"userName":`+quote(name)+`}`).is(200).want("title", nil).want("id", id)
	acme.as(manager).call(t, "DELETE", "/Me", nil).is(204)
	admin.call(t, "GET", "/Users/"+id, nil).refused(404, "")
	answers(t, manager, 401)
}

func TestAnInactiveUsersKeysDoNotWork(t *testing.T) {
	admin := acme.as(acme.rfc)
	id := admin.user(t, unique("worker"))
	token := keyOf(t, id, "DeploymentRead")
	answers(t, token, 200)
	for range 2 {
		admin.call(t, "PATCH", "/Users/"+id, patch(`{"op":"replace","path":"active","value":false}`)).is(200).want("active", false)
		answers(t, token, 401)
		admin.call(t, "GET", "/Users/"+id, nil).is(200).want("active", false)
		admin.call(t, "PATCH", "/Users/"+id, patch(`{"op":"replace","path":"active","value":true}`)).is(200).want("active", true)
		answers(t, token, 200)
	}
	u := read(t, id, &v1alpha1.ScimUser{})
	no := false
	u.Spec.Active = &no
	if err := k8s.Update(t.Context(), u, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	answers(t, token, 401)
}

func TestAFieldThatGitOwnsIsNotChanged(t *testing.T) {
	admin := acme.as(acme.rfc)
	name := dns("git")
	manifest := &v1alpha1.ScimUser{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ScimUser"},
		ObjectMeta: metav1.ObjectMeta{Namespace: acme.name, Name: name},
		Spec:       v1alpha1.ScimUserSpec{UserName: unique("git"), Title: "T"},
	}
	if err := k8s.Patch(t.Context(), manifest, client.Apply, client.FieldOwner("argocd")); err != nil { //nolint:staticcheck // as other programs do it
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k8s.Delete(context.WithoutCancel(t.Context()), scimUser(name, "")) })
	before := admin.call(t, "GET", "/Users/"+name, nil).is(200).want("title", "T")
	admin.call(t, "PATCH", "/Users/"+name, patch(`{"op":"add","path":"nickName","value":"n"}`, `{"op":"replace","path":"title","value":"U"}`)).refused(409, "", "argocd", "title")
	admin.call(t, "PUT", "/Users/"+name, `{"userName":`+quote(manifest.Spec.UserName)+`}`).refused(409, "", "argocd", "title")
	admin.call(t, "PATCH", "/Users/"+name, patch(`{"op":"replace","path":"userName","value":`+quote(unique("other"))+`}`)).refused(409, "", "argocd", "userName")
	admin.call(t, "DELETE", "/Users/"+name, nil).refused(409, "", "argocd")
	if now := admin.call(t, "GET", "/Users/"+name, nil).is(200).want("nickName", nil); now.at("title") != "T" || now.at("meta.lastModified") != before.at("meta.lastModified") {
		t.Errorf("was %s, is %s", before.raw, now.raw)
	}
	admin.call(t, "PATCH", "/Users/"+name, patch(`{"op":"add","path":"nickName","value":"n"}`)).is(200).want("nickName", "n").want("title", "T")
	if err := k8s.Patch(t.Context(), manifest.DeepCopy(), client.RawPatch("application/apply-patch+yaml", []byte(asJSON(map[string]any{
		"apiVersion": manifest.APIVersion, "kind": "ScimUser", "metadata": map[string]any{"name": name, "namespace": acme.name}, "spec": map[string]any{"userName": manifest.Spec.UserName, "title": "T"},
	}))), client.FieldOwner("argocd")); err != nil {
		t.Errorf("Git's next sync conflicts: %v", err)
	}
	admin.call(t, "GET", "/Users/"+name, nil).is(200).want("nickName", "n").want("title", "T")
}

// each runs a function for 0..n-1 at once and waits.
func each(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}
