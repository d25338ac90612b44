package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// How the controller is deployed: config/rbac has these names too.
const (
	quoinNamespace         = "quoin-system"
	controllerAccount      = "quoin-controller"
	controllerDaemon       = "quoin-controller"
	samplesReadyDeadline   = 3 * time.Minute
	samplesReportEvery     = 5 * time.Second
	samplesAppliedDeadline = 30 * time.Second
)

// sampleImages are the images that config/samples refers to.
var sampleImages = []struct {
	repository string
	versions   []string
}{
	{"cube", []string{"v1.2.2", "v1.2.3"}},
	{"cube-store", []string{"v1.2.2", "v1.2.3"}},
}

// startProduct installs Quoin in a running cluster, starts its controller and
// its front end on this machine with the rights that they have in a real
// cluster, and applies the samples. It may be repeated: that is how a change is
// tried.
func (c *cluster) startProduct(ctx context.Context) error {
	root, err := repositoryRoot()
	if err != nil {
		return err
	}
	if c.Ports[portFrontEnd] == 0 {
		return errors.New("this cluster was started by an earlier localcluster, which knew no port for quoin apiserver: stop it first (localcluster down)")
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
			return fmt.Errorf("%w\nthe cluster runs without Quoin; --bare stops there on purpose", err)
		}
	}
	if err := c.startController(ctx); err != nil {
		return err
	}
	if err := c.startFrontEnd(ctx); err != nil {
		return err
	}
	if err := step("samples", func() error { return c.applySamples(ctx, root) }); err != nil {
		return err
	}
	if err := c.awaitSamples(ctx); err != nil {
		return err
	}
	if err := step("REST API at "+c.frontEndURL(), func() error { return c.awaitFrontEnd(ctx) }); err != nil {
		return err
	}
	return c.sayNextSteps(ctx)
}

func (c *cluster) buildProduct(ctx context.Context, root string) error {
	return goBuild(ctx, goBuildOptions{folder: root, goPackage: ".", output: c.path("bin", "quoin"), goos: runtime.GOOS})
}

// installProduct applies the CRDs and the roles, and writes the kubeconfigs
// with which controller and front end act as their own ServiceAccounts: with
// the admin's, a missing RBAC rule would only be seen by users.
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
	for account, file := range map[string]string{controllerAccount: "controller.kubeconfig", frontEndAccount: frontEndKubeconfig} {
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

func (c *cluster) pushSampleImages(ctx context.Context, _ string) error {
	for _, sample := range sampleImages {
		if _, err := c.pushSamples(ctx, sample.repository, sample.versions, false); err != nil {
			return err
		}
	}
	return nil
}

// startController starts the controller anew, in case its binary has changed.
func (c *cluster) startController(ctx context.Context) error {
	if _, err := c.processes().stop(ctx, controllerDaemon, 2*stopGrace); err != nil {
		return err
	}
	health := loopback(c.Ports[portQuoinHealth])
	return c.startAll(ctx, []component{{
		daemon: daemon{name: controllerDaemon, path: c.path("bin", "quoin"), args: []string{
			"controller",
			"--kubeconfig=" + c.path("controller.kubeconfig"),
			"--leader-elect=false",
			// Behind simulated pods is nobody who could be asked whether the model compiles.
			fmt.Sprintf("--warm-up=%t", c.Nodes == nodesReal),
			"--health-probe-bind-address=" + health,
			"--metrics-bind-address=" + loopback(c.Ports[portQuoinMetrics]),
		}},
		port:     portQuoinHealth,
		deadline: time.Minute,
		ready:    httpProbe(http.DefaultClient, "http://"+health+"/readyz"),
	}})
}

// applySamples applies config/samples. A namespace may be made by the
// controller, for an Account of the samples, so objects in it are tried again.
func (c *cluster) applySamples(ctx context.Context, root string) error {
	text, err := sampleManifests(filepath.Join(root, "config", "samples"), c.registryAddress(), strings.TrimPrefix(c.frontEndURL(), "https://"))
	if err != nil {
		return err
	}
	if err := c.writeFile([]byte(text), 0o644, "samples", "samples.yaml"); err != nil {
		return err
	}
	deadline := time.Now().Add(samplesAppliedDeadline)
	for {
		_, err := c.kubectl(ctx, "", "apply", "--server-side", "-f", c.path("samples", "samples.yaml"))
		if err == nil || time.Now().After(deadline) || !strings.Contains(err.Error(), "not found") {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// awaitSamples waits until every object of the category "quoin" is Ready and
// says from time to time which is not, and why.
func (c *cluster) awaitSamples(ctx context.Context) error {
	start, reported := time.Now(), time.Now()
	for {
		output, err := c.kubectl(ctx, "", "get", "quoin", "--all-namespaces", "-o", "json")
		if err != nil {
			return err
		}
		waiting, err := notReady([]byte(output))
		if err != nil {
			return err
		}
		if len(waiting) == 0 {
			say("all samples are Ready after %s", seconds(time.Since(start)))
			return nil
		}
		if time.Since(start) > samplesReadyDeadline {
			return fmt.Errorf("not Ready after %s:\n  %s\nthe end of the controller's log:\n%s", samplesReadyDeadline,
				strings.Join(waiting, "\n  "), tail(c.processes().logPath(controllerDaemon), 20))
		}
		if !c.processes().running(controllerDaemon) {
			return fmt.Errorf("the controller ended; the end of its log:\n%s", tail(c.processes().logPath(controllerDaemon), 20))
		}
		if time.Since(reported) > samplesReportEvery {
			say("waiting for:\n  %s", strings.Join(waiting, "\n  "))
			reported = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// notReady describes the objects of a JSON list that are not Ready.
func notReady(list []byte) ([]string, error) {
	var objects struct {
		Items []struct {
			Kind     string
			Metadata struct {
				Namespace, Name string
				Generation      int64
			}
			Status struct {
				Conditions []struct {
					Type, Status, Reason, Message string
					ObservedGeneration            int64
				}
			}
		}
	}
	if err := json.Unmarshal(list, &objects); err != nil {
		return nil, fmt.Errorf("read the list of objects: %w", err)
	}
	if len(objects.Items) == 0 {
		return nil, errors.New("the samples have made no object of the category quoin")
	}
	var waiting []string
	for _, object := range objects.Items {
		state, ready := "no status yet", false
		for _, condition := range object.Status.Conditions {
			if condition.Type != "Ready" {
				continue
			}
			state, ready = condition.Reason+": "+condition.Message, condition.Status == "True"
			if condition.ObservedGeneration != object.Metadata.Generation {
				state, ready = "the condition is that of an earlier spec", false
			}
		}
		if !ready {
			waiting = append(waiting, fmt.Sprintf("%s %s: %s", object.Kind, filepath.Join(object.Metadata.Namespace, object.Metadata.Name), state))
		}
	}
	return waiting, nil
}

// sayNextSteps closes with what runs and what can be done with it. The table
// goes to stdout: it is the answer, not progress.
func (c *cluster) sayNextSteps(ctx context.Context) error {
	table, err := c.kubectl(ctx, "", "get", "quoin", "--all-namespaces")
	if err != nil {
		return err
	}
	fmt.Print("\n", table)
	say("\nNext:\n"+
		"  . %[1]s                                     # KUBECONFIG and the addresses\n"+
		"  %[2]s/kubectl get quoin -A\n"+
		"  curl --cacert $QUOIN_CA_FILE -H \"Authorization: Bearer $QUOIN_API_KEY\" $QUOIN_URL/api/v1/deployments\n"+
		"  bin/localcluster push cube v1.2.4 --dir %[3]s   # a new version: watch it roll out\n"+
		"  make down", c.path("env"), c.Bin, c.Dir)
	return nil
}
