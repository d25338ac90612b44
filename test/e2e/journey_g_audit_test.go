package e2e_test

import (
	"context"
	"encoding/csv"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/store/postgrestest"
	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
	"github.com/quoin-dev/quoin/test/e2e/internal/servers"
)

// Journey g: changes through REST, SCIM, kubectl and controllers are in the audit log. See docs/journeys/g-audit.md.
var _ = Describe("The audit log", Ordered, func() {
	const export = "/api/v1/audit-logs/export"
	var (
		t        *tenant
		f        *servers.REST
		database *postgrestest.Server
	)

	BeforeAll(func(ctx SpecContext) {
		onlySimulated("independent of the containers")
		database = postgrestest.StartServer(GinkgoTB())
		t = newTenant(ctx, "audited", "v1.2.2", "v1.2.3")
		kubectl(ctx, "patch", "acct/"+t.name, "--type=merge", "-p", `{"spec":{"plan":"Enterprise","auditLog":{"enabled":true}}}`)
		f = startREST(ctx, t, "--database-url="+database.Database(GinkgoTB()))
		kubectl(ctx, "apply", "--server-side", "-k", cluster.Repository("config", "audit"))
		DeferCleanup(func(ctx SpecContext) {
			kubectl(ctx, "delete", "-k", cluster.Repository("config", "audit"))
		})
		awaitWebhook(ctx, f, t)
		t.install(ctx, "sales")
	})

	// events returns the exported events that a search finds.
	events := func(ctx context.Context, search string) []string {
		GinkgoHelper()
		answer := f.Ask(ctx, 1, http.MethodGet, export+"?search="+search, nil)
		Expect(answer.Status).To(Equal(http.StatusOK), answer.String())
		records, err := csv.NewReader(strings.NewReader(answer.Text)).ReadAll()
		Expect(err).NotTo(HaveOccurred())
		Expect(records[0][:4]).To(Equal([]string{"time", "event", "user_email", "actor"}))
		var lines []string
		for _, r := range records[1:] {
			lines = append(lines, strings.Join([]string{r[1], "by", r[3], "over", r[8] + ":", r[7]}, " "))
		}
		return lines
	}
	variables := func(ctx context.Context) string {
		GinkgoHelper()
		d, err := t.deployment("sales")(ctx)
		Expect(err).NotTo(HaveOccurred())
		return "/api/v1/deployments/" + d.Labels[v1alpha1.LabelID] + "/env-vars"
	}

	It("records changes over REST and SCIM", func(ctx SpecContext) {
		created := f.Ask(ctx, 0, http.MethodPost, "/api/v1/api-keys", map[string]any{"name": "Nightly"})
		Expect(created).To(servers.HaveStatus(http.StatusOK))
		Expect(f.Ask(ctx, 0, http.MethodPost, "/api/scim/v2/Users", map[string]any{"userName": "grace@example.com"})).To(servers.HaveStatus(http.StatusCreated))
		Expect(events(ctx, "nightly")).To(Equal([]string{"Created API key by key:admin over rest: succeeded"}))
		Expect(events(ctx, "grace@example.com")).To(Equal([]string{"Created user via SCIM by key:admin over scim: succeeded"}))
	})

	It("records changes of folders, which every replica shows", func(ctx SpecContext) {
		folders := strings.TrimSuffix(variables(ctx), "env-vars") + "folders"
		created := f.Ask(ctx, 0, http.MethodPost, folders, map[string]any{"name": "Finance"})
		Expect(created).To(servers.HaveStatus(http.StatusOK))
		Expect(f.Ask(ctx, 1, http.MethodGet, folders, nil).Text).To(ContainSubstring(`"name":"Finance"`))
		Expect(f.Ask(ctx, 1, http.MethodPost, folders, map[string]any{"name": "finance"})).To(servers.HaveStatus(http.StatusConflict))
		Expect(events(ctx, "finance")).To(Equal([]string{"Created folder by key:admin over rest: succeeded"}))
	})

	It("records changes of tenant settings, and rejects those that a GitOps tool owns", func(ctx SpecContext) {
		const settings = "/api/v1/tenant/settings"
		_, err := world.Kubectl(ctx, "apiVersion: platform.quoin.dev/v1alpha1\nkind: Account\nmetadata: {name: "+t.name+"}\nspec: {settings: {supportAccess: false}}\n",
			"apply", "--server-side", "--field-manager=argocd-controller", "-f", "-")
		Expect(err).NotTo(HaveOccurred())
		Expect(f.Ask(ctx, 0, http.MethodPut, settings, map[string]any{"maintenanceWindowDay": "Monday"})).To(servers.HaveStatus(http.StatusOK))
		Expect(kubectl(ctx, "get", "acct/"+t.name, "-o", "jsonpath={.spec.settings.maintenanceWindow.day}")).To(Equal("Monday"))
		owned := f.Ask(ctx, 0, http.MethodPut, settings, map[string]any{"hasSupportAccess": true})
		Expect(owned).To(servers.HaveStatus(http.StatusConflict))
		Expect(owned.Text).To(ContainSubstring("argocd-controller"))
		Expect(events(ctx, "monday")).To(Equal([]string{"Updated account settings by key:admin over rest: succeeded"}))
	})

	It("records changes with kubectl once, with the user name", func(ctx SpecContext) {
		t.patch(ctx, "qdep/sales", `{"displayName": "Sales by kubectl"}`)
		Eventually(events).WithContext(ctx).WithArguments("kubectl").Should(ConsistOf(MatchRegexp(`^Updated deployment configuration by kubernetes:\S+ over kubernetes: succeeded$`)))
	})

	It("records scaling, and a deletion that owner references cause", func(ctx SpecContext) {
		kubectl(ctx, "scale", "qdep/sales", "-n", t.name, "--replicas=3")
		Eventually(events).WithContext(ctx).WithArguments("spec.replicas").Should(ConsistOf(MatchRegexp(`^Updated deployment configuration by kubernetes:\S+ over kubernetes: succeeded$`)))
		apply(ctx, "apiVersion: platform.quoin.dev/v1alpha1\nkind: ApiKey\nmetadata: {namespace: "+t.name+", name: victim}\nspec: {permissions: [DeploymentRead]}\n")
		kubectl(ctx, "patch", "qkey/victim", "-n", t.name, "--type=merge", "-p",
			`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"none","uid":"00000000-0000-0000-0000-000000000001"}]}}`)
		Eventually(events).WithContext(ctx).WithArguments("victim").Should(ConsistOf(
			HavePrefix("Created API key by kubernetes:"), HavePrefix("Updated API key by kubernetes:"),
			HavePrefix("Deleted API key by kubernetes:system:serviceaccount:kube-system:generic-garbage-collector")))
	})

	It("records changes through the aggregated API once, with the Kubernetes user name", func(ctx SpecContext) {
		_, err := world.Kubectl(ctx, `{"name":"Aggregated"}`, "create", "--raw", servers.Aggregated+t.name+"/proxy/api/v1/api-keys", "-f", "-")
		Expect(err).NotTo(HaveOccurred())
		Expect(events(ctx, "aggregated")).To(ConsistOf(MatchRegexp(`^Created API key by kubernetes:\S+ over rest: succeeded$`)))
	})

	It("records rollouts of the controllers", func(ctx SpecContext) {
		t.push(ctx, "v1.2.4")
		Eventually(t.deployment("sales")).WithContext(ctx).Should(run("1.2.4"))
		rolled := func() []string { return events(ctx, "rolled") }
		const one = "Rolled deployment to version by system:quoin-controller over controller: succeeded"
		Eventually(rolled).WithContext(ctx).Should(HaveLen(2))
		Consistently(rolled).WithContext(ctx).WithTimeout(aFewScans).Should(HaveExactElements(one, one), "no event is recorded again")
	})

	It("records reads of variables", func(ctx SpecContext) {
		Expect(f.Ask(ctx, 0, http.MethodGet, variables(ctx), nil)).To(servers.HaveStatus(http.StatusOK))
		Expect(events(ctx, "viewed")).To(Equal([]string{"Viewed environment variables by key:admin over rest: succeeded"}))
	})

	It("is exported with kubectl", func(ctx SpecContext) {
		Expect(kubectl(ctx, "get", "--raw", servers.Aggregated+t.name+"/proxy"+export+"?search=grace")).To(And(HavePrefix("time,event,"), ContainSubstring("Created user via SCIM")))
	})

	It("is not exported for a Kubernetes user who can only read deployments", func(ctx SpecContext) {
		kubectl(ctx, "apply", "--server-side", "-f", cluster.Repository("config", "rbac", "proxy_viewer_role.yaml"))
		kubectl(ctx, "create", "clusterrolebinding", "ivy-reads", "--clusterrole=quoin-proxy-viewer", "--user=ivy")
		DeferCleanup(func(ctx SpecContext) {
			kubectl(ctx, "delete", "clusterrolebinding/ivy-reads", "clusterrole/quoin-proxy-viewer")
		})
		asIvy := func(path string) func() (string, error) {
			return func() (string, error) {
				return world.Kubectl(ctx, "", "get", "--as=ivy", "--raw", servers.Aggregated+t.name+"/proxy"+path)
			}
		}
		Eventually(asIvy("/api/v1/deployments")).WithContext(ctx).Should(ContainSubstring(`"pagination"`))
		_, err := asIvy(export)()
		Expect(err).To(MatchError(ContainSubstring("AuditLogManage")))
	})

	It("is required for changes over REST, but not with kubectl", func(ctx SpecContext) {
		database.Kill(GinkgoTB())
		Expect(f.Ask(ctx, 0, http.MethodPost, "/api/v1/api-keys", map[string]any{"name": "Refused"})).To(servers.HaveStatus(http.StatusServiceUnavailable))
		for _, read := range []string{"/api/v1/deployments", variables(ctx)} {
			Expect(f.Ask(ctx, 0, http.MethodGet, read, nil)).To(servers.HaveStatus(http.StatusOK))
		}
		t.patch(ctx, "qdep/sales", `{"displayName": "Sales, meanwhile"}`)
		Expect(t.deployment("sales")(ctx)).To(HaveField("Spec.DisplayName", "Sales, meanwhile"))
		database.Restart(GinkgoTB())
		Eventually(func() servers.Reply {
			return f.Ask(ctx, 0, http.MethodPost, "/api/v1/api-keys", map[string]any{"name": "Taken again"})
		}).WithContext(ctx).Should(servers.HaveStatus(http.StatusOK))
		Eventually(func() servers.Reply { return f.Ask(ctx, 1, http.MethodGet, export, nil) }).WithContext(ctx).Should(servers.HaveStatus(http.StatusOK), "the other replica")
		Expect(events(ctx, "refused")).To(BeEmpty())
		Expect(events(ctx, "taken")).NotTo(BeEmpty())
	})
})

// awaitWebhook waits until kube-apiserver calls the webhook: it watches webhook configurations.
func awaitWebhook(ctx context.Context, f *servers.REST, t *tenant) {
	GinkgoHelper()
	i := 0
	Eventually(func() string {
		i++
		t.patch(ctx, "acct/"+t.name, `{"displayName": "Audited `+strings.Repeat("i", i)+`"}`)
		return f.Ask(ctx, 0, http.MethodGet, "/api/v1/audit-logs/export?search=audited", nil).Text
	}).WithContext(ctx).Should(ContainSubstring("Updated account settings"))
}
