//go:build !memory

package scim_test

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// forgetOwners is the patch of docs/operations/scim-setup.md that removes the owners of all fields.
const forgetOwners = `[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`

// TestUserIsHandedToIdentityProvider follows docs/operations/scim-setup.md: a user that Argo CD applies is found by its
// name, its attributes are a 409 that names the owner, and after the owners are removed, the identity provider changes them.
func TestUserIsHandedToIdentityProvider(t *testing.T) {
	for profile, token := range map[string]string{"Okta": acme.Okta, "EntraID": acme.Entra} {
		t.Run(profile, func(t *testing.T) {
			idp := acme.WithToken(token)
			id, userName := dns("handed"), scimtest.UniqueName("handed")
			applyAs(t, "argocd-controller", "ScimUser", id, map[string]any{"userName": userName, "title": "Captain", "active": true})
			soon(t, "the user is found by its name", func() error {
				if found := idp.Find(t, "/Users", `userName eq `+scimtest.Quote(userName)).WantStatus(200); found.Value("Resources.0.id") != id {
					return fmt.Errorf("%s", found.Raw)
				}
				return nil
			})
			idp.Call(t, "POST", "/Users", `{"userName":`+scimtest.Quote(userName)+`}`).WantError(409, "uniqueness", userName)
			idp.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","path":"nickName","value":"Hal"}`)).WantStatus(200).Want("nickName", "Hal")
			whole := `{"userName":` + scimtest.Quote(userName) + `,"title":"Admiral","nickName":"Hal","active":true}`
			idp.Call(t, "PUT", "/Users/"+id, whole).WantError(409, "", "title", "argocd-controller", "owns this attribute")

			patch(t, &v1alpha1.ScimUser{}, id, forgetOwners)
			idp.Call(t, "PUT", "/Users/"+id, whole).WantStatus(200).Want("title", "Admiral").Want("id", id)
			idp.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","path":"active","value":false}`)).WantStatus(200).Want("active", false)
			idp.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","path":"active","value":true}`)).WantStatus(200).Want("active", true)
			if u := read(t, id, &v1alpha1.ScimUser{}); u.Spec.Title != "Admiral" || !u.Spec.IsActive() {
				t.Errorf("%+v", u.Spec)
			}
		})
	}
}

// TestGroupIsHandedToIdentityProvider is the same for a group: its name and its members.
func TestGroupIsHandedToIdentityProvider(t *testing.T) {
	idp := acme.WithToken(acme.Okta)
	member := idp.CreateUser(t, scimtest.UniqueName("member"))
	id, displayName, renamed := dns("handed-group"), scimtest.UniqueName("Handed"), scimtest.UniqueName("Renamed")
	applyAs(t, "kustomize-controller", "ScimGroup", id, map[string]any{"displayName": displayName})
	rename := scimtest.PatchBody(`{"op":"replace","value":{"displayName":` + scimtest.Quote(renamed) + `}}`)
	soon(t, "the group exists", func() error {
		if got := idp.Call(t, "GET", "/Groups/"+id, nil); got.Status != 200 {
			return fmt.Errorf("%s", got.Raw)
		}
		return nil
	})
	idp.Call(t, "PATCH", "/Groups/"+id, rename).WantError(409, "", "displayName", "kustomize-controller")
	patch(t, &v1alpha1.ScimGroup{}, id, forgetOwners)
	idp.Call(t, "PATCH", "/Groups/"+id, rename).WantStatus(204)
	idp.Call(t, "PATCH", "/Groups/"+id, scimtest.PatchBody(`{"op":"add","path":"members","value":[{"value":"`+member+`"}]}`)).WantStatus(204)
	if got := idp.Call(t, "GET", "/Groups/"+id, nil).WantStatus(200).Want("displayName", renamed); !got.MemberIDs()[member] {
		t.Errorf("the member is missing: %s", got.Raw)
	}
}

// applyAs applies an object as a GitOps tool does. It is deleted after the test.
func applyAs(t *testing.T, manager, kind, name string, spec map[string]any) {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind, "spec": spec}}
	u.SetNamespace(acme.Name)
	u.SetName(name)
	if err := scimtest.Kubernetes.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = scimtest.Kubernetes.Delete(context.WithoutCancel(t.Context()), u) })
}

// patch applies a JSON patch to an object, as kubectl patch --type=json does.
func patch(t *testing.T, o client.Object, name, operations string) {
	t.Helper()
	o.SetNamespace(acme.Name)
	o.SetName(name)
	if err := scimtest.Kubernetes.Patch(t.Context(), o, client.RawPatch(types.JSONPatchType, []byte(operations)), client.FieldOwner("kubectl-patch")); err != nil {
		t.Fatal(err)
	}
}
