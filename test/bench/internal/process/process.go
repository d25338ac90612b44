// Package process has the shared main function of the benches, and starts, stops and observes their child processes.
package process

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stopTimeout is how long a program may take to exit after SIGTERM.
const stopTimeout = 30 * time.Second

// Process is a child process.
type Process struct {
	Name    string
	log     string
	command *exec.Cmd
}

// Start starts a program. Its output is appended to <dir>/<name>.log, which may be truncated at any time.
func Start(ctx context.Context, name, dir, program string, args ...string) (*Process, error) {
	p := &Process{Name: name, log: filepath.Join(dir, name+".log"), command: exec.CommandContext(ctx, program, args...)}
	logs, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }()
	p.command.Stdout, p.command.Stderr = logs, logs
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// StartListener starts a program that prints the address it listens on as the first line of stdout.
func StartListener(name string, command *exec.Cmd) (p *Process, address string, err error) {
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := command.Start(); err != nil {
		return nil, "", fmt.Errorf("start %s: %w", name, err)
	}
	p = &Process{Name: name, command: command}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.Stop()
		return nil, "", fmt.Errorf("start %s: %w", name, err)
	}
	return p, strings.TrimSpace(line), nil
}

// ID returns the process id.
func (p *Process) ID() int { return p.command.Process.Pid }

// Stop sends SIGTERM, and SIGKILL after stopTimeout. It does nothing if p is nil.
func (p *Process) Stop() {
	if p != nil {
		_ = p.command.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(stopTimeout, func() { _ = p.command.Process.Kill() })
		defer kill.Stop()
		_ = p.command.Wait() // the log has the reason
	}
}

// LogTail returns the end of the log; "" if p is nil.
func (p *Process) LogTail() string {
	const limit = 2000
	if p == nil {
		return ""
	}
	text, err := os.ReadFile(p.log)
	if err != nil || len(text) == 0 {
		return ""
	}
	return fmt.Sprintf("--- %s\n%s", p.Name, text[max(0, len(text)-limit):])
}
