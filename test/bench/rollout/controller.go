package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// controllerName is the name of the controller's process.
const controllerName = "quoin"

// controller is `quoin controller` as a local process, with the permissions that it has in a real cluster.
type controller struct {
	cluster *cluster
	binary  string
	workers int
	limit   int
	process *process.Process // nil if it is not running
	token   string           // for the metrics
}

// newController copies the binary, so that a rebuild during the bench has no effect.
func newController(c *cluster, o options) (*controller, error) {
	from := o.controller
	if !filepath.IsAbs(from) {
		from = filepath.Join(c.root, from)
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return nil, fmt.Errorf("%w: run make bench-rollout, which builds it", err)
	}
	binary := filepath.Join(c.dir, "quoin")
	return &controller{cluster: c, binary: binary, workers: o.workers, limit: o.limit}, os.WriteFile(binary, content, 0o700)
}

// start starts the controller and waits until it is ready.
func (c *controller) start(ctx context.Context) error {
	kubeconfig, err := c.cluster.controllerKubeconfig(ctx)
	if err != nil {
		return err
	}
	if c.token, err = c.cluster.token(ctx, "default", "default"); err != nil {
		return err
	}
	health := fmt.Sprintf("127.0.0.1:%d", c.cluster.ports[controllerHealth])
	// stop ends the process, also after an interruption.
	if c.process, err = process.Start(context.WithoutCancel(ctx), controllerName, c.cluster.dir, c.binary, "controller",
		"--kubeconfig="+kubeconfig,
		"--leader-elect=false",
		"--quoin-image=quoin:bench", // no pod fetches a model
		"--concurrency="+strconv.Itoa(c.workers),
		"--max-concurrent-rollouts="+strconv.Itoa(c.limit),
		"--warm-up=false", // the pods are simulated
		"--health-probe-bind-address="+health,
		fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", c.cluster.ports[controllerServes])); err != nil {
		return err
	}
	return process.Await(ctx, "the controller", 300, 200*time.Millisecond, func() error {
		answer, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return err
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	})
}

// stop stops the controller if it is running.
func (c *controller) stop() {
	c.process.Stop()
	c.process = nil
}

// memory is the memory of the controller.
type memory struct {
	// Resident is the current resident memory, Peak the highest since the process started.
	Resident float64 `json:"residentMiB"`
	Peak     float64 `json:"peakMiB"`
	// Program is the part of both that is pages of the program, which all processes of a node share.
	Program float64 `json:"programMiB"`
	// Heap is what Go's allocator has allocated.
	Heap float64 `json:"heapMiB"`
}

// memory reads /proc (Linux) and the metrics.
func (c *controller) memory(ctx context.Context) (memory, error) {
	used, err := process.MemoryOf(c.process.ID())
	if err != nil {
		return memory{}, fmt.Errorf("the controller's memory: %w", err)
	}
	metrics, err := c.metrics(ctx)
	return memory{used.Resident, used.Peak, used.Resident - used.Anonymous, measure.Metric(metrics, "go_memstats_heap_alloc_bytes") / (1 << 20)}, err
}

func (c *controller) metrics(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("https://127.0.0.1:%d/metrics", c.cluster.ports[controllerServes]), nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // self-signed
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("read the controller's metrics: %s", answer.Status)
	}
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}
