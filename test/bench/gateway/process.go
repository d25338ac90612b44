package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// process is a program that was started here.
type process struct {
	name    string
	log     string
	command *exec.Cmd
}

// startProcess starts a program whose output goes to a file that may be emptied at any time.
func startProcess(ctx context.Context, name, dir, program string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), command: exec.CommandContext(ctx, program, args...)}
	logs, err := os.OpenFile(p.log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }()
	p.command.Stderr = logs
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
	if p == nil {
		return ""
	}
	text, err := os.ReadFile(p.log)
	if err != nil || len(text) == 0 {
		return ""
	}
	return fmt.Sprintf("--- %s\n%s", p.name, text[max(0, len(text)-most):])
}

// ticks is how many a second has in /proc; Linux has had no other value for users in years.
const ticks = 100

// family are the ids of a process and its children.
func (p *process) family() []int {
	own := p.command.Process.Pid
	ids := []int{own}
	all, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, file := range all {
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if fields := statistics(id); err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(own) {
			ids = append(ids, id)
		}
	}
	return ids
}

// statistics are the fields of /proc/<id>/stat after the name, which is in parentheses and may hold
// blanks: the state, the parent, ...
func statistics(id int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return nil // it has ended
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

// processorSeconds is how long a process and its children have had a processor.
func (p *process) processorSeconds() float64 {
	used := 0.0
	for _, id := range p.family() {
		if fields := statistics(id); len(fields) > 12 {
			user, _ := strconv.ParseFloat(fields[11], 64)
			kernel, _ := strconv.ParseFloat(fields[12], 64)
			used += (user + kernel) / ticks
		}
	}
	return used
}

// residentKiB is the memory of a process and its children; pages that they share count for each.
func (p *process) residentKiB() float64 {
	sum := 0.0
	for _, id := range p.family() {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", id))
		_, rest, _ := strings.Cut(string(text), "VmRSS:")
		if fields := strings.Fields(rest); len(fields) > 0 {
			kib, _ := strconv.ParseFloat(fields[0], 64)
			sum += kib
		}
	}
	return sum
}

// emptyLog counts the lines of an access log and takes them away: the machine's disk is not what is
// measured.
func emptyLog(file string) (int, error) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	lines, room := 0, make([]byte, 1<<20)
	for {
		n, err := f.Read(room)
		lines += bytes.Count(room[:n], []byte{'\n'})
		if err == io.EOF {
			return lines, f.Truncate(0)
		}
		if err != nil {
			return lines, err
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

// load says how busy the machine is, where that can be known.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(text))[0]
}
