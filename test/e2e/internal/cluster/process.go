package cluster

import (
	"context"
	"fmt"
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
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

// Process is a process of bin/quoin: the controller, the REST and SCIM server, or the gateway.
type Process struct {
	// Log is the file with its output.
	Log string

	cmd   *exec.Cmd
	ended chan struct{}
}

// Use makes Run start another binary, which must not change.
func (c *Cluster) Use(binary string) { c.quoin = binary }

// Binary returns the binary that Run starts.
func (c *Cluster) Binary() string { return c.quoin }

// Run starts a subcommand of bin/quoin and waits until it is ready.
func (c *Cluster) Run(ctx context.Context, subcommand string, args ...string) *Process {
	GinkgoHelper()
	c.started++
	health := FreeAddress()
	p := &Process{Log: filepath.Join(c.Dir, fmt.Sprintf("quoin-%s-%02d.log", subcommand, c.started)), ended: make(chan struct{})}
	log, err := os.Create(p.Log)
	Expect(err).NotTo(HaveOccurred())
	defer log.Close()
	p.cmd = exec.Command(c.quoin, append([]string{
		subcommand, "--log-format=text", "--health-probe-bind-address=" + health, "--metrics-bind-address=" + FreeAddress(),
	}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	Expect(p.cmd.Start()).To(Succeed())
	go func() {
		_ = p.cmd.Wait() // the log has the reason
		close(p.ended)
	}()
	Eventually(ctx, func(g Gomega) {
		g.Expect(p.ended).NotTo(BeClosed(), "the process has exited:\n%s", p.Tail(20))
		resp, err := http.Get("http://" + health + "/readyz")
		g.Expect(err).NotTo(HaveOccurred())
		defer resp.Body.Close()
		g.Expect(resp).To(HaveHTTPStatus(http.StatusOK))
	}).WithPolling(20 * time.Millisecond).Should(Succeed())
	return p
}

// FreeAddress returns a loopback address that is reserved for a process.
func FreeAddress() string {
	address, err := freeport.Address()
	Expect(err).NotTo(HaveOccurred())
	return address
}

// Stop sends SIGTERM and waits until the process has exited.
func (p *Process) Stop() { p.end(syscall.SIGTERM) }

// Kill sends SIGKILL and waits until the process has exited.
func (p *Process) Kill() { p.end(syscall.SIGKILL) }

func (p *Process) end(signal syscall.Signal) {
	_ = p.cmd.Process.Signal(signal) // it may have exited
	select {
	case <-p.ended:
	case <-time.After(40 * time.Second): // longer than the shutdown timeout of its workers
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// Running reports whether the process has not exited.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Output returns the log.
func (p *Process) Output() string {
	text, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Tail returns the end of the log, without the lines about starting.
func (p *Process) Tail(lines int) string {
	all := slices.DeleteFunc(strings.Split(strings.TrimSpace(p.Output()), "\n"), func(line string) bool {
		return strings.Contains(line, `msg="Starting `)
	})
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
