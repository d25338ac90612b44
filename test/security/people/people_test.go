package people_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// TestReapplyingYAMLDoesNotRestoreAccess: a person has left, and the identity provider deactivates it and removes it
// from its groups. Its YAML is still in Git, and the person, or a tool, applies it again. Its keys and tokens stay
// rejected, and it stays out of the groups, until the identity provider says otherwise.
func TestReapplyingYAMLDoesNotRestoreAccess(t *testing.T) {
	for _, manager := range []string{"kubectl", "argocd-controller", "kustomize-controller"} {
		t.Run(manager, func(t *testing.T) {
			c := newCompany(t)
			apply := func() {
				c.apply(manager, "ScimUser", "eve", map[string]any{"userName": "eve@example.com", "active": true})
				c.apply(manager, "ScimGroup", "admins", map[string]any{"displayName": "Admins", "members": []any{map[string]any{"value": "eve"}}})
			}
			apply()
			key, token := c.key("eve"), c.issuer.token("eve@example.com")
			wantAccess := func(want bool) {
				t.Helper()
				c.wantAccess("key", c.keys, key, want)
				c.wantAccess("token", c.oidc, token, want)
			}
			wantAccess(true)
			c.setActive("eve", false)
			c.leave("admins", "eve")
			wantAccess(false)
			apply()
			c.replica = c.start()
			wantAccess(false)
			if members := c.members("admins"); slices.Contains(members, "eve") {
				t.Errorf("members of the group after the YAML was applied again: %v", members)
			}
			c.setActive("eve", true)
			wantAccess(true)
		})
	}
}

// TestARejectedRequestTakesAccessAway: the identity provider deactivates a user of a manifest with a request that also
// changes a field of the manifest, or deletes the user. The request is rejected and the user is inactive. lastModified has the
// time of that change in milliseconds, as after any other change over SCIM.
func TestARejectedRequestTakesAccessAway(t *testing.T) {
	for name, send := range map[string]func(c *company, users *schema.ResourceType) error{
		"change of the title": func(c *company, users *schema.ResourceType) error {
			_, err := c.scim.ReplaceResource(c.Context(), users, "eve", func(u *schema.Resource) (schema.Document, error) {
				u.Document["active"], u.Document["title"] = false, "Former employee"
				return u.Document, nil
			})
			return err
		},
		"deletion": func(c *company, users *schema.ResourceType) error {
			return c.scim.DeleteResource(c.Context(), users, "eve", func(*schema.Resource) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCompany(t)
			c.apply("argocd-controller", "ScimUser", "eve", map[string]any{"userName": "eve@example.com", "title": "Engineer"})
			token, users := c.issuer.token("eve@example.com"), c.scim.ResourceTypes()[0]
			c.wantAccess("active", c.oidc, token, true)
			if err := send(c, users); err == nil || !strings.Contains(err.Error(), "the user was deactivated") {
				t.Errorf("got %v", err)
			}
			c.wantAccess("deactivated", c.oidc, token, false)
			eve := &v1alpha1.ScimUser{}
			c.must(c.api.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: "eve"}, eve))
			if at := eve.Annotations[v1alpha1.AnnotationModified]; eve.Spec.Title != "Engineer" || eve.IsActive() || !strings.HasPrefix(at, fmt.Sprintf("%d ", eve.Generation)) {
				t.Errorf("title %q, active %t, generation %d, modified at %q", eve.Spec.Title, eve.IsActive(), eve.Generation, at)
			}
		})
	}
}

// leave removes a user from a group over SCIM.
func (c *company) leave(group, user string) {
	c.Helper()
	_, err := c.scim.ReplaceResource(c.Context(), c.scim.ResourceTypes()[1], group, func(g *schema.Resource) (schema.Document, error) {
		g.Document["members"].(schema.Set).Delete(user)
		return g.Document, nil
	})
	c.must(err)
}

// members returns the members of a group over SCIM.
func (c *company) members(group string) (ids []string) {
	c.Helper()
	g, err := c.scim.GetResource(c.Context(), c.scim.ResourceTypes()[1], group, nil)
	c.must(err)
	for element := range g.Document["members"].(schema.Set).All() {
		ids = append(ids, element["value"].(string))
	}
	return ids
}

// TestDeletionDoesNotReviveTokens: a person has left and was deactivated. Then its user is deleted, over SCIM or by
// removing its YAML, and the issuer still issues tokens to it. The tokens stay rejected, also by a new replica, while
// people who were never provisioned are accepted as before.
func TestDeletionDoesNotReviveTokens(t *testing.T) {
	for name, deleted := range map[string]func(c *company, id string){
		"over SCIM": func(c *company, id string) {
			c.must(c.scim.DeleteResource(c.Context(), c.scim.ResourceTypes()[0], id, func(*schema.Resource) error { return nil }))
		},
		"with kubectl": func(c *company, id string) {
			c.must(c.api.Delete(c.Context(), &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: id}}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCompany(t)
			token := c.issuer.token("eve@example.com")
			eve, err := c.scim.CreateResource(t.Context(), c.scim.ResourceTypes()[0], schema.Document{"userName": "Eve@example.com"})
			c.must(err)
			c.wantAccess("active", c.oidc, token, true)
			c.setActive(eve.ID, false)
			c.wantAccess("deactivated", c.oidc, token, false)
			deleted(c, eve.ID)
			for range 2 {
				// The cache of the user must not be what rejects the token.
				c.replica = c.start()
				c.must(tryAccess(t.Context(), "deleted", c.oidc, c.account, token, false))
			}
			c.must(tryAccess(t.Context(), "another person", c.oidc, c.account, c.issuer.token("bob@example.com"), true))
			_, err = c.scim.CreateResource(t.Context(), c.scim.ResourceTypes()[0], schema.Document{"userName": "eve@example.com"})
			c.must(err)
			c.wantAccess("provisioned again", c.oidc, token, true)
		})
	}
}
