package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// Journey b: what is ready at every moment. What users get meanwhile: journey_b_data_api_test.go.
var _ = Describe("A new version appears in the registry", func() {
	It("rolls out by itself; there are always enough ready pods, and currentVersion changes when the last one is new", func(ctx SpecContext) {
		onlySimulated("the data API's journey does it with real pods")
		t := newTenant(ctx, "rollout", "v1.2.3")
		t.install(ctx, "analytics", replicas(2))
		film := t.record(ctx, &corev1.PodList{})

		t.push(ctx, "v1.2.4")

		Eventually(t.deployment("analytics")).WithContext(ctx).Should(run("1.2.4"))
		moments, during := 0, 0
		film.play(ctx, func(m moment) {
			d := m.deployments()["analytics"]
			all, ready := m.pods()
			moments++
			Expect(ready["v1.2.3"]+ready["v1.2.4"]).To(BeNumerically(">=", 2), "ready pods at every moment")
			if d.Status.CurrentVersion == "1.2.3" {
				if all["v1.2.4"] > 0 {
					during++
				}
				return
			}
			Expect(d.Status.CurrentVersion).To(Equal("1.2.4"))
			Expect(all).To(Equal(map[string]int{"v1.2.4": 2}), "pods when production is said to run 1.2.4")
			Expect(ready).To(Equal(all))
		})
		Expect(during).To(BeNumerically(">", 3), "moments at which 1.2.4 was on its way in and 1.2.3 still current, of %d", moments)
	})

	It("keeps what ran in the history, newest first", func(ctx SpecContext) {
		onlySimulated("the data API's journey does it with real pods")
		t := newTenant(ctx, "history", "v1.2.3")
		t.install(ctx, "analytics")
		t.push(ctx, "v1.2.4")
		Eventually(t.deployment("analytics")).WithContext(ctx).Should(run("1.2.4"))
		Expect(kubectl(ctx, "get", "qdep", "analytics", "-n", t.name, "-o", `jsonpath={range .status.history[*]}{.version} {end}`)).
			To(Equal("1.2.4 1.2.3 "))
		Expect(t.workload("analytics")(ctx)).To(ConsistOf(
			HaveSuffix("revision 1: 0 pods of v1.2.3"), HaveSuffix("revision 2: 1 pods of v1.2.4")))
	})
})
