package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
	"github.com/quoin-dev/quoin/test/e2e/internal/gitserver"
	"github.com/quoin-dev/quoin/test/e2e/internal/servers"
)

// Journey f: programs use REST and users kubectl on the same cluster.
var _ = Describe("The REST API", Ordered, func() {
	It("creates, updates and deletes a deployment, consistently with kubectl", func(ctx SpecContext) {
		t := newTenant(ctx, "program", "v1.2.2", "v1.2.3")
		f := startREST(ctx, t)
		path := t.createOverREST(ctx, f)
		t.changeVersions(ctx, f, path)
		t.useAggregation(ctx, path)

		By("killing a replica; the other one serves")
		f.Replicas[1].Kill()
		Expect(f.Ask(ctx, 1, "GET", path, nil).Status).To(BeZero())
		Expect(f.Ask(ctx, 0, "GET", path, nil)).To(servers.HaveStatus(200))

		t.deleteOverREST(ctx, f, path)
	}, SpecTimeout(5*time.Minute))
})

// createOverREST creates the deployment sales, whose channel has the versions 1.2.2 and 1.2.3. It returns its path.
func (t *tenant) createOverREST(ctx context.Context, f *servers.REST) string {
	GinkgoHelper()
	created := f.Ask(ctx, 0, "POST", "/build/api/v1/deployments", map[string]any{
		"name": "Sales", "region": "local", "cloudProvider": "cubecloud", "targetPlatform": "aws", "isManaged": true, "creationStep": "ready",
	})
	Expect(created.Status).To(Equal(200), created.String())
	id, _ := created.Body["id"].(string)
	path := "/api/v1/deployments/" + id
	// The default channel is the first one by name, which may belong to another journey.
	Expect(f.Ask(ctx, 0, "PUT", path, map[string]any{"releaseChannel": t.name})).To(servers.HaveStatus(200))
	Eventually(t.deployment("sales")).WithContext(ctx).Should(run("1.2.3"))
	Expect(f.Ask(ctx, 1, "GET", path+"/versions", nil).Text).To(ContainSubstring(`"version":"1.2.3","releaseChannel":"` + t.name + `","isLatestInChannel":true,"isCurrent":true`))
	return path
}

// changeVersions pushes the version 1.2.4, which the deployment sales runs, and returns to 1.2.3.
func (t *tenant) changeVersions(ctx context.Context, f *servers.REST, path string) {
	GinkgoHelper()
	By("rolling out a new version, and the previous one again")
	t.push(ctx, "v1.2.4")
	Eventually(t.deployment("sales")).WithContext(ctx).Should(run("1.2.4"))
	switched := f.Ask(ctx, 1, "PUT", path, map[string]any{"releaseChannelVersion": "1.2.3"})
	Expect(switched.Status).To(Equal(200), switched.String())
	Expect(switched.Body).To(HaveKeyWithValue("releaseChannelVersionHold", true))
	Eventually(t.deployment("sales")).WithContext(ctx).Should(run("1.2.3"))
	refused := f.Ask(ctx, 0, "PUT", path, map[string]any{"releaseChannelVersion": "9.9.9"})
	Expect(refused.Status).To(Equal(400))
	Expect(refused.Body["error"]).To(And(ContainSubstring("9.9.9"), ContainSubstring("1.2.4")))
}

// useAggregation reads the deployment sales and creates another one with a kubeconfig.
func (t *tenant) useAggregation(ctx context.Context, path string) {
	GinkgoHelper()
	By("using the aggregated API with a kubeconfig")
	Expect(kubectl(ctx, "get", "--raw", servers.Aggregated+t.name+"/proxy"+path)).To(ContainSubstring(`"name":"Sales"`))
	file := filepath.Join(world.Dir, t.name+"-body.json")
	Expect(os.WriteFile(file, []byte(`{"name":"From kubectl","region":"local","cloudProvider":"cubecloud","targetPlatform":"aws","isManaged":true,"creationStep":"ready"}`), 0o600)).To(Succeed())
	Expect(kubectl(ctx, "create", "--raw", servers.Aggregated+t.name+"/proxy/build/api/v1/deployments", "-f", file)).To(ContainSubstring(`"name":"From kubectl"`))
	Expect(kubectl(ctx, "get", "accounts.api.platform.quoin.dev")).To(ContainSubstring(t.name))
	_, err := world.Kubectl(ctx, "", "get", "--raw", servers.Aggregated+t.name+"/proxy"+path, "--as=nobody")
	Expect(err).To(MatchError(ContainSubstring("forbidden")))
}

// deleteOverREST deletes the deployment sales.
func (t *tenant) deleteOverREST(ctx context.Context, f *servers.REST, path string) {
	GinkgoHelper()
	By("deleting the deployment")
	Expect(f.Ask(ctx, 0, "DELETE", path, nil)).To(servers.HaveStatus(200))
	Expect(f.Ask(ctx, 0, "GET", path, nil)).To(servers.HaveStatus(404))
	Eventually(func() string { return kubectl(ctx, "get", "qdep", "-n", t.name, "-o", "name") }).Should(
		And(ContainSubstring("/from-kubectl\n"), Not(ContainSubstring("/sales\n"))))
}

var _ = Describe("Logs over REST", func() {
	It("are those of the containers on a real node, and a clear answer on simulated nodes", func(ctx SpecContext) {
		t := newTenant(ctx, "logs", "v1.2.3")
		f := startREST(ctx, t)
		repo := gitserver.Start(world.Address())
		t.install(ctx, "sales", modelIn(repo.Source()))
		d, err := t.deployment("sales")(ctx)
		Expect(err).NotTo(HaveOccurred())
		path := "/api/v1/deployments/" + d.Status.ID
		pods := f.Ask(ctx, 0, "GET", path+"/pods", nil)
		Expect(pods).To(servers.HaveStatus(200))
		Expect(pods.Text).To(And(ContainSubstring(`"name":"sales-production-api-`), ContainSubstring(`"type":"api","status":"Running","ready":true`), ContainSubstring(`"containers":["model-fetch","cube"]`)))
		if world.Nodes == cluster.Simulated {
			Expect(f.Ask(ctx, 0, "GET", path+"/logs", nil).String()).To(And(HavePrefix("503 "), ContainSubstring("simulated nodes have none")))
			return
		}
		Expect(f.Ask(ctx, 0, "GET", path+"/logs?source=production", nil).String()).To(And(HavePrefix("200 "), ContainSubstring("Started version v1.2.3 on ports")))
		Expect(f.Ask(ctx, 0, "GET", path+"/logs?container=INIT", nil).String()).To(And(HavePrefix("200 "), ContainSubstring("commit")))
	}, SpecTimeout(5*time.Minute))
})
