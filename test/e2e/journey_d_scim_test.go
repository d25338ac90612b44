package e2e_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/quoin-dev/quoin/test/e2e/internal/servers"
)

const (
	scimBase = "/api/scim/v2"
	groupURN = "urn:ietf:params:scim:schemas:core:2.0:Group"
)

// scimPatch returns the body of a PATCH.
func scimPatch(operations ...map[string]any) map[string]any {
	return map[string]any{"schemas": []string{"urn:ietf:params:scim:api:messages:2.0:PatchOp"}, "Operations": operations}
}

// scimClient is a kind of identity provider: the profile of its key, and how its requests and responses differ.
type scimClient struct {
	// profile is empty if the key has none. The client is then detected from its requests.
	profile string
	// deactivation is the operation that deactivates a user, as the client writes it.
	deactivation map[string]any
	// groupPatched is the status of the response to a PATCH of a group.
	groupPatched int
	// exchanges means that the client exchanges its key for access tokens: the client credentials grant.
	exchanges bool
}

// entraID is the only client that exchanges its key.
var entraID = scimClient{"EntraID", map[string]any{"op": "Replace", "path": "active", "value": "False"}, 204, true}

// scimClients has one client for each profile, and one without a profile.
var scimClients = []scimClient{
	{"", map[string]any{"op": "replace", "path": "active", "value": false}, 200, false},
	{"RFC", map[string]any{"op": "replace", "path": "active", "value": false}, 200, false},
	{"Okta", map[string]any{"op": "replace", "value": map[string]any{"active": false}}, 204, false},
	entraID,
}

// name returns the profile, for names of objects and users.
func (c scimClient) name() string { return strings.ToLower(cmp.Or(c.profile, "detected")) }

// Journey d: an identity provider provisions users and groups, which kubectl shows.
var _ = Describe("Provisioning over SCIM", Ordered, ContinueOnFailure, func() {
	var (
		t *tenant
		f *servers.REST
	)
	BeforeAll(func(ctx SpecContext) {
		onlySimulated("independent of pods")
		t = newTenant(ctx, "directory", "v1.2.3")
		f = startREST(ctx, t)
	})

	It("has a journey for each profile of an ApiKey", func(ctx SpecContext) {
		var allowed, tested []string
		Expect(json.Unmarshal([]byte(kubectl(ctx, "get", "crd/apikeys.platform.quoin.dev", "-o",
			"jsonpath={.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.scimProfile.enum}")), &allowed)).To(Succeed())
		for _, c := range scimClients {
			tested = append(tested, c.profile)
		}
		Expect(tested).To(ConsistOf(append(allowed, "")))
	})

	for _, c := range scimClients {
		It("creates, matches, updates, deactivates, pushes a group and deletes, with the profile: "+c.name(), func(ctx SpecContext) {
			c.connect(ctx, t, f).provision(ctx)
		}, SpecTimeout(3*time.Minute))
	}

	It("has the users that kubectl applies; names are unique", func(ctx SpecContext) {
		apply(ctx, fmt.Sprintf("apiVersion: platform.quoin.dev/v1alpha1\nkind: ScimUser\nmetadata: {name: grace, namespace: %s}\nspec: {userName: grace@example.com}\n", t.name))
		Eventually(func() servers.Reply { return f.Ask(ctx, 1, "GET", scimBase+"/Users/grace", nil) }).Should(servers.HaveStatus(200))
		Expect(f.Ask(ctx, 0, "POST", scimBase+"/Users", map[string]any{"userName": "Grace@example.com"})).To(servers.HaveStatus(409))
		apply(ctx, fmt.Sprintf("apiVersion: platform.quoin.dev/v1alpha1\nkind: ScimUser\nmetadata: {name: second, namespace: %s}\nspec: {userName: GRACE@example.com}\n", t.name))
		kubectl(ctx, "wait", "suser/second", "-n", t.name, "--for=jsonpath={.status.conditions[?(@.type==\"Ready\")].reason}=NameTaken", "--timeout=60s")
	}, SpecTimeout(3*time.Minute))
})

// provisioner is the journey of one client.
type provisioner struct {
	scimClient
	*servers.REST // with the key of the client
	tenant        *tenant
	userName      string
}

// connect creates a key with the profile of the client, and waits until both replicas accept it.
func (c scimClient) connect(ctx context.Context, t *tenant, f *servers.REST) *provisioner {
	GinkgoHelper()
	spec := "permissions: [ScimManage]"
	if c.profile != "" {
		spec += ", scimProfile: " + c.profile
	}
	key := "idp-" + c.name()
	token := t.key(ctx, key, spec)
	if c.exchanges {
		token = accessToken(ctx, f, key, token)
	}
	p := &provisioner{c, f.WithToken(token), t, "ada." + c.name() + "@example.com"}
	for replica := range f.Replicas {
		Eventually(func() servers.Reply { return p.Ask(ctx, replica, "GET", scimBase+"/Users?count=0", nil) }).Should(servers.HaveStatus(200))
	}
	return p
}

// accessToken exchanges the token of an ApiKey for an access token, at one replica; the other one accepts it too.
func accessToken(ctx context.Context, f *servers.REST, key, token string) string {
	GinkgoHelper()
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {key}, "client_secret": {token}}
	var issued servers.Reply
	Eventually(func() servers.Reply {
		issued = f.WithToken("").Send(ctx, 0, "POST", "/auth/oauth2/token", "application/x-www-form-urlencoded", strings.NewReader(form.Encode()))
		return issued
	}).Should(servers.HaveStatus(200))
	access, _ := issued.Body["access_token"].(string)
	Expect(access).To(HavePrefix("qct_"))
	return access
}

// provision does what an identity provider does with a user and its groups.
func (p *provisioner) provision(ctx context.Context) {
	GinkgoHelper()
	id := p.createUser(ctx)
	group := p.pushGroup(ctx, id)
	p.pushLargeGroups(ctx, id)
	p.deactivate(ctx, id)
	p.delete(ctx, id, group)
}

// user returns the body that creates the user.
func (p *provisioner) user() map[string]any {
	return map[string]any{
		"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:User"}, "userName": p.userName, "externalId": "00u-" + p.name(),
		"name": map[string]any{"givenName": "Ada", "familyName": "Lovelace"}, "emails": []map[string]any{{"value": p.userName, "primary": true, "type": "work"}},
		"password": "never kept", "active": true,
	}
}

// patch sends a PATCH with one operation.
func (p *provisioner) patch(ctx context.Context, path string, operation map[string]any) servers.Reply {
	return p.Ask(ctx, 0, "PATCH", scimBase+path, scimPatch(operation))
}

// createUser looks for the user, creates it and shows it with kubectl. It returns the id.
func (p *provisioner) createUser(ctx context.Context) string {
	GinkgoHelper()
	By("creating a user that a search does not find")
	match := scimBase + "/Users?filter=" + url.QueryEscape(fmt.Sprintf("userName eq %q", strings.ToUpper(p.userName)))
	Expect(p.Ask(ctx, 0, "GET", match, nil).Body).To(HaveKeyWithValue("totalResults", 0.0))
	created := p.Ask(ctx, 0, "POST", scimBase+"/Users", p.user())
	Expect(created.Status).To(Equal(201), created.String())
	id, _ := created.Body["id"].(string)
	Expect(p.Ask(ctx, 1, "POST", scimBase+"/Users", p.user())).To(servers.HaveStatus(409))
	Expect(p.Ask(ctx, 1, "GET", match, nil).Body).To(HaveKeyWithValue("totalResults", 1.0), "the other replica finds the user")

	By("showing the user with kubectl")
	kubectl(ctx, "wait", "suser/"+id, "-n", p.tenant.name, "--for=condition=Ready", "--timeout=60s")
	Expect(kubectl(ctx, "get", "suser", "-n", p.tenant.name)).To(And(ContainSubstring(p.userName), ContainSubstring("Succeeded")))
	Expect(kubectl(ctx, "get", "suser", id, "-n", p.tenant.name, "-o", "yaml")).NotTo(ContainSubstring("never kept"))
	return id
}

// pushGroup creates a group with the user as its member, and renames it. It returns the id of the group.
func (p *provisioner) pushGroup(ctx context.Context, member string) string {
	GinkgoHelper()
	By("pushing a group with a member")
	name := "Analysts of " + p.name()
	group := p.Ask(ctx, 0, "POST", scimBase+"/Groups", map[string]any{
		"schemas": []string{groupURN}, "displayName": "New " + name, "members": []map[string]any{{"value": member}},
	})
	Expect(group.Status).To(Equal(201), group.String())
	id, _ := group.Body["id"].(string)
	renamed := p.patch(ctx, "/Groups/"+id, map[string]any{"op": "replace", "path": "displayName", "value": name})
	Expect(renamed.Status).To(Equal(p.groupPatched), renamed.String())
	Expect(p.Ask(ctx, 0, "GET", scimBase+"/Users/"+member, nil).Text).To(ContainSubstring(`"display":"` + name + `"`))
	Eventually(func() string {
		return strings.TrimSpace(kubectl(ctx, "get", "sgrp", id, "-n", p.tenant.name, "-o", "jsonpath={.status.memberCount}"))
	}).Should(Equal("1"))
	return id
}

// pushLargeGroups creates two groups with the same members, which include the user.
func (p *provisioner) pushLargeGroups(ctx context.Context, member string) {
	GinkgoHelper()
	By("pushing groups that are too large for one object, with the same members")
	members := []map[string]any{{"value": member}}
	for i := range 300 {
		members = append(members, map[string]any{"value": fmt.Sprintf("not-provisioned-yet-%d", i)})
	}
	var chunks [2]string
	for i, name := range []string{"Everyone of " + p.name(), "Everyone else of " + p.name()} {
		large := p.Ask(ctx, 0, "POST", scimBase+"/Groups", map[string]any{"schemas": []string{groupURN}, "displayName": name, "members": members})
		Expect(large.Status).To(Equal(201), large.String())
		id, _ := large.Body["id"].(string)
		Expect(p.Ask(ctx, 1, "GET", scimBase+"/Users/"+member, nil).Text).To(ContainSubstring(`"display":"` + name + `"`))
		chunks[i] = kubectl(ctx, "get", "sgrp", id, "-n", p.tenant.name, "-o", "jsonpath={.spec.memberChunkList}")
		Expect(strings.Fields(chunks[i])).To(HaveLen(2), "one chunk and its size")
	}
	Expect(chunks[0]).To(Equal(chunks[1]), "chunks of equal members are stored once")
}

// deactivate deactivates the user, whose own key is then rejected.
func (p *provisioner) deactivate(ctx context.Context, id string) {
	GinkgoHelper()
	By("rejecting the key of a deactivated user")
	own := p.WithToken(p.tenant.key(ctx, "ada-"+p.name(), "owner: {scimUser: "+id+"}"))
	Expect(own.Ask(ctx, 0, "GET", scimBase+"/Me", nil).Body).To(HaveKeyWithValue("userName", p.userName))
	patched := p.patch(ctx, "/Users/"+id, p.deactivation)
	Expect(patched.Status).To(Equal(200), patched.String())
	Expect(patched.Body).To(HaveKeyWithValue("active", false))
	Expect(own.Ask(ctx, 0, "GET", scimBase+"/Me", nil)).To(servers.HaveStatus(401))

	By("using the aggregated API")
	Expect(kubectl(ctx, "get", "--raw", servers.Aggregated+p.tenant.name+"/proxy"+scimBase+"/Users/"+id)).To(ContainSubstring(`"active":false`))
}

// delete deletes the user, creates it again and deletes its group.
func (p *provisioner) delete(ctx context.Context, id, group string) {
	GinkgoHelper()
	By("deleting the user, which removes it from the group and releases its name")
	Expect(p.Ask(ctx, 0, "DELETE", scimBase+"/Users/"+id, nil)).To(servers.HaveStatus(204))
	Expect(p.Ask(ctx, 0, "GET", scimBase+"/Groups/"+group, nil).Body).NotTo(HaveKey("members"))
	again := p.Ask(ctx, 1, "POST", scimBase+"/Users", p.user())
	Expect(again.Status).To(Equal(201), again.String())
	Expect(again.Body["id"]).NotTo(Equal(id))
	Expect(p.Ask(ctx, 0, "DELETE", scimBase+"/Groups/"+group, nil)).To(servers.HaveStatus(204))
}
