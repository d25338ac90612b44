package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// quoinNamespace is where config/rbac puts Quoin.
const quoinNamespace = "quoin-system"

// startProduct installs Quoin in a running cluster, starts its processes on this machine with the
// rights that they have in a real cluster, and applies the samples. It may be repeated: that is
// how a change is tried.
func (c *cluster) startProduct(ctx context.Context, installPackages bool) error {
	root, err := repositoryRoot()
	if err != nil {
		return err
	}
	if err := c.prepareProduct(ctx, root, installPackages); err != nil {
		return fmt.Errorf("%w\nthe cluster runs without Quoin; --bare stops there on purpose", err)
	}
	for _, start := range []func(context.Context) error{c.startController, c.startFrontEnd, c.startGateway} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	if err := step("samples", func() error { return c.applySamples(ctx, root) }); err != nil {
		return err
	}
	if err := c.awaitSamples(ctx); err != nil {
		return err
	}
	var rest *http.Client
	if err := step("REST API at "+c.frontEndURL(), func() (err error) { rest, err = c.awaitFrontEnd(ctx); return err }); err != nil {
		return err
	}
	if err := step("data API", func() error { return c.awaitDataAPI(ctx, rest) }); err != nil {
		return err
	}
	return c.sayNextSteps(ctx)
}

// prepareProduct makes all that Quoin's processes and the samples need. On a real node that is
// also a data plane that answers, and what it reads.
func (c *cluster) prepareProduct(ctx context.Context, root string, installPackages bool) error {
	if c.Nodes == nodesReal {
		if err := c.prepareDataplane(ctx, installPackages); err != nil {
			return err
		}
	}
	for _, stage := range []struct {
		name string
		work func(ctx context.Context, root string) error
	}{
		{"building quoin", c.buildProduct},
		{"CRDs and roles", c.installProduct},
		{"sample images", c.pushSampleImages},
	} {
		if err := step(stage.name, func() error { return stage.work(ctx, root) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) prepareDataplane(ctx context.Context, installPackages bool) error {
	source, err := dataplaneSource()
	if err != nil {
		return err
	}
	if _, err := dataplaneLayers(ctx, source, installPackages); err != nil {
		return err
	}
	if err := c.startWarehouse(ctx, installPackages); err != nil {
		return err
	}
	if err := c.startGit(ctx); err != nil {
		return err
	}
	c.Dataplane = true
	return c.save()
}

func (c *cluster) buildProduct(ctx context.Context, root string) error {
	return goBuild(ctx, goBuildOptions{folder: root, goPackage: "./cmd/quoin", output: c.path("bin", "quoin"), goos: runtime.GOOS})
}

// installProduct applies the CRDs and the roles, and writes the kubeconfigs
// with which Quoin's processes act as their own ServiceAccounts: with the
// admin's, a missing RBAC rule would only be seen by users.
func (c *cluster) installProduct(ctx context.Context, root string) error {
	for _, args := range [][]string{
		{"apply", "--server-side", "-k", filepath.Join(root, "config", "crd")},
		{"wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=30s"},
		{"apply", "--server-side", "-k", filepath.Join(root, "config", "rbac")},
	} {
		if _, err := c.kubectl(ctx, "", args...); err != nil {
			return err
		}
	}
	// kubectl keeps the list of kinds for ten minutes; it has new ones now.
	if err := os.RemoveAll(c.kubectlCache()); err != nil {
		return err
	}
	for account, file := range map[string]string{
		controllerAccount: controllerKubeconfig,
		frontEndAccount:   frontEndKubeconfig,
		gatewayAccount:    gatewayKubeconfig,
	} {
		token, err := c.kubectl(ctx, "", "create", "token", account, "--namespace", quoinNamespace, "--duration", tokenLife.String())
		if err != nil {
			return err
		}
		if err := c.writeKubeconfig(c.path(file), account, "token: "+strings.TrimSpace(token)); err != nil {
			return err
		}
	}
	return c.registerFrontEnd(ctx, root)
}

// sayNextSteps closes with what runs and what can be done with it. The table
// goes to stdout: it is the answer, not progress.
func (c *cluster) sayNextSteps(ctx context.Context) error {
	table, err := c.kubectl(ctx, "", "get", "quoin", "--all-namespaces")
	if err != nil {
		return err
	}
	fmt.Print("\n", table)
	next := "v1.2.4"
	if c.Dataplane {
		next = "v0.35.82" // Cube 0.35.81 once more, under another name
	}
	say("\nNext:\n"+
		"  . %[1]s                                     # KUBECONFIG and the addresses\n"+
		"  %[2]s/kubectl get quoin -A\n"+
		"  curl --cacert $QUOIN_CA_FILE -H \"Authorization: Bearer $QUOIN_API_KEY\" $QUOIN_URL/api/v1/deployments\n"+
		"  curl --cacert $QUOIN_DATA_CA_FILE -H \"Authorization: $QUOIN_DATA_TOKEN\" $QUOIN_DATA_URL/v1/meta\n"+
		"  bin/localcluster push cube %[4]s --dir %[3]s   # a new version: watch it roll out\n"+
		"  make down", c.path("env"), c.Bin, c.Dir, next)
	return nil
}
