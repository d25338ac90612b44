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

// quoinImage is what the usual controller believes to be its own image. It is there on a real
// node only, where it runs.
func quoinImage() string { return world.env["QUOIN_REGISTRY"] + "/quoin:e2e" }

// usualFlags are those of the controller that journeys find running. One process alone
// needs no election, and without one it may be killed and started again without a wait for
// the lease.
func usualFlags() []string { return []string{"--leader-elect=false", "--quoin-image=" + quoinImage()} }

// controller is a process of bin/quoin: the controller, or the front end.
type controller struct {
	cmd   *exec.Cmd
	flags []string
	log   string
	ended chan struct{}
}

// started counts the controllers of the run, whose logs are numbered.
var started int

// runController starts a controller and waits until its caches are filled.
func runController(ctx context.Context, flags ...string) *controller {
	GinkgoHelper()
	// Behind simulated pods is nobody who could be asked whether the model compiles.
	warmUp := fmt.Sprintf("--warm-up=%t", world.nodes == real)
	return runQuoin(ctx, "controller", append([]string{"--kubeconfig=" + world.kubeconfig, "--allow-insecure-git", warmUp}, flags...), flags)
}

// runQuoin starts a subcommand that serves and waits until it is ready.
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
		_ = c.cmd.Wait() // how it ended is in its log
		close(c.ended)
	}()
	Eventually(ctx, func(g Gomega) {
		g.Expect(c.ended).NotTo(BeClosed(), "it ended:\n%s", c.tail(20))
		resp, err := http.Get("http://" + health + "/readyz")
		g.Expect(err).NotTo(HaveOccurred())
		defer resp.Body.Close()
		g.Expect(resp).To(HaveHTTPStatus(http.StatusOK))
	}).WithPolling(20 * time.Millisecond).Should(Succeed())
	return c
}

// freeAddress is one that nothing listens on.
func freeAddress() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	return listener.Addr().String()
}

// stop ends the controller as Kubernetes does, and waits for the end.
func (c *controller) stop() { c.end(syscall.SIGTERM) }

// kill ends the controller as a power failure does.
func (c *controller) kill() { c.end(syscall.SIGKILL) }

func (c *controller) end(signal syscall.Signal) {
	_ = c.cmd.Process.Signal(signal) // it may have ended already
	select {
	case <-c.ended:
	case <-time.After(40 * time.Second): // more than it gives its own workers
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

// tail is the end of the log, without the many lines about what is started.
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

// runUsualController makes sure that the usual controller runs, and no other flags.
func runUsualController(ctx context.Context) {
	if quoin != nil && quoin.running() && slices.Equal(quoin.flags, usualFlags()) {
		return
	}
	replaceController(ctx, usualFlags()...)
}

// replaceController ends the controller and starts one with other flags.
func replaceController(ctx context.Context, flags ...string) {
	if quoin != nil {
		quoin.stop()
	}
	quoin = runController(ctx, flags...)
}
