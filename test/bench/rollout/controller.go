package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// controllerName is the controller's among the processes.
const controllerName = "quoin"

// controller is `quoin controller` as a process of this machine, with the rights that it
// has in a real cluster.
type controller struct {
	cluster *cluster
	binary  string
	log     string
	workers int
	process *exec.Cmd
	token   string // reads the metrics
}

// newController copies the binary, so that what is measured stays the same when somebody
// builds it anew.
func newController(c *cluster, o options) (*controller, error) {
	from := o.controller
	if !filepath.IsAbs(from) {
		from = filepath.Join(c.root, from)
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return nil, fmt.Errorf("%w: start this with make bench-rollout, which builds it", err)
	}
	binary := filepath.Join(c.dir, "quoin")
	return &controller{
		cluster: c, binary: binary, log: filepath.Join(c.dir, "quoin.log"), workers: o.workers,
	}, os.WriteFile(binary, content, 0o700)
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
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	health := fmt.Sprintf("127.0.0.1:%d", c.cluster.ports[controllerHealth])
	cmd := exec.Command(c.binary, "controller",
		"--kubeconfig="+kubeconfig,
		"--leader-elect=false",
		"--concurrency="+strconv.Itoa(c.workers),
		"--max-concurrent-rollouts=0",
		"--warm-up=false", // nobody is behind the pods
		"--health-probe-bind-address="+health,
		fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", c.cluster.ports[controllerServes]))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	c.process = cmd
	for range 300 {
		answer, err := http.Get("http://" + health + "/readyz")
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		pause(ctx, 200*time.Millisecond)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("the controller is not ready after a minute")
}

// stop ends the controller, in order if it lets itself be.
func (c *controller) stop(ctx context.Context) {
	if c.process == nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		_ = c.process.Wait() // reaps it; how it ended is in its log
		close(ended)
	}()
	_ = c.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-ctx.Done():
	case <-time.After(30 * time.Second):
	}
	_ = c.process.Process.Kill() // nothing happens when it has ended
	<-ended
	c.process = nil
}

// memory is how much of it the controller has.
type memory struct {
	// Resident now, and at most since the process started.
	Resident float64 `json:"residentMiB"`
	Peak     float64 `json:"peakMiB"`
	// Heap is what Go's allocator has given out.
	Heap float64 `json:"heapMiB"`
}

// memory reads /proc, which only Linux has, and the metrics.
func (c *controller) memory(ctx context.Context) (memory, error) {
	m := memory{}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.process.Process.Pid))
	if err != nil {
		return m, fmt.Errorf("the controller's memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseFloat(fields[1], 64)
		switch fields[0] {
		case "VmRSS:":
			m.Resident = kib / 1024
		case "VmHWM:":
			m.Peak = kib / 1024
		}
	}
	metrics, err := c.metrics(ctx)
	if err != nil {
		return m, err
	}
	for line := range strings.Lines(metrics) {
		if value, ok := strings.CutPrefix(line, "go_memstats_heap_alloc_bytes "); ok {
			bytes, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			m.Heap = bytes / (1 << 20)
		}
	}
	return m, nil
}

func (c *controller) metrics(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("https://127.0.0.1:%d/metrics", c.cluster.ports[controllerServes]), nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // it makes its own certificate
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

// lastWords are the end of the controller's log.
func (c *controller) lastWords() string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return "the end of the controller's log:\n" + strings.Join(lines[max(0, len(lines)-20):], "\n")
}
