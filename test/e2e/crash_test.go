package e2e_test

import (
	"context"
	"math/rand/v2"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
)

var _ = Describe("Controller crash", func() {
	It("rolls the version out to every deployment exactly once after a crash during a rollout", func(ctx SpecContext) {
		onlySimulated("30 deployments need a bigger machine")
		const kills, longest = 6, 2500 * time.Millisecond
		snapshots := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 0))
		killSoon := func() {
			// During the work that follows a start.
			time.Sleep(time.Duration(snapshots.Int64N(int64(longest))))
			quoin.Kill()
			runDefaultController(ctx)
		}
		t := newTenant(ctx, "crash", "v1.2.3")
		names := make([]string, 0, 30)
		for len(names) < cap(names) {
			names = append(names, fleetName(len(names)))
			t.create(ctx, names[len(names)-1])
		}
		killSoon()
		t.awaitAll(ctx, "1.2.3")

		t.push(ctx, "v1.2.4")
		for range kills {
			killSoon()
		}
		t.awaitAll(ctx, "1.2.4")
		t.expectEachOnce(ctx, names, "v1.2.3", "v1.2.4")
	}, SpecTimeout(5*time.Minute))

	It("fails over to a standby when the lease expires after a crash, and immediately after a shutdown", func(ctx SpecContext) {
		onlySimulated("independent of the containers")
		t := newTenant(ctx, "failover", "v1.2.3")
		t.install(ctx, "analytics")
		quoin.Stop()
		first := runController(ctx, "--leader-elect", "--quoin-image="+quoinImage())
		DeferCleanup(first.Stop)
		Eventually(leader).WithContext(ctx).ShouldNot(BeEmpty())
		before := leaderNow(ctx)
		// With a lease of 12 s and a retry period of 1.5 s, failover takes at most 19 s.
		Expect(leaseDuration(ctx)).To(BeEquivalentTo(12), "seconds")
		second := runController(ctx, "--leader-elect", "--quoin-image="+quoinImage())
		DeferCleanup(second.Stop)

		first.Kill()
		killed := time.Now()
		t.push(ctx, "v1.2.4")
		Eventually(leader).WithContext(ctx).WithTimeout(time.Minute).ShouldNot(Or(BeEmpty(), Equal(before)))
		AddReportEntry("another leader after", time.Since(killed).String())
		Eventually(t.deployment("analytics")).WithContext(ctx).Should(run("1.2.4"))

		third := runController(ctx, "--leader-elect", "--quoin-image="+quoinImage())
		DeferCleanup(third.Stop)
		before = leaderNow(ctx)
		go second.Stop()
		Eventually(leader).WithContext(ctx).WithTimeout(10 * time.Second).ShouldNot(Or(BeEmpty(), Equal(before)))
		t.push(ctx, "v1.2.5")
		Eventually(t.deployment("analytics")).WithContext(ctx).Should(run("1.2.5"))
	})
})

// leader returns the holder of the lease.
func leader(ctx context.Context) (string, error) {
	lease := &coordinationv1.Lease{}
	err := world.API.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: "quoin-controller"}, lease)
	return ptr.Deref(lease.Spec.HolderIdentity, ""), client.IgnoreNotFound(err)
}

// leaseDuration returns the duration of the lease in seconds.
func leaseDuration(ctx context.Context) int32 {
	GinkgoHelper()
	lease := &coordinationv1.Lease{}
	Expect(world.API.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: "quoin-controller"}, lease)).To(Succeed())
	return ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)
}

func leaderNow(ctx context.Context) string {
	GinkgoHelper()
	holder, err := leader(ctx)
	Expect(err).NotTo(HaveOccurred())
	return holder
}

// expectEachOnce checks that an update of deployments has left no duplicate, incomplete or missing objects.
func (t *tenant) expectEachOnce(ctx context.Context, names []string, from, to string) {
	GinkgoHelper()
	kinds := map[client.ObjectList]int{
		&v1alpha1.EnvironmentList{}: 1, &v1alpha1.ClaimList{}: 1,
		&appsv1.DeploymentList{}: 1, &appsv1.ReplicaSetList{}: 2, &corev1.PodList{}: 1,
		&corev1.ServiceList{}: 1, &corev1.SecretList{}: 2,
	}
	for list, each := range kinds {
		Expect(t.all(ctx, list)).To(Succeed())
		Expect(meta.LenList(list)).To(Equal(each*len(names)), "%T", list)
	}
	numbers := map[string]string{}
	for _, name := range names {
		d, err := t.deployment(name)(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(d.Status.History).To(HaveExactElements(
			HaveField("Image", t.repository()+":"+to), HaveField("Image", t.repository()+":"+from)), name)
		Expect(d.Status.Rollout).To(BeNil(), name)
		Expect(numbers).NotTo(HaveKey(d.Status.ID), name)
		numbers[d.Status.ID] = name
		Expect(t.workload(name)(ctx)).To(ConsistOf(HaveSuffix("0 pods of "+from), HaveSuffix("1 pods of "+to)))
	}
}
