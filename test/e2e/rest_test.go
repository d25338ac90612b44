package e2e_test

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/e2e/internal/gitserver"
)

var _ = Describe("Steady state", func() {
	It("has no writes to kube-apiserver", func(ctx SpecContext) {
		onlySimulated("independent of the containers")
		const rest = time.Minute
		t := newTenant(ctx, "rest", "v1.2.2", "v1.2.3")
		settings := map[string][]setting{
			"pinned":  {pinnedTo("1.2.2")},
			"asleep":  {replicas(0)},
			"large":   {replicas(2)},
			"unknown": {pinnedTo("9.9.9")}, // stays Stalled
		}
		repo := gitserver.Start(world.Address())
		repo.Commit("next", "cubes: []")
		settings["in-git"] = []setting{modelIn(repo.Source())}
		for i := range 10 - len(settings) {
			settings[fleetName(i)] = nil
		}
		for name, with := range settings {
			t.create(ctx, name, with...)
		}
		Eventually(t.deployment("unknown")).WithContext(ctx).Should(beStalled(v1alpha1.ReasonUnknownVersion))
		for name := range settings {
			if name != "unknown" {
				Eventually(t.deployment(name)).WithContext(ctx).Should(beReady())
			}
		}
		Eventually(t.branches).WithContext(ctx).Should(HaveLen(2))
		next := "qbr/" + t.branch(ctx, "next").Name
		t.patch(ctx, next, `{"stagingEnvironmentEnabled": true}`)
		kubectl(ctx, "wait", next, "-n", t.name, "--for=condition=Ready", "--timeout=60s")
		awaitCalm(ctx)

		writesBefore, versionsBefore := writes(ctx), resourceVersions(ctx)
		time.Sleep(rest)
		Expect(grown(writesBefore, writes(ctx))).To(BeEmpty(), "write requests by resource in %s", rest)
		Expect(resourceVersions(ctx)).To(Equal(versionsBefore))
	}, SpecTimeout(8*time.Minute))
})

// awaitCalm waits until the namespaces of previous journeys are deleted, and there are no writes for three seconds.
func awaitCalm(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func() string {
		return kubectl(ctx, "get", "namespaces", "-o", `jsonpath={.items[?(@.status.phase=="Terminating")].metadata.name}`)
	}).WithTimeout(2*timeout).Should(BeEmpty(), "namespaces that are being removed")
	Eventually(ctx, func(g Gomega) {
		before := writes(ctx)
		time.Sleep(3 * time.Second)
		g.Expect(grown(before, writes(ctx))).To(BeEmpty())
	}).Should(Succeed())
}

var counted = regexp.MustCompile(`^apiserver_request_total\{.*group="([^"]*)".*resource="([^"]*)".*subresource="([^"]*)",verb="(POST|PUT|PATCH|APPLY|DELETE|DELETECOLLECTION)".*\} ([0-9.e+]+)$`)

// notCounted are writes of Kubernetes itself (leases, nodes), and requests that change nothing (tokens, reviews).
var notCounted = []string{
	"coordination.k8s.io/leases", "/nodes", "/serviceaccounts/token",
	"authentication.k8s.io/tokenreviews", "authorization.k8s.io/subjectaccessreviews",
}

// writes returns the number of write requests by resource, from the metrics of kube-apiserver.
func writes(ctx context.Context) map[string]float64 {
	GinkgoHelper()
	counts := map[string]float64{}
	for line := range strings.Lines(kubectl(ctx, "get", "--raw", "/metrics")) {
		match := counted.FindStringSubmatch(strings.TrimSpace(line))
		if match == nil {
			continue
		}
		resource := match[1] + "/" + match[2]
		if match[3] != "" {
			resource += "/" + match[3]
		}
		if slices.ContainsFunc(notCounted, func(not string) bool { return resource == not || strings.HasPrefix(resource, not+"/") }) {
			continue
		}
		count, err := strconv.ParseFloat(match[5], 64)
		Expect(err).NotTo(HaveOccurred())
		counts[match[4]+" "+resource] += count
	}
	Expect(counts).NotTo(BeEmpty(), "no request metrics of kube-apiserver: their names may have changed")
	return counts
}

func grown(before, after map[string]float64) map[string]float64 {
	diff := maps.Clone(after)
	maps.DeleteFunc(diff, func(resource string, count float64) bool { return count == before[resource] })
	for resource := range diff {
		diff[resource] -= before[resource]
	}
	return diff
}

// resourceVersions returns the resource versions of all objects that the controller writes and of their dependents, without
// leases and nodes.
func resourceVersions(ctx context.Context) []string {
	text := kubectl(ctx, "get", "acct,relch,qdep,qenv,qbr,qclaim,deployments.apps,statefulsets,replicasets,pods,services,"+
		"serviceaccounts,secrets,configmaps,networkpolicies,poddisruptionbudgets,events", "--all-namespaces", "-o",
		`jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`)
	return strings.Split(strings.TrimSpace(text), "\n")
}
