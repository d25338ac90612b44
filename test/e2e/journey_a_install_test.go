package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
	"github.com/quoin-dev/quoin/test/e2e/internal/recording"
)

// Journey a: applies the YAML of docs/journeys/a-install.md.
var _ = Describe("Installing a deployment", Ordered, func() {
	var demo *tenant

	BeforeAll(func(ctx SpecContext) {
		demo = &tenant{name: "demo", digests: map[string]string{}}
		tenants = append(tenants, demo)
		demo.push(ctx, "v1.2.2", "v1.2.3")
		demo.awaitRemoval(ctx)
		// The registry in the page is the one of make up.
		manifests := strings.ReplaceAll(documented("a-install.md"), "127.0.0.1:15000/cube", demo.repository())
		apply(ctx, manifests)
		if world.Nodes == cluster.Real { // where the controller runs with --warm-up
			kubectl(ctx, "create", "rolebinding", "quoin-account", "--clusterrole=quoin-account", "--serviceaccount="+cluster.Namespace+":quoin-controller", "-n", "demo")
		}
		DeferCleanup(func(ctx SpecContext) {
			demo.remove(ctx)
			kubectl(ctx, "delete", "relch/latest")
		})
	})

	It("runs the channel's newest version once it is Ready", func(ctx SpecContext) {
		kubectl(ctx, "wait", "qdep/analytics", "-n", "demo", "--for=condition=Ready", "--timeout=90s")
		d, err := demo.deployment("analytics")(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(d).To(run("1.2.3"))
		Expect(d.Status.ReleaseChannelVersion).To(Equal(demo.repository() + ":v1.2.3"))
		Expect(d.Status.URL).To(Equal("https://analytics.data.demo.example.com"))
	})

	It("is listed by kubectl get qdep", func(ctx SpecContext) {
		rows := cluster.Table(kubectl(ctx, "get", "qdep", "-n", "demo"))
		Expect(rows).To(HaveLen(1))
		Expect(rows[0]).To(And(
			HaveKeyWithValue("NAME", "analytics"), HaveKeyWithValue("ID", "1"), HaveKeyWithValue("CHANNEL", "latest"),
			HaveKeyWithValue("VERSION", "1.2.3"), HaveKeyWithValue("TARGET", "1.2.3"), HaveKeyWithValue("HOLD", "false"),
			HaveKeyWithValue("READY", "True"), HaveKeyWithValue("REASON", "Succeeded"), HaveKeyWithValue("AGE", MatchRegexp(`^\d+[sm]`)),
		))
	})

	It("is listed with all objects of the account by kubectl get quoin", func(ctx SpecContext) {
		Expect(strings.Fields(kubectl(ctx, "get", "quoin", "-n", "demo", "-o", "name"))).To(ContainElements(
			"account.platform.quoin.dev/demo", "releasechannel.platform.quoin.dev/latest",
			"deployment.platform.quoin.dev/analytics", "environment.platform.quoin.dev/"+v1alpha1.ProductionName("analytics")))
	})

	It("runs pods of one ReplicaSet, with an image pinned by digest", func(ctx SpecContext) {
		Expect(demo.workload("analytics")(ctx)).To(ConsistOf(HaveSuffix("revision 1: 2 pods of v1.2.3")))
		pods := demo.pods(ctx, "analytics")
		Expect(pods).To(HaveLen(2))
		for i := range pods {
			Expect(pods[i].Spec.Containers[0].Image).To(Equal(demo.image("v1.2.3")))
			Expect(recording.IsReady(&pods[i])).To(BeTrue())
		}
	})

	It("serves requests through its Service", func(ctx SpecContext) {
		if world.Nodes != cluster.Real {
			Skip("simulated nodes run no containers")
		}
		address := demo.address(ctx, "analytics")
		resp, err := http.Get(address + "/cubejs-api/v1/meta")
		Expect(err).NotTo(HaveOccurred())
		defer resp.Body.Close()
		Expect(resp).To(HaveHTTPStatus(http.StatusOK))
		Expect(resp).To(HaveHTTPBody(ContainSubstring(`"cubes"`)))
		version, err := http.Get(address + "/version")
		Expect(err).NotTo(HaveOccurred())
		defer version.Body.Close()
		Expect(version).To(HaveHTTPBody(MatchJSON(`{"version": "v1.2.3"}`)))
	})
})

// documented returns all YAML of a page of docs/journeys.
func documented(page string) string {
	GinkgoHelper()
	text, err := os.ReadFile(cluster.Repository("docs", "journeys", page))
	Expect(err).NotTo(HaveOccurred())
	var manifests []string
	for i, part := range strings.Split(string(text), "```") {
		if manifest, ok := strings.CutPrefix(part, "yaml\n"); ok && i%2 == 1 {
			manifests = append(manifests, manifest)
		}
	}
	Expect(manifests).NotTo(BeEmpty(), fmt.Sprintf("%s has no YAML", page))
	return strings.Join(manifests, "---\n")
}
