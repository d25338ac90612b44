package clustertest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Process is a program that a test may kill and start again.
type Process struct {
	// Args are the program and its arguments, Env is what its environment has beside the test's.
	Args, Env []string
	// LogFile is what its output is appended to.
	LogFile string

	command *exec.Cmd
}

// Start starts the program. It dies with the test.
func (p *Process) Start() error {
	logs, err := os.OpenFile(p.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	p.command = exec.Command(p.Args[0], p.Args[1:]...)
	p.command.Env = append(os.Environ(), p.Env...)
	p.command.Stdout, p.command.Stderr = logs, logs
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return errors.Join(p.command.Start(), logs.Close())
}

// Kill ends the program as a power cut would, and waits until it is gone.
func (p *Process) Kill() {
	if p.command == nil || p.command.Process == nil {
		return
	}
	_ = p.command.Process.Kill() // it may have ended
	_, _ = p.command.Process.Wait()
}

// Logged is what it has logged; nothing if that cannot be read.
func (p *Process) Logged() []byte {
	text, _ := os.ReadFile(p.LogFile)
	return bytes.TrimSpace(text)
}

func (c *Cluster) binary() string { return filepath.Join(c.Folder, "quoin") }

// Build makes the program of the processes below.
func (c *Cluster) Build() error {
	if out, err := exec.Command("go", "build", "-o", c.binary(), "github.com/quoin-dev/quoin/cmd/quoin").CombinedOutput(); err != nil {
		return fmt.Errorf("build quoin: %w: %s", err, out)
	}
	return nil
}

// Quoin is the process of a command of `quoin`, not started yet. More may be appended to its
// arguments: of a flag that is there twice, the last value counts.
func (c *Cluster) Quoin(logFile, command string, args ...string) *Process {
	return &Process{
		Args:    append([]string{c.binary(), command, "--kubeconfig", c.kubeconfig(), "--metrics-bind-address", "0", "--health-probe-bind-address", "0"}, args...),
		LogFile: logFile,
	}
}

// FrontEnd is `quoin apiserver` at an address, with no rate that a test would meet.
func (c *Cluster) FrontEnd(logFile, address string) *Process {
	return c.Quoin(logFile, "apiserver", "--bind-address", address, "--aggregation=false", "--requests-per-second", "1000000", "--burst", "1000000", "--shutdown-delay", "0s")
}

// FreeAddress is an address on loopback where nobody listens.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
