// Package process starts, finds and stops daemons, and has the locks and probes
// that this needs.
package process

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

// Record is the content of <dir>/pids/<name>.json. The kernel reuses pids, so
// the start time also identifies the process: a process that reuses the pid is
// not signalled.
type Record struct {
	PID     int    `json:"pid"`
	Started string `json:"started"`
	// Stop is the signal that stops the process; 0 means TERM.
	Stop syscall.Signal `json:"stop,omitempty"`
}

// Running reports whether the recorded process runs.
func (r Record) Running() bool {
	started, err := startTime(r.PID)
	return err == nil && started == r.Started
}

// Daemon describes a process that outlives the command that starts it.
type Daemon struct {
	Name        string   // name of the log and the record
	Path        string   // binary
	Args        []string // arguments
	Environment []string // added to the cleaned environment

	// Options of daemons that must not run as root or need another stop signal.
	Folder     string // working directory; the cluster's when empty
	Credential *syscall.Credential
	Stop       syscall.Signal
}

// Daemons starts, finds and stops the daemons of one cluster.
type Daemons struct {
	Logs string // folder of the log files
	PIDs string // folder of the records
}

// LogPath returns the path of a daemon's log.
func (p Daemons) LogPath(name string) string { return filepath.Join(p.Logs, name+".log") }

func (p Daemons) recordPath(name string) string { return filepath.Join(p.PIDs, name+".json") }

// Start runs d in its own session, so that neither an interrupt of the terminal
// nor the end of this command stops it, and records it. The returned channel is
// closed when the process ends during this command.
func (p Daemons) Start(d Daemon) (<-chan struct{}, error) {
	for _, folder := range []string{p.Logs, p.PIDs} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
	}
	log, err := os.OpenFile(p.LogPath(d.Name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(d.Path, d.Args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = cmp.Or(d.Folder, filepath.Dir(p.Logs))
	cmd.Env = append(CleanEnvironment(os.Environ()), d.Environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: d.Credential}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", d.Name, err)
	}
	started, err := startTime(cmd.Process.Pid)
	if err == nil {
		err = p.writeRecord(d.Name, Record{PID: cmd.Process.Pid, Started: started, Stop: d.Stop})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("record %s: %w", d.Name, err), cmd.Process.Kill(), cmd.Wait())
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // reaps it; the cause is in its log
		close(ended)
	}()
	return ended, nil
}

// CleanEnvironment removes the variables that change the connections of
// daemons: requests of the API server to a kubelet must not use a proxy.
func CleanEnvironment(environment []string) []string {
	return slices.DeleteFunc(slices.Clone(environment), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		name = strings.ToUpper(name)
		return strings.HasSuffix(name, "_PROXY") || name == "KUBECONFIG"
	})
}

func (p Daemons) writeRecord(name string, record Record) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return os.WriteFile(p.recordPath(name), append(text, '\n'), 0o644)
}

// Read returns the record of a daemon; ok is false if there is none.
func (p Daemons) Read(name string) (record Record, ok bool) {
	text, err := os.ReadFile(p.recordPath(name))
	if err != nil || json.Unmarshal(text, &record) != nil {
		return Record{}, false
	}
	return record, true
}

// Running reports whether the daemon with that name runs.
func (p Daemons) Running(name string) bool {
	record, ok := p.Read(name)
	return ok && record.Running()
}

// Names returns the names of all recorded daemons, running or not.
func (p Daemons) Names() []string {
	paths, _ := filepath.Glob(filepath.Join(p.PIDs, "*.json")) // the pattern is well-formed: no other error exists
	var names []string
	for _, path := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".json"))
	}
	return names
}

// Stop stops a daemon with TERM or its own signal, then with KILL after the
// timeout, and removes its record. It reports whether the process ran.
func (p Daemons) Stop(ctx context.Context, name string, grace time.Duration) (stopped bool, err error) {
	record, ok := p.Read(name)
	if !ok || !record.Running() {
		return false, RemoveIfExists(p.recordPath(name))
	}
	for _, attempt := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{cmp.Or(record.Stop, syscall.SIGTERM), grace}, {syscall.SIGKILL, 5 * time.Second}} {
		if err := syscall.Kill(record.PID, attempt.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return false, fmt.Errorf("send %s to %s (pid %d): %w", attempt.signal, name, record.PID, err)
		}
		if WaitUntil(ctx, attempt.wait, func() bool { return !record.Running() }) {
			return true, RemoveIfExists(p.recordPath(name))
		}
	}
	return false, fmt.Errorf("%s (pid %d) is still running after KILL", name, record.PID)
}

// WaitUntil polls until condition returns true, the timeout expires, or ctx
// ends. It returns the last result of condition.
func WaitUntil(ctx context.Context, limit time.Duration, condition func() bool) bool {
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

// RemoveIfExists removes a file; it is not an error if it does not exist.
func RemoveIfExists(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// StopTimeout is the time for a daemon to stop before it is killed. It is
// short: the data of the cluster is disposable.
const StopTimeout = 5 * time.Second
