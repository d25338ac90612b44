package e2e_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/quoin-dev/quoin/test/e2e/internal/servers"
)

// scimPatch returns the body of a PATCH.
func scimPatch(operations ...map[string]any) map[string]any {
	return map[string]any{"schemas": []string{"urn:ietf:params:scim:api:messages:2.0:PatchOp"}, "Operations": operations}
}

// Journey d: an identity provider provisions users and groups, which kubectl shows.
var _ = Describe("Provisioning over SCIM", Ordered, func() {
	It("creates, matches, updates, deactivates, pushes a group and deletes", func(ctx SpecContext) {
		onlySimulated("independent of pods")
		t := newTenant(ctx, "directory", "v1.2.3")
		f := startREST(ctx, t)
		const base = "/api/scim/v2"
		user := map[string]any{
			"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:User"}, "userName": "ada@example.com", "externalId": "00u1",
			"name": map[string]any{"givenName": "Ada", "familyName": "Lovelace"}, "emails": []map[string]any{{"value": "ada@example.com", "primary": true, "type": "work"}},
			"password": "never kept", "active": true,
		}
		match := base + "/Users?filter=userName%20eq%20%22ADA@example.com%22"
		Expect(f.Ask(ctx, 0, "GET", match, nil).Body).To(HaveKeyWithValue("totalResults", 0.0))
		created := f.Ask(ctx, 0, "POST", base+"/Users", user)
		Expect(created.Status).To(Equal(201), created.String())
		id, _ := created.Body["id"].(string)
		Expect(f.Ask(ctx, 1, "POST", base+"/Users", user)).To(servers.HaveStatus(409))
		Expect(f.Ask(ctx, 1, "GET", match, nil).Body).To(HaveKeyWithValue("totalResults", 1.0), "the other replica finds the user")

		By("showing the user with kubectl")
		kubectl(ctx, "wait", "suser/"+id, "-n", t.name, "--for=condition=Ready", "--timeout=60s")
		Expect(kubectl(ctx, "get", "suser", "-n", t.name)).To(And(ContainSubstring("ada@example.com"), ContainSubstring("Succeeded")))
		Expect(kubectl(ctx, "get", "suser", id, "-n", t.name, "-o", "yaml")).NotTo(ContainSubstring("never kept"))

		By("pushing a group with a member")
		group := f.Ask(ctx, 0, "POST", base+"/Groups", map[string]any{
			"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:Group"}, "displayName": "Analysts", "members": []map[string]any{{"value": id}},
		})
		Expect(group.Status).To(Equal(201), group.String())
		groupID, _ := group.Body["id"].(string)
		Expect(f.Ask(ctx, 0, "GET", base+"/Users/"+id, nil).Text).To(ContainSubstring(`"display":"Analysts"`))
		Eventually(func() string {
			return strings.TrimSpace(kubectl(ctx, "get", "sgrp", groupID, "-n", t.name, "-o", "jsonpath={.status.memberCount}"))
		}).Should(Equal("1"))

		By("pushing groups that are too large for one object, with the same members")
		many := []map[string]any{}
		for i := range 300 {
			many = append(many, map[string]any{"value": fmt.Sprintf("not-provisioned-yet-%d", i)})
		}
		for _, name := range []string{"Everyone", "Everyone else"} {
			large := f.Ask(ctx, 0, "POST", base+"/Groups", map[string]any{
				"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:Group"}, "displayName": name, "members": append(many, map[string]any{"value": id}),
			})
			Expect(large.Status).To(Equal(201), large.String())
			largeID, _ := large.Body["id"].(string)
			Expect(f.Ask(ctx, 1, "GET", base+"/Users/"+id, nil).Text).To(ContainSubstring(`"display":"` + name + `"`))
			Expect(strings.Fields(kubectl(ctx, "get", "sgrp", largeID, "-n", t.name, "-o", "jsonpath={.spec.memberChunkList}"))).To(HaveLen(2), "one chunk and its size")
		}
		Expect(strings.Fields(kubectl(ctx, "get", "schunk", "-n", t.name, "-o", "name"))).To(HaveLen(1), "chunks of equal members are stored once")

		By("rejecting the key of a deactivated user")
		apply(ctx, fmt.Sprintf("apiVersion: platform.quoin.dev/v1alpha1\nkind: ApiKey\nmetadata: {name: ada, namespace: %s}\nspec: {owner: {scimUser: %s}}\n", t.name, id))
		kubectl(ctx, "wait", "qkey/ada", "-n", t.name, "--for=condition=Ready", "--timeout=60s")
		admin := f.Token
		encoded := kubectl(ctx, "get", "secret", "ada-token", "-n", t.name, "-o", "jsonpath={.data.token}")
		own, err := base64.StdEncoding.DecodeString(encoded)
		Expect(err).NotTo(HaveOccurred())
		f.Token = string(own)
		Expect(f.Ask(ctx, 0, "GET", base+"/Me", nil).Body).To(HaveKeyWithValue("userName", "ada@example.com"))
		f.Token = admin
		patched := f.Ask(ctx, 0, "PATCH", base+"/Users/"+id, scimPatch(map[string]any{"op": "replace", "value": map[string]any{"active": false}}))
		Expect(patched.Status).To(Equal(200), patched.String())
		f.Token = string(own)
		Expect(f.Ask(ctx, 0, "GET", base+"/Me", nil)).To(servers.HaveStatus(401))
		f.Token = admin

		By("using the aggregated API")
		Expect(kubectl(ctx, "get", "--raw", servers.Aggregated+t.name+"/proxy"+base+"/Users/"+id)).To(ContainSubstring(`"active":false`))

		By("applying a user with kubectl; names are unique")
		apply(ctx, fmt.Sprintf("apiVersion: platform.quoin.dev/v1alpha1\nkind: ScimUser\nmetadata: {name: grace, namespace: %s}\nspec: {userName: grace@example.com}\n", t.name))
		Eventually(func() servers.Reply { return f.Ask(ctx, 1, "GET", base+"/Users/grace", nil) }).Should(servers.HaveStatus(200))
		Expect(f.Ask(ctx, 0, "POST", base+"/Users", map[string]any{"userName": "Grace@example.com"})).To(servers.HaveStatus(409))
		apply(ctx, fmt.Sprintf("apiVersion: platform.quoin.dev/v1alpha1\nkind: ScimUser\nmetadata: {name: second, namespace: %s}\nspec: {userName: GRACE@example.com}\n", t.name))
		kubectl(ctx, "wait", "suser/second", "-n", t.name, "--for=jsonpath={.status.conditions[?(@.type==\"Ready\")].reason}=NameTaken", "--timeout=60s")

		By("deleting the user, which removes it from the group and releases its name")
		Expect(f.Ask(ctx, 0, "DELETE", base+"/Users/"+id, nil)).To(servers.HaveStatus(204))
		Expect(f.Ask(ctx, 0, "GET", base+"/Groups/"+groupID, nil).Body).NotTo(HaveKey("members"))
		again := f.Ask(ctx, 1, "POST", base+"/Users", user)
		Expect(again.Status).To(Equal(201), again.String())
		Expect(again.Body["id"]).NotTo(Equal(id))
		Expect(f.Ask(ctx, 0, "DELETE", base+"/Groups/"+groupID, nil)).To(servers.HaveStatus(204))
	}, SpecTimeout(5*time.Minute))
})
