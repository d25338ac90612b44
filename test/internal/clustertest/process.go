package clustertest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Process is a program that a test can kill and restart.
type Process struct {
	// Args are the program and its arguments. Env is added to the environment of the test.
	Args, Env []string
	// LogFile is the file to which its output is appended.
	LogFile string

	command *exec.Cmd
}

// Start starts the program. It is killed when the test process exits.
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

// Kill sends SIGKILL and waits until the program has exited.
func (p *Process) Kill() {
	if p.command == nil || p.command.Process == nil {
		return
	}
	_ = p.command.Process.Kill() // it may have exited
	_, _ = p.command.Process.Wait()
}

// Stop sends SIGTERM and waits until the program has exited. It returns an error unless its exit code is 0.
func (p *Process) Stop() error {
	return errors.Join(p.command.Process.Signal(syscall.SIGTERM), p.Wait())
}

// Wait waits until the program has exited. It returns an error unless its exit code is 0.
func (p *Process) Wait() error { return p.command.Wait() }

// Log returns the program's output, or nothing if it cannot be read.
func (p *Process) Log() []byte {
	text, _ := os.ReadFile(p.LogFile)
	return bytes.TrimSpace(text)
}

// Binary returns the path of the program that Build builds.
func (c *Cluster) Binary() string { return filepath.Join(c.Folder, "quoin") }

// Build builds `quoin`.
func (c *Cluster) Build() error {
	if out, err := exec.Command("go", "build", "-o", c.Binary(), "github.com/quoin-dev/quoin/cmd/quoin").CombinedOutput(); err != nil {
		return fmt.Errorf("build quoin: %w: %s", err, out)
	}
	return nil
}

// Quoin returns a process of a subcommand of `quoin` with the permissions of its ServiceAccount, not started yet. Arguments
// may be appended: the last value of a repeated flag applies.
func (c *Cluster) Quoin(logFile, command string, args ...string) *Process {
	return &Process{
		Args:    append([]string{c.Binary(), command, "--kubeconfig", c.kubeconfigOf(command), "--metrics-bind-address", "0", "--health-probe-bind-address", "0"}, args...),
		LogFile: logFile,
	}
}

// APIServer returns a process of `quoin apiserver`, without effective rate limits.
func (c *Cluster) APIServer(logFile, address string) *Process {
	return c.Quoin(logFile, "apiserver", "--bind-address", address, "--requests-per-second", "1000000", "--burst", "1000000", "--shutdown-delay", "0s")
}
