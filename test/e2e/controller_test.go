package e2e_test

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"

	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
)

// quoinImage returns the --quoin-image of the default controller. The image exists only on a real node.
func quoinImage() string { return world.Env["QUOIN_REGISTRY"] + "/quoin:e2e" }

// dbtImage returns the --dbt-image of the default controller. The image exists only on a real node.
func dbtImage() string { return world.Env["QUOIN_REGISTRY"] + "/dbt:e2e" }

// defaultFlags returns the flags of the default controller. A single process needs no leader election, and without it a
// restarted process does not wait for the lease.
func defaultFlags() []string {
	return []string{"--leader-elect=false", "--quoin-image=" + quoinImage(), "--dbt-image=" + dbtImage()}
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
