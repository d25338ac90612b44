package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
	"github.com/quoin-dev/quoin/test/e2e/internal/gitserver"
)

// quoinImage returns the --quoin-image of the default controller. The image exists only on a real node.
func quoinImage() string { return world.Env["QUOIN_REGISTRY"] + "/quoin:e2e" }

// dbtImage returns the image with dbt. It exists only on a real node, after the journey with dbt has pushed it.
func dbtImage() string { return world.Env["QUOIN_REGISTRY"] + "/dbt:e2e" }

// defaultFlags returns the flags of the default controller. A single process needs no leader election, and without it a
// restarted process does not wait for the lease.
func defaultFlags() []string {
	return []string{"--leader-elect=false", "--quoin-image=" + quoinImage()}
}

// controller is a process of the controller.
type controller struct {
	*cluster.Process
	flags []string
}

// runController starts a controller and waits until its caches have synced.
func runController(ctx context.Context, flags ...string) *controller {
	GinkgoHelper()
	args := []string{
		"--kubeconfig=" + world.Kubeconfig, "--allow-insecure-git",
		"--repository-url=https://" + world.RESTAddress(),
		// Simulated pods cannot compile a model.
		fmt.Sprintf("--warm-up=%t", world.Nodes == cluster.Real),
	}
	return &controller{world.Run(ctx, "controller", append(args, flags...)...), flags}
}

// runDefaultController makes sure that a controller with the default flags is running.
func runDefaultController(ctx context.Context) {
	if quoin != nil && quoin.Running() && slices.Equal(quoin.flags, defaultFlags()) {
		return
	}
	replaceController(ctx, defaultFlags()...)
}

// replaceController stops the controller and starts one with other flags.
func replaceController(ctx context.Context, flags ...string) {
	if quoin != nil {
		quoin.Stop()
	}
	quoin = runController(ctx, flags...)
}

// A new release of Quoin has another image, which the init containers of pods with a model in Git use. See
// docs/decisions/0004-workload-rendering.md.
var _ = Describe("Upgrade of Quoin", func() {
	It("restarts no pod; pods use the new image after their next change", func(ctx SpecContext) {
		const newImage = "127.0.0.1:15000/quoin:e2e-next"
		t := newTenant(ctx, "upgrade", "v1.2.3")
		t.install(ctx, "analytics")
		templates := 1
		if world.Nodes == cluster.Simulated {
			t.install(ctx, "sales", modelIn(gitserver.Start(world.Address()).Source()))
			templates = 2
		}
		recording := t.record(ctx, &appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}, &corev1.PodList{}, &v1alpha1.EnvironmentList{})

		replaceController(ctx, "--leader-elect=false", "--quoin-image="+newImage)

		// A change without a new pod template shows that the new controller reconciles.
		t.patch(ctx, "qdep/analytics", `{"replicas": 2}`)
		Eventually(t.deployment("analytics")).WithContext(ctx).Should(And(beReady(), HaveField("Status.ReadyReplicas", int32(2))))
		if world.Nodes == cluster.Simulated {
			t.patch(ctx, "qdep/sales", `{"replicas": 2}`)
			Eventually(t.deployment("sales")).WithContext(ctx).Should(And(beReady(), HaveField("Status.ReadyReplicas", int32(2))))
		}
		recording.Play(ctx, func(m snapshot) {
			sets := 0
			for _, object := range m {
				if _, ok := object.(*appsv1.ReplicaSet); ok {
					sets++
				}
				if d, ok := object.(v1alpha1.Object); ok {
					stalled := meta.FindStatusCondition(d.Common().Conditions, v1alpha1.ConditionStalled)
					Expect(stalled).To(BeNil(), "%T %s", object, object.GetName())
				}
			}
			Expect(sets).To(Equal(templates), "ReplicaSets, one for each pod template")
		})
		if world.Nodes == cluster.Simulated {
			Expect(t.pods(ctx, "sales")).To(HaveEach(HaveField("Spec.InitContainers", ConsistOf(HaveField("Image", quoinImage())))))
			t.push(ctx, "v1.2.4")
			t.awaitAll(ctx, "1.2.4")
			Expect(t.pods(ctx, "sales")).To(HaveEach(HaveField("Spec.InitContainers", ConsistOf(HaveField("Image", newImage)))))
		}
	}, SpecTimeout(3*time.Minute))
})
