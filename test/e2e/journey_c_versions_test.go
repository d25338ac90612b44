package e2e_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// aFewScans is several times the scan interval of a channel.
const aFewScans = 4 * time.Second

// Journey c: the spec selects the version. See docs/journeys/c-versions.md.
var _ = Describe("Choosing the version of a deployment", Ordered, func() {
	var t *tenant

	BeforeAll(func(ctx SpecContext) {
		onlySimulated("journey_b_data_api_test.go covers it with real pods")
		t = newTenant(ctx, "versions", "v1.2.2", "v1.2.3")
		t.install(ctx, "analytics")
	})

	for _, pin := range []struct{ written, means string }{
		{"1.2.2", "1.2.2"},
		{"v1.2.3", "1.2.3"},
		{"<image repository>:v1.2.2", "1.2.2"},
	} {
		It("switches to a version written as "+pin.written+" and holds it", func(ctx SpecContext) {
			written := pin.written
			if written[0] == '<' {
				written = t.repository() + ":v" + pin.means
			}
			t.patch(ctx, "qdep/analytics", fmt.Sprintf(`{"releaseChannelVersion": %q}`, written))
			Eventually(t.deployment("analytics")).WithContext(ctx).Should(And(run(pin.means), HaveField("Status.Hold", true)))
			Expect(t.pods(ctx, "analytics")).To(HaveEach(HaveField("Spec.Containers",
				ConsistOf(HaveField("Image", t.image("v"+pin.means))))))
		})
	}

	It("keeps a pinned version when the channel has a new one", func(ctx SpecContext) {
		t.push(ctx, "v1.2.4")
		Eventually(t.channel).WithContext(ctx).Should(haveLatest("1.2.4"))
		Consistently(t.deployment("analytics")).WithContext(ctx).WithTimeout(aFewScans).Should(run("1.2.2"))
	})

	It("rejects an unknown version and names the available ones", func(ctx SpecContext) {
		before, err := t.workload("analytics")(ctx)
		Expect(err).NotTo(HaveOccurred())
		t.patch(ctx, "qdep/analytics", `{"releaseChannelVersion": "9.9.9"}`)
		kubectl(ctx, "wait", "qdep/analytics", "-n", t.name, "--for=condition=Stalled", "--timeout=30s")
		d, err := t.deployment("analytics")(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(d).To(And(beStalled(v1alpha1.ReasonUnknownVersion), HaveField("Status.CurrentVersion", "1.2.2")))
		Expect(message(d)).To(And(ContainSubstring("1.2.4"), ContainSubstring("1.2.3"), ContainSubstring("1.2.2")))
		Consistently(t.workload("analytics")).WithContext(ctx).WithTimeout(aFewScans).Should(Equal(before))
	})

	It("follows the channel again after the pin is removed", func(ctx SpecContext) {
		t.patch(ctx, "qdep/analytics", `{"releaseChannelVersion": null}`)
		Eventually(t.deployment("analytics")).WithContext(ctx).Should(And(run("1.2.4"), HaveField("Status.Hold", false)))
	})

	It("keeps the running version with hold, until hold is removed", func(ctx SpecContext) {
		t.patch(ctx, "qdep/analytics", `{"hold": true}`)
		Eventually(t.deployment("analytics")).WithContext(ctx).Should(And(beReady(), HaveField("Status.Hold", true)))
		t.push(ctx, "v1.2.5")
		Eventually(t.channel).WithContext(ctx).Should(haveLatest("1.2.5"))
		Consistently(t.deployment("analytics")).WithContext(ctx).WithTimeout(aFewScans).Should(run("1.2.4"))
		t.patch(ctx, "qdep/analytics", `{"hold": null}`)
		Eventually(t.deployment("analytics")).WithContext(ctx).Should(run("1.2.5"))
	})

	It("rolls out patch releases only with upgradePolicy Patch", func(ctx SpecContext) {
		t.patch(ctx, "qdep/analytics", `{"upgradePolicy": "Patch"}`)
		t.push(ctx, "v1.3.0")
		Eventually(t.channel).WithContext(ctx).Should(haveLatest("1.3.0"))
		Consistently(t.deployment("analytics")).WithContext(ctx).WithTimeout(aFewScans).Should(run("1.2.5"))
		t.push(ctx, "v1.2.6")
		Eventually(t.deployment("analytics")).WithContext(ctx).Should(run("1.2.6"))
	})

	It("switches to the newest version of another channel when releaseChannel changes", func(ctx SpecContext) {
		apply(ctx, fmt.Sprintf(`
apiVersion: platform.quoin.dev/v1alpha1
kind: ReleaseChannel
metadata:
  name: %s-stable
spec:
  imageRepository: %s
  versions: [{version: 1.2.2}, {version: 1.2.3}]
  interval: 1s
`, t.name, t.repository()))
		DeferCleanup(func(ctx SpecContext) { kubectl(ctx, "delete", "relch", t.name+"-stable") })
		kubectl(ctx, "wait", "relch/"+t.name+"-stable", "--for=condition=Ready", "--timeout=30s")
		t.patch(ctx, "qdep/analytics", fmt.Sprintf(`{"releaseChannel": "%s-stable"}`, t.name))
		Eventually(t.deployment("analytics")).WithContext(ctx).Should(run("1.2.3"))
		// The channel is deleted after this spec; the deployment needs one.
		t.patch(ctx, "qdep/analytics", fmt.Sprintf(`{"releaseChannel": %q}`, t.name))
		Eventually(t.deployment("analytics")).WithContext(ctx).Should(run("1.3.0"))
	})
})

var _ = Describe("A version that never becomes ready", Ordered, func() {
	var t *tenant
	// The environment needs about 15 s to report the reason.
	const deadline = 20

	BeforeAll(func(ctx SpecContext) {
		onlySimulated("journey_b_data_api_test.go covers it with real pods")
		t = newTenant(ctx, "broken", "v1.2.4")
		t.install(ctx, "analytics", replicas(2), progressDeadline(deadline))
	})

	It("is rolled back after the deadline, with enough ready pods at any time", func(ctx SpecContext) {
		recording := t.record(ctx, &corev1.PodList{})
		t.push(ctx, "v1.2.5-broken")
		Eventually(t.deployment("analytics")).WithContext(ctx).Should(beStalled(v1alpha1.ReasonRolloutFailed))
		Expect(t.pods(ctx, "analytics")).To(And(HaveLen(2), HaveEach(HaveField("Spec.Containers",
			ConsistOf(HaveField("Image", t.image("v1.2.4")))))))
		tried := false
		recording.Play(ctx, func(m snapshot) {
			all, ready := m.Pods()
			tried = tried || all["v1.2.5-broken"] > 0
			Expect(ready["v1.2.4"]).To(BeNumerically(">=", 2), "ready pods")
			Expect(m.Deployments()["analytics"].Status.CurrentVersion).To(Equal("1.2.4"))
		})
		Expect(tried).To(BeTrue(), "a rollout of the version started")
	})

	It("is reported with the reason", func(ctx SpecContext) {
		d, err := t.deployment("analytics")(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(message(d)).To(And(ContainSubstring("Version 1.2.5-broken"), ContainSubstring("container cube: "), ContainSubstring("rolled back to 1.2.4")))
		Expect(d.Status.Failed).To(HaveField("Version.Version", "1.2.5-broken"))
		Expect(kubectl(ctx, "get", "events", "-n", t.name, "--field-selector=reason=RolloutFailed,type=Warning", "-o", "name")).NotTo(BeEmpty())
	})

	It("is not retried automatically", func(ctx SpecContext) {
		before, err := t.workload("analytics")(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(before).To(ContainElement(ContainSubstring("2 pods of v1.2.4")))
		Consistently(func(g Gomega) {
			g.Expect(t.workload("analytics")(ctx)).To(Equal(before))
			g.Expect(t.deployment("analytics")(ctx)).To(beStalled(v1alpha1.ReasonRolloutFailed))
		}).WithContext(ctx).WithTimeout(2 * aFewScans).Should(Succeed())
	})

	It("is superseded by the next good version", func(ctx SpecContext) {
		t.push(ctx, "v1.2.6")
		Eventually(t.deployment("analytics")).WithContext(ctx).Should(And(run("1.2.6"), HaveField("Status.Failed", BeNil())))
		Expect(kubectl(ctx, "get", "qdep", "analytics", "-n", t.name, "-o", `jsonpath={range .status.history[*]}{.version} {end}`)).
			To(Equal("1.2.6 1.2.4 "))
	})
})
