// Package product installs Quoin and its samples in a cluster and runs Quoin's
// processes on this machine.
package product

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/quoin-dev/quoin/hack/localcluster/binaries"
	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/controlplane"
	"github.com/quoin-dev/quoin/hack/localcluster/dataplane"
	"github.com/quoin-dev/quoin/hack/localcluster/gitserver"
	"github.com/quoin-dev/quoin/hack/localcluster/modelserver"
	"github.com/quoin-dev/quoin/hack/localcluster/progress"
	"github.com/quoin-dev/quoin/hack/localcluster/warehouse"
)

// quoinNamespace is Quoin's namespace in config/rbac.
const quoinNamespace = "quoin-system"

// Start installs Quoin in a running cluster, starts its processes on this
// machine with the permissions that they have in a real cluster, and applies
// the samples. A repeated call deploys changes.
func Start(ctx context.Context, c *cluster.Cluster, installPackages bool) error {
	root, err := binaries.RepositoryRoot()
	if err != nil {
		return err
	}
	if err := prepareProduct(ctx, c, root, installPackages); err != nil {
		return fmt.Errorf("%w\nthe cluster runs without Quoin; use --bare if that is intended", err)
	}
	for _, start := range []func(context.Context, *cluster.Cluster) error{startController, startAPIServer, startGateway} {
		if err := start(ctx, c); err != nil {
			return err
		}
	}
	if err := progress.Step("samples", func() error { return applySamples(ctx, c, root) }); err != nil {
		return err
	}
	if err := waitForSamples(ctx, c); err != nil {
		return err
	}
	var rest *http.Client
	if err := progress.Step("REST API at "+apiServerURL(c), func() (err error) { rest, err = waitForAPIServer(ctx, c); return err }); err != nil {
		return err
	}
	if err := progress.Step("data API", func() error { return waitForDataAPI(ctx, c, rest) }); err != nil {
		return err
	}
	return printNextSteps(ctx, c)
}

// prepareProduct builds and installs the dependencies of Quoin's processes and
// of the samples, on a real node including the real data plane.
func prepareProduct(ctx context.Context, c *cluster.Cluster, root string, installPackages bool) error {
	if c.Nodes == cluster.NodesReal {
		if err := prepareDataplane(ctx, c, installPackages); err != nil {
			return err
		}
		if err := modelserver.Start(ctx, c, root, installPackages); err != nil {
			return err
		}
	}
	for _, stage := range []struct {
		name string
		work func(ctx context.Context, c *cluster.Cluster, root string) error
	}{
		{"building quoin", buildProduct},
		{"CRDs and roles", installProduct},
		{"sample images", pushSampleImages},
	} {
		if err := progress.Step(stage.name, func() error { return stage.work(ctx, c, root) }); err != nil {
			return err
		}
	}
	return gitserver.Start(ctx, c)
}

// prepareDataplane prepares what runs in containers and is not Quoin, and the
// warehouse.
func prepareDataplane(ctx context.Context, c *cluster.Cluster, installPackages bool) error {
	source, err := dataplane.Source()
	if err != nil {
		return err
	}
	if _, err := dataplane.Layers(ctx, source, installPackages); err != nil {
		return err
	}
	if err := warehouse.Start(ctx, c, installPackages); err != nil {
		return err
	}
	image, err := pushDbt(ctx, c, installPackages)
	if err != nil {
		return err
	}
	if err := c.SetEnvironment(cluster.Variable{Name: dbtImageVariable, Value: image}); err != nil {
		return err
	}
	c.Dataplane = true
	return c.Save()
}

func buildProduct(ctx context.Context, c *cluster.Cluster, root string) error {
	if err := binaries.GoBuild(ctx, binaries.GoBuildOptions{Folder: root, GoPackage: "./cmd/quoin", Output: c.Path("bin", "quoin"), Goos: runtime.GOOS}); err != nil {
		return err
	}
	for _, name := range []string{"kubectl-quoin", "kubectl_complete-quoin"} { // beside kubectl
		if err := c.Link(name, "quoin"); err != nil {
			return err
		}
	}
	return nil
}

// installProduct applies the CRDs and the roles, and writes kubeconfigs for the
// ServiceAccounts of Quoin's processes, so that missing RBAC rules are
// detected.
func installProduct(ctx context.Context, c *cluster.Cluster, root string) error {
	for _, args := range [][]string{
		{"apply", "--server-side", "-k", filepath.Join(root, "config", "crd")},
		{"wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=30s"},
		{"apply", "--server-side", "-k", filepath.Join(root, "config", "rbac")},
	} {
		if _, err := c.Kubectl(ctx, "", args...); err != nil {
			return err
		}
	}
	// kubectl caches the list of kinds for ten minutes; new ones were added.
	if err := os.RemoveAll(c.KubectlCache()); err != nil {
		return err
	}
	for account, file := range map[string]string{
		controllerAccount: controllerKubeconfig,
		apiServerAccount:  apiServerKubeconfig,
		gatewayAccount:    gatewayKubeconfig,
	} {
		token, err := c.Kubectl(ctx, "", "create", "token", account, "--namespace", quoinNamespace, "--duration", controlplane.TokenLifetime.String())
		if err != nil {
			return err
		}
		if err := c.WriteKubeconfig(c.Path(file), account, "token: "+strings.TrimSpace(token)); err != nil {
			return err
		}
	}
	return registerAPIServer(ctx, c, root)
}

// printNextSteps prints the objects and example commands. The table goes to
// stdout: it is the result, not progress.
func printNextSteps(ctx context.Context, c *cluster.Cluster) error {
	table, err := c.Kubectl(ctx, "", "get", "quoin", "--all-namespaces")
	if err != nil {
		return err
	}
	fmt.Print("\n", table)
	progress.Infof("\nNext:\n%s", strings.Join(nextSteps(c), "\n"))
	return nil
}

// nextSteps returns the example commands. The pods of simulated nodes run nothing, so that there is no data API.
func nextSteps(c *cluster.Cluster) []string {
	next := "v1.2.4"
	if c.Dataplane {
		next = "v0.35.82" // Cube 0.35.81 under another tag
	}
	steps := []string{
		fmt.Sprintf("  . %s                                     # KUBECONFIG and the addresses", c.Path("env")),
		`  export PATH="$QUOIN_BIN:$PATH"             # kubectl, with the plugin kubectl quoin`,
		"  kubectl quoin status",
		`  curl --cacert $QUOIN_CA_FILE -H "Authorization: Bearer $QUOIN_API_KEY" $QUOIN_URL/api/v1/deployments`,
	}
	if c.Dataplane {
		steps = append(steps, `  curl --cacert $QUOIN_DATA_CA_FILE -H "Authorization: $QUOIN_DATA_TOKEN" $QUOIN_DATA_URL/v1/meta`)
	}
	return append(steps,
		fmt.Sprintf("  bin/localcluster push cube %s --dir %s   # a new version: watch it roll out", next, c.Dir),
		"  make down")
}
