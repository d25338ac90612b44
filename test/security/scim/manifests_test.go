//go:build !memory

package scim_test

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// A GitOps tool applies a person and a group with the person, every few minutes, and owns all fields of both. The person is
// dismissed: the identity provider deactivates the user and removes it from the group. It must be able to, and the manifests,
// which are applied again, must not let the person in again.
func TestManifestsDoNotKeepAccess(t *testing.T) {
	for _, manager := range []string{"kubectl", "argocd-controller", "kustomize-controller"} {
		t.Run(manager, func(t *testing.T) {
			idp, id := acme.WithToken(acme.Okta), "manifest-"+scimtest.RunID()
			sync := func() {
				t.Helper()
				applyAs(t, manager, "ScimUser", id, map[string]any{"userName": id, "active": true})
				applyAs(t, manager, "ScimGroup", id, map[string]any{"displayName": id, "members": []any{map[string]any{"value": id}}})
			}
			sync()
			access := accessOf(t, id)
			access(200)
			isMember(t, idp, id, true)

			idp.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","path":"active","value":false}`)).WantStatus(200).Want("active", false)
			idp.Call(t, "PATCH", "/Groups/"+id, scimtest.PatchBody(`{"op":"remove","path":"members[value eq \"`+id+`\"]"}`)).WantStatus(204)
			access(401)
			isMember(t, idp, id, false)
			for range 3 {
				sync()
				access(401)
				isMember(t, idp, id, false)
				idp.Call(t, "GET", "/Users/"+id, nil).WantStatus(200).Want("active", false)
			}
		})
	}
}

// isMember waits until a group does, or does not, have the member of the same id.
func isMember(t *testing.T, idp scimtest.Caller, id string, want bool) {
	t.Helper()
	if err := apiclient.Eventually(func() error {
		if got := idp.Call(t, "GET", "/Groups/"+id, nil); got.Status != 200 || got.MemberIDs()[id] != want {
			return fmt.Errorf("member %t: %s", want, got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// applyAs applies an object with server-side apply, until the end of the test.
func applyAs(t *testing.T, manager, kind, name string, spec map[string]any) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind, "spec": spec}}
	o.SetNamespace(acme.Name)
	o.SetName(name)
	if err := scimtest.Kubernetes.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner(manager), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = scimtest.Kubernetes.Delete(context.WithoutCancel(t.Context()), o) })
}
