package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// Journey b: the state of the pods. journey_b_data_api_test.go tests the requests of clients.
var _ = Describe("New version in the registry", func() {
	It("is rolled out automatically with enough ready pods at any time; currentVersion changes at the end", func(ctx SpecContext) {
		onlySimulated("journey_b_data_api_test.go covers it with real pods")
		t := newTenant(ctx, "rollout", "v1.2.3")
		t.install(ctx, "analytics", replicas(2))
		recording := t.record(ctx, &corev1.PodList{})

		t.push(ctx, "v1.2.4")

		Eventually(t.deployment("analytics")).WithContext(ctx).Should(run("1.2.4"))
		snapshots, during := 0, 0
		recording.Play(ctx, func(m snapshot) {
			d := m.Deployments()["analytics"]
			all, ready := m.Pods()
			snapshots++
			Expect(ready["v1.2.3"]+ready["v1.2.4"]).To(BeNumerically(">=", 2), "ready pods")
			if d.Status.CurrentVersion == "1.2.3" {
				if all["v1.2.4"] > 0 {
					during++
				}
				return
			}
			Expect(d.Status.CurrentVersion).To(Equal("1.2.4"))
			Expect(all).To(Equal(map[string]int{"v1.2.4": 2}), "pods when currentVersion is 1.2.4")
			Expect(ready).To(Equal(all))
		})
		Expect(during).To(BeNumerically(">", 3), "states during the rollout of 1.2.4 with 1.2.3 as currentVersion, of %d", snapshots)
	})

	It("is recorded in status.history, newest first", func(ctx SpecContext) {
		onlySimulated("journey_b_data_api_test.go covers it with real pods")
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
