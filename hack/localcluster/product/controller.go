package product

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/dbt"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
)

// Names of the controller, as in config/rbac.
const (
	controllerAccount    = "quoin-controller"
	controllerDaemon     = "quoin-controller"
	controllerKubeconfig = "controller.kubeconfig"
)

// quoinImageVariable is the variable in <dir>/env with Quoin's own image, with
// which pods fetch a model from Git.
const quoinImageVariable = "QUOIN_IMAGE"

// dbtImageVariable is the variable in <dir>/env with the image in which dbt
// runs. It is absent on simulated nodes, which run no containers.
const dbtImageVariable = "QUOIN_DBT_IMAGE"

// pushDbt pushes the image with dbt and returns a reference by digest.
func pushDbt(ctx context.Context, c *cluster.Cluster, install bool) (string, error) {
	image, err := dbt.Image(ctx, install)
	if err != nil {
		return "", err
	}
	return pushImage(ctx, c.RegistryAddress()+"/dbt:"+dbt.Version, image)
}

// pushQuoin builds Quoin's image, pushes it and returns a reference by digest,
// because nodes cache tags.
func pushQuoin(ctx context.Context, c *cluster.Cluster, root string) (string, error) {
	reference := c.RegistryAddress() + "/quoin:dev"
	cmd := exec.CommandContext(ctx, "go", "run", "./hack/image", "--binary", c.Path("bin", "quoin"), "--push", reference)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	digest, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("push %s: %w: %s", reference, err, process.LastLines(stderr.String(), 10))
	}
	return reference + "@" + strings.TrimSpace(string(digest)), nil
}

// startController restarts the controller, in case its binary has changed.
func startController(ctx context.Context, c *cluster.Cluster) error {
	if _, err := c.Daemons().Stop(ctx, controllerDaemon, 2*process.StopTimeout); err != nil {
		return err
	}
	environment, err := cluster.ReadEnvironment(c.Path("env"))
	if err != nil {
		return err
	}
	health := cluster.Loopback(c.Ports[cluster.PortQuoinControllerHealth])
	return c.StartAll(ctx, []cluster.Component{{
		Daemon:  process.Daemon{Name: controllerDaemon, Path: c.Path("bin", "quoin"), Args: controllerArgs(c, environment, health)},
		Port:    cluster.PortQuoinControllerHealth,
		Timeout: time.Minute,
		Ready:   process.HTTPProbe(http.DefaultClient, "http://"+health+"/readyz"),
	}})
}

// controllerArgs returns the arguments of the controller.
func controllerArgs(c *cluster.Cluster, environment map[string]string, health string) []string {
	return []string{
		"controller",
		"--kubeconfig=" + c.Path(controllerKubeconfig),
		// One process, but kubectl quoin status and the metrics show the leader.
		"--leader-elect",
		"--quoin-image=" + environment[quoinImageVariable],
		"--allow-insecure-git",
		fmt.Sprintf("--sql-port=%d", c.Ports[cluster.PortGatewaySQL]),
		"--repository-url=https://" + apiServerNodeAddress(c),
		// Simulated pods cannot compile a model.
		fmt.Sprintf("--warm-up=%t", c.Nodes == cluster.NodesReal),
		"--dbt-image=" + environment[dbtImageVariable],
		"--health-probe-bind-address=" + health,
		"--metrics-bind-address=" + cluster.Loopback(c.Ports[cluster.PortQuoinControllerMetrics]),
	}
}
