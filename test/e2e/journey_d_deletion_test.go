package e2e_test

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Kubernetes' garbage collection deletes the dependents of a deleted object, also without a running controller.
var _ = Describe("Deletion", func() {
	It("of a Deployment deletes all its dependents", func(ctx SpecContext) {
		t := newTenant(ctx, "delete-one", "v1.2.3")
		before := t.contents(ctx)
		t.install(ctx, "analytics", replicas(2))
		Expect(kindsOf(t.contents(ctx))).To(ContainElements("claim.platform.quoin.dev", "environment.platform.quoin.dev",
			"deployment.apps", "replicaset.apps", "pod", "service", "secret", "serviceaccount",
			"networkpolicy.networking.k8s.io", "poddisruptionbudget.policy"))
		kubectl(ctx, "delete", "qdep/analytics", "-n", t.name, "--timeout=30s")
		Eventually(t.contents).WithContext(ctx).Should(Equal(before))
	})

	It("of a Deployment without a controller deletes all dependents, which the controller does not recreate", func(ctx SpecContext) {
		t := newTenant(ctx, "delete-away", "v1.2.3")
		before := t.contents(ctx)
		t.install(ctx, "analytics")
		quoin.Kill()
		kubectl(ctx, "delete", "qdep/analytics", "-n", t.name, "--timeout=30s")
		Eventually(t.contents).WithContext(ctx).Should(Equal(before))
		runDefaultController(ctx)
		Consistently(t.contents).WithContext(ctx).WithTimeout(aFewScans).Should(Equal(before))
	})

	It("of an Account deletes its deployments first, and leaves an empty namespace", func(ctx SpecContext) {
		t := newTenant(ctx, "delete-account", "v1.2.3")
		before := t.contents(ctx)
		t.install(ctx, "analytics")
		t.install(ctx, "sales")
		kubectl(ctx, "delete", "acct/"+t.name, "--timeout=60s")
		Expect(kubectl(ctx, "get", "quoin", "-n", t.name, "-o", "name")).NotTo(ContainSubstring("platform.quoin.dev/analytics"))
		Eventually(t.contents).WithContext(ctx).Should(Equal(before))
	})

	It("of the namespace of an account completes, and the Account reports the missing namespace", func(ctx SpecContext) {
		t := newTenant(ctx, "delete-space", "v1.2.3")
		t.install(ctx, "analytics")
		kubectl(ctx, "delete", "namespace", t.name, "--timeout=60s")
		kubectl(ctx, "wait", "acct/"+t.name, "--for=condition=Stalled", "--timeout=30s")
		Expect(kubectl(ctx, "get", "acct", t.name, "-o", "wide")).To(ContainSubstring("kubectl create namespace " + t.name))
	})

	It("of everything at once without a controller completes", func(ctx SpecContext) {
		t := newTenant(ctx, "delete-all", "v1.2.3")
		t.install(ctx, "analytics")
		quoin.Kill()
		kubectl(ctx, "delete", "acct/"+t.name, "relch/"+t.name, "--wait=false")
		kubectl(ctx, "delete", "namespace", t.name, "--timeout=60s")
		runDefaultController(ctx)
		// Only the Account waits for the controller, because of its finalizer.
		kubectl(ctx, "wait", "acct/"+t.name, "--for=delete", "--timeout=30s")
	})
})

// contents returns the names of all objects in the tenant's namespace except events, which have no owner.
func (t *tenant) contents(ctx context.Context) []string {
	names := strings.Fields(kubectl(ctx, "get", namespacedKinds(ctx), "-n", t.name, "-o", "name", "--ignore-not-found"))
	slices.Sort(names)
	return names
}

// namespacedKinds returns all namespaced kinds, as an argument of kubectl get.
var kinds string

func namespacedKinds(ctx context.Context) string {
	if kinds != "" {
		return kinds
	}
	names := strings.Fields(kubectl(ctx, "api-resources", "--namespaced", "--verbs=list", "-o", "name"))
	names = slices.DeleteFunc(names, func(name string) bool {
		// kubectl warns about Endpoints, which are deprecated.
		return name == "endpoints" || name == "events" || strings.HasPrefix(name, "events.")
	})
	kinds = strings.Join(names, ",")
	return kinds
}

// kindsOf returns the kinds of objects that are given as kind/name.
func kindsOf(names []string) []string {
	var found []string
	for _, name := range names {
		kind, _, _ := strings.Cut(name, "/")
		found = append(found, kind)
	}
	return slices.Compact(found)
}
