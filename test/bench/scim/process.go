package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program that was started here.
type process struct {
	name    string
	log     string
	command *exec.Cmd
}

func startProcess(ctx context.Context, name, dir, program string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), command: exec.CommandContext(ctx, program, args...)}
	logs, err := os.Create(p.log)
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

func (p *process) stop() {
	if p != nil {
		_ = p.command.Process.Signal(syscall.SIGTERM)
		_ = p.command.Wait()
	}
}

// lastWords are the end of the log.
func (p *process) lastWords() string {
	const most = 2000
	text, err := os.ReadFile(p.log)
	if err != nil || len(text) == 0 {
		return ""
	}
	return fmt.Sprintf("--- %s\n%s", p.name, text[max(0, len(text)-most):])
}

// ticks is how many a second has in /proc; Linux has had no other value for users in years.
const ticks = 100

// processorTime is how long this program and the ones that it started have had a processor, in
// seconds, by name; empty where there is no /proc.
func (w *world) processorTime() map[string]float64 {
	names := map[int]string{os.Getpid(): "bench"}
	for _, p := range []*process{w.front, w.controller} {
		if p != nil {
			names[p.command.Process.Pid] = p.name
		}
	}
	used := map[string]float64{}
	all, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// The name of the program, in parentheses, may hold blanks. After it come the state, the
		// parent and, as the 12th and 13th fields, the time in user and in kernel mode.
		before, rest, _ := strings.Cut(string(text), ") ")
		number, program, _ := strings.Cut(before, " (")
		pid, _ := strconv.Atoi(number)
		fields := strings.Fields(rest)
		if len(fields) < 13 || pid != os.Getpid() && fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		if names[pid] != "" {
			program = names[pid]
		}
		user, _ := strconv.ParseFloat(fields[11], 64)
		kernel, _ := strconv.ParseFloat(fields[12], 64)
		used[program] += (user + kernel) / ticks
	}
	return used
}

// settle waits until what was begun is done, such as the controller's writes, so that one
// measurement does not pay for the one before.
func (w *world) settle(ctx context.Context) {
	const (
		window = 400 * time.Millisecond
		enough = 0.2 // of one processor, all programs together
		atMost = 2 * time.Minute
	)
	total := func() (sum float64) {
		for _, seconds := range w.processorTime() {
			sum += seconds
		}
		return sum
	}
	for start := time.Now(); time.Since(start) < atMost && ctx.Err() == nil; {
		before := total()
		time.Sleep(window)
		if total()-before < enough*window.Seconds() {
			return
		}
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}
