package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// How the controller is deployed: config/rbac has these names too.
const (
	controllerAccount    = "quoin-controller"
	controllerDaemon     = "quoin-controller"
	controllerKubeconfig = "controller.kubeconfig"
)

// quoinImageVariable names Quoin's own image in <dir>/env: pods fetch a model from Git with it.
const quoinImageVariable = "QUOIN_IMAGE"

// pushQuoin builds Quoin's image and pushes it. The reference has the digest: a node keeps what
// it has of a tag.
func (c *cluster) pushQuoin(ctx context.Context, root string) (string, error) {
	reference := c.registryAddress() + "/quoin:dev"
	cmd := exec.CommandContext(ctx, "go", "run", "./hack/image", "--binary", c.path("bin", "quoin"), "--push", reference)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	digest, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("push %s: %w: %s", reference, err, lastLines(stderr.String(), 10))
	}
	return reference + "@" + strings.TrimSpace(string(digest)), nil
}

// startController starts the controller anew, in case its binary has changed.
func (c *cluster) startController(ctx context.Context) error {
	if _, err := c.processes().stop(ctx, controllerDaemon, 2*stopGrace); err != nil {
		return err
	}
	health := loopback(c.Ports[portQuoinHealth])
	args := []string{
		"controller",
		"--kubeconfig=" + c.path(controllerKubeconfig),
		"--leader-elect=false",
		// Behind simulated pods is nobody who could be asked whether the model compiles.
		fmt.Sprintf("--warm-up=%t", c.Nodes == nodesReal),
		"--health-probe-bind-address=" + health,
		"--metrics-bind-address=" + loopback(c.Ports[portQuoinMetrics]),
	}
	if c.Nodes == nodesReal {
		environment, err := readEnvironment(c.path("env"))
		if err != nil {
			return err
		}
		args = append(args, "--quoin-image="+environment[quoinImageVariable], "--allow-insecure-git")
	}
	return c.startAll(ctx, []component{{
		daemon:   daemon{name: controllerDaemon, path: c.path("bin", "quoin"), args: args},
		port:     portQuoinHealth,
		deadline: time.Minute,
		ready:    httpProbe(http.DefaultClient, "http://"+health+"/readyz"),
	}})
}
