package e2e_test

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// What is deleted goes with all that was made for it, by Kubernetes' own garbage collection,
// whether a controller runs or not.
var _ = Describe("Somebody deletes", func() {
	It("a Deployment: nothing that it consisted of is left", func(ctx SpecContext) {
		t := newTenant(ctx, "delete-one", "v1.2.3")
		before := t.contents(ctx)
		t.install(ctx, "analytics", replicas(2))
		Expect(kindsOf(t.contents(ctx))).To(ContainElements("claim.platform.quoin.dev", "environment.platform.quoin.dev",
			"deployment.apps", "replicaset.apps", "pod", "service", "secret", "serviceaccount",
			"networkpolicy.networking.k8s.io", "poddisruptionbudget.policy"))
		kubectl(ctx, "delete", "qdep/analytics", "-n", t.name, "--timeout=30s")
		Eventually(t.contents).WithContext(ctx).Should(Equal(before))
	})

	It("a Deployment while no controller runs: nothing is left, and nothing comes back with the controller", func(ctx SpecContext) {
		t := newTenant(ctx, "delete-away", "v1.2.3")
		before := t.contents(ctx)
		t.install(ctx, "analytics")
		quoin.kill()
		kubectl(ctx, "delete", "qdep/analytics", "-n", t.name, "--timeout=30s")
		Eventually(t.contents).WithContext(ctx).Should(Equal(before))
		runUsualController(ctx)
		Consistently(t.contents).WithContext(ctx).WithTimeout(aFewScans).Should(Equal(before))
	})

	It("an Account: its deployments go first, then the Account; its namespace stays, and is empty", func(ctx SpecContext) {
		t := newTenant(ctx, "delete-account", "v1.2.3")
		before := t.contents(ctx)
		t.install(ctx, "analytics")
		t.install(ctx, "sales")
		kubectl(ctx, "delete", "acct/"+t.name, "--timeout=60s")
		Expect(kubectl(ctx, "get", "quoin", "-n", t.name, "-o", "name")).NotTo(ContainSubstring("platform.quoin.dev/analytics"))
		Eventually(t.contents).WithContext(ctx).Should(Equal(before))
	})

	It("an account's namespace with all that runs in it: it goes away, and the Account says what it lacks", func(ctx SpecContext) {
		t := newTenant(ctx, "delete-space", "v1.2.3")
		t.install(ctx, "analytics")
		kubectl(ctx, "delete", "namespace", t.name, "--timeout=60s")
		kubectl(ctx, "wait", "acct/"+t.name, "--for=condition=Stalled", "--timeout=30s")
		Expect(kubectl(ctx, "get", "acct", t.name, "-o", "wide")).To(ContainSubstring("kubectl create namespace " + t.name))
	})

	It("everything at once while no controller runs: nothing hangs", func(ctx SpecContext) {
		t := newTenant(ctx, "delete-all", "v1.2.3")
		t.install(ctx, "analytics")
		quoin.kill()
		kubectl(ctx, "delete", "acct/"+t.name, "relch/"+t.name, "--wait=false")
		kubectl(ctx, "delete", "namespace", t.name, "--timeout=60s")
		runUsualController(ctx)
		// Only the Account waited for the controller: what is in the namespace is gone without it.
		kubectl(ctx, "wait", "acct/"+t.name, "--for=delete", "--timeout=30s")
	})
})

// contents names everything in the tenant's namespace but events, which nobody owns.
func (t *tenant) contents(ctx context.Context) []string {
	names := strings.Fields(kubectl(ctx, "get", namespacedKinds(ctx), "-n", t.name, "-o", "name", "--ignore-not-found"))
	slices.Sort(names)
	return names
}

// kinds are the kinds of all objects that a namespace can hold, as kubectl get takes them.
var kinds string

func namespacedKinds(ctx context.Context) string {
	if kinds != "" {
		return kinds
	}
	names := strings.Fields(kubectl(ctx, "api-resources", "--namespaced", "--verbs=list", "-o", "name"))
	names = slices.DeleteFunc(names, func(name string) bool {
		// Endpoints are deprecated, of which kubectl warns each time; there are EndpointSlices.
		return name == "endpoints" || name == "events" || strings.HasPrefix(name, "events.")
	})
	kinds = strings.Join(names, ",")
	return kinds
}

// kindsOf are the kinds of objects that are named as kind/name.
func kindsOf(names []string) []string {
	var found []string
	for _, name := range names {
		kind, _, _ := strings.Cut(name, "/")
		found = append(found, kind)
	}
	return slices.Compact(found)
}
