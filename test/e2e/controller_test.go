package e2e_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// quoinImage returns the --quoin-image of the default controller. The image exists only on a real node.
func quoinImage() string { return world.env["QUOIN_REGISTRY"] + "/quoin:e2e" }

// defaultFlags returns the flags of the default controller. A single process needs no leader election, and without it a
// restarted process does not wait for the lease.
func defaultFlags() []string {
	return []string{"--leader-elect=false", "--quoin-image=" + quoinImage()}
}

// controller is a process of bin/quoin: the controller, the REST and SCIM server, or the gateway.
type controller struct {
	cmd   *exec.Cmd
	flags []string
	log   string
	ended chan struct{}
}

// started counts the processes, for the names of their logs.
var started int

// runController starts a controller and waits until its caches have synced.
func runController(ctx context.Context, flags ...string) *controller {
	GinkgoHelper()
	// Simulated pods cannot compile a model.
	warmUp := fmt.Sprintf("--warm-up=%t", world.nodes == real)
	return runQuoin(ctx, "controller", append([]string{"--kubeconfig=" + world.kubeconfig, "--allow-insecure-git", warmUp}, flags...), flags)
}

// runQuoin starts a subcommand and waits until it is ready.
func runQuoin(ctx context.Context, subcommand string, args, flags []string) *controller {
	GinkgoHelper()
	started++
	health := freeAddress()
	c := &controller{flags: flags, log: filepath.Join(world.dir, fmt.Sprintf("quoin-%s-%02d.log", subcommand, started)), ended: make(chan struct{})}
	log, err := os.Create(c.log)
	Expect(err).NotTo(HaveOccurred())
	defer log.Close()
	c.cmd = exec.Command(world.quoin, append([]string{
		subcommand, "--log-format=text", "--health-probe-bind-address=" + health, "--metrics-bind-address=" + freeAddress(),
	}, args...)...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	Expect(c.cmd.Start()).To(Succeed())
	go func() {
		_ = c.cmd.Wait() // the log has the reason
		close(c.ended)
	}()
	Eventually(ctx, func(g Gomega) {
		g.Expect(c.ended).NotTo(BeClosed(), "the process has exited:\n%s", c.tail(20))
		resp, err := http.Get("http://" + health + "/readyz")
		g.Expect(err).NotTo(HaveOccurred())
		defer resp.Body.Close()
		g.Expect(resp).To(HaveHTTPStatus(http.StatusOK))
	}).WithPolling(20 * time.Millisecond).Should(Succeed())
	return c
}

// freeAddress returns an address with a free port.
func freeAddress() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	return listener.Addr().String()
}

// stop sends SIGTERM and waits until the process has exited.
func (c *controller) stop() { c.end(syscall.SIGTERM) }

// kill sends SIGKILL and waits until the process has exited.
func (c *controller) kill() { c.end(syscall.SIGKILL) }

func (c *controller) end(signal syscall.Signal) {
	_ = c.cmd.Process.Signal(signal) // it may have exited
	select {
	case <-c.ended:
	case <-time.After(40 * time.Second): // longer than the shutdown timeout of its workers
		_ = c.cmd.Process.Kill()
		<-c.ended
	}
}

func (c *controller) running() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// tail returns the end of the log, without the lines about starting.
func (c *controller) tail(lines int) string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	all := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(text)), "\n"), func(line string) bool {
		return strings.Contains(line, `msg="Starting `)
	})
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// runDefaultController makes sure that a controller with the default flags is running.
func runDefaultController(ctx context.Context) {
	if quoin != nil && quoin.running() && slices.Equal(quoin.flags, defaultFlags()) {
		return
	}
	replaceController(ctx, defaultFlags()...)
}

// replaceController stops the controller and starts one with other flags.
func replaceController(ctx context.Context, flags ...string) {
	if quoin != nil {
		quoin.stop()
	}
	quoin = runController(ctx, flags...)
}
