package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// processRecord is what <dir>/pids/<name>.json says of a daemon. A process id
// alone is reused by the kernel; together with the start time it is not, so a
// stranger that got the number is never signalled.
type processRecord struct {
	PID     int    `json:"pid"`
	Started string `json:"started"`
	// Stop is the signal that asks it to end; 0 for TERM.
	Stop syscall.Signal `json:"stop,omitempty"`
}

// running reports whether the recorded process is still there.
func (r processRecord) running() bool {
	started, err := processStart(r.PID)
	return err == nil && started == r.Started
}

// daemon is one process to start: it outlives the command that starts it.
type daemon struct {
	name        string   // names the log and the record
	path        string   // binary
	args        []string // arguments
	environment []string // added to the cleaned environment

	// For one that may not run as root and has signals of its own.
	folder     string // working directory; the cluster's when empty
	credential *syscall.Credential
	stop       syscall.Signal
}

// processes starts, finds and stops the daemons of one cluster.
type processes struct {
	logs string // folder of the log files
	pids string // folder of the records
}

func (p processes) logPath(name string) string { return filepath.Join(p.logs, name+".log") }

func (p processes) recordPath(name string) string { return filepath.Join(p.pids, name+".json") }

// start runs d in a session of its own, so that neither the terminal's
// interrupt nor the end of this command reaches it, and records it. The
// returned channel closes when the process ends while this command lives.
func (p processes) start(d daemon) (<-chan struct{}, error) {
	for _, folder := range []string{p.logs, p.pids} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
	}
	log, err := os.OpenFile(p.logPath(d.name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(d.path, d.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = cmp.Or(d.folder, filepath.Dir(p.logs))
	cmd.Env = append(cleanEnvironment(os.Environ()), d.environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: d.credential}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", d.name, err)
	}
	started, err := processStart(cmd.Process.Pid)
	if err == nil {
		err = p.writeRecord(d.name, processRecord{PID: cmd.Process.Pid, Started: started, Stop: d.stop})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("record %s: %w", d.name, err), cmd.Process.Kill(), cmd.Wait())
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // reaps it; how it ended is in its log
		close(ended)
	}()
	return ended, nil
}

// cleanEnvironment drops what would change where the daemons connect to: a
// proxy for outgoing traffic must not sit between the API server and a kubelet.
func cleanEnvironment(environment []string) []string {
	return slices.DeleteFunc(slices.Clone(environment), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		name = strings.ToUpper(name)
		return strings.HasSuffix(name, "_PROXY") || name == "KUBECONFIG"
	})
}

func (p processes) writeRecord(name string, record processRecord) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return os.WriteFile(p.recordPath(name), append(text, '\n'), 0o644)
}

// read returns the record of a daemon; ok is false when there is none.
func (p processes) read(name string) (record processRecord, ok bool) {
	text, err := os.ReadFile(p.recordPath(name))
	if err != nil || json.Unmarshal(text, &record) != nil {
		return processRecord{}, false
	}
	return record, true
}

// running reports whether the daemon of that name runs.
func (p processes) running(name string) bool {
	record, ok := p.read(name)
	return ok && record.running()
}

// names returns the names of all recorded daemons, running or not.
func (p processes) names() []string {
	paths, _ := filepath.Glob(filepath.Join(p.pids, "*.json")) // the pattern is well-formed: no other error exists
	var names []string
	for _, path := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".json"))
	}
	return names
}

// stop ends a daemon: TERM or its own signal, then KILL once the grace has passed. A record
// whose process is gone is only removed. It reports whether the process ran.
func (p processes) stop(ctx context.Context, name string, grace time.Duration) (stopped bool, err error) {
	record, ok := p.read(name)
	if !ok || !record.running() {
		return false, removeIfExists(p.recordPath(name))
	}
	for _, attempt := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{cmp.Or(record.Stop, syscall.SIGTERM), grace}, {syscall.SIGKILL, 5 * time.Second}} {
		if err := syscall.Kill(record.PID, attempt.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return false, fmt.Errorf("send %s to %s (pid %d): %w", attempt.signal, name, record.PID, err)
		}
		if waitUntil(ctx, attempt.wait, func() bool { return !record.running() }) {
			return true, removeIfExists(p.recordPath(name))
		}
	}
	return false, fmt.Errorf("%s (pid %d) did not end after KILL", name, record.PID)
}

// waitUntil polls condition until it holds, the time is over or ctx ends; it
// returns the last answer.
func waitUntil(ctx context.Context, limit time.Duration, condition func() bool) bool {
	deadline := time.After(limit)
	for !condition() {
		select {
		case <-ctx.Done():
			return condition()
		case <-deadline:
			return condition()
		case <-time.After(25 * time.Millisecond):
		}
	}
	return true
}

func removeIfExists(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// stopGrace is how long a daemon may take to end before it is killed. Nothing
// of a cluster that is thrown away is worth waiting longer for.
const stopGrace = 5 * time.Second
