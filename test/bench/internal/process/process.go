// Package process is about programs: what the main functions of the benches share, the programs that
// they start, and what those use.
package process

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// patience is how long a program may take to end.
const patience = 30 * time.Second

// Process is a program that was started here.
type Process struct {
	Name    string
	log     string
	command *exec.Cmd
}

// Start starts a program whose output is added to a file in dir, <name>.log, that may be emptied at any
// time.
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

// StartTelling starts a program that tells in its first line on stdout where it listens.
func StartTelling(name string, command *exec.Cmd) (p *Process, where string, err error) {
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

// ID is the process' number.
func (p *Process) ID() int { return p.command.Process.Pid }

// Stop ends the program, in order if it lets itself be; nil has none.
func (p *Process) Stop() {
	if p != nil {
		_ = p.command.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(patience, func() { _ = p.command.Process.Kill() })
		defer late.Stop()
		_ = p.command.Wait() // how it ended is in its log
	}
}

// LastWords are the end of the log; empty for nil.
func (p *Process) LastWords() string {
	const most = 2000
	if p == nil {
		return ""
	}
	text, err := os.ReadFile(p.log)
	if err != nil || len(text) == 0 {
		return ""
	}
	return fmt.Sprintf("--- %s\n%s", p.Name, text[max(0, len(text)-most):])
}

// FreeAddress is one of this machine where nothing listens.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}
