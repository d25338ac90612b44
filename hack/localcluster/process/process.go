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

// Record is what <dir>/pids/<name>.json says of a daemon. A process id
// alone is reused by the kernel; together with the start time it is not, so a
// stranger that got the number is never signalled.
type Record struct {
	PID     int    `json:"pid"`
	Started string `json:"started"`
	// Stop is the signal that asks it to end; 0 for TERM.
	Stop syscall.Signal `json:"stop,omitempty"`
}

// Running reports whether the recorded process is still there.
func (r Record) Running() bool {
	started, err := startTime(r.PID)
	return err == nil && started == r.Started
}

// Daemon is one process to start: it outlives the command that starts it.
type Daemon struct {
	Name        string   // names the log and the record
	Path        string   // binary
	Args        []string // arguments
	Environment []string // added to the cleaned environment

	// For one that may not run as root and has signals of its own.
	Folder     string // working directory; the cluster's when empty
	Credential *syscall.Credential
	Stop       syscall.Signal
}

// Daemons starts, finds and stops the daemons of one cluster.
type Daemons struct {
	Logs string // folder of the log files
	Pids string // folder of the records
}

func (p Daemons) LogPath(name string) string { return filepath.Join(p.Logs, name+".log") }

func (p Daemons) recordPath(name string) string { return filepath.Join(p.Pids, name+".json") }

// Start runs d in a session of its own, so that neither the terminal's
// interrupt nor the end of this command reaches it, and records it. The
// returned channel closes when the process ends while this command lives.
func (p Daemons) Start(d Daemon) (<-chan struct{}, error) {
	for _, folder := range []string{p.Logs, p.Pids} {
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
		_ = cmd.Wait() // reaps it; how it ended is in its log
		close(ended)
	}()
	return ended, nil
}

// CleanEnvironment drops what would change where the daemons connect to: a
// proxy for outgoing traffic must not sit between the API server and a kubelet.
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

// Read returns the record of a daemon; ok is false when there is none.
func (p Daemons) Read(name string) (record Record, ok bool) {
	text, err := os.ReadFile(p.recordPath(name))
	if err != nil || json.Unmarshal(text, &record) != nil {
		return Record{}, false
	}
	return record, true
}

// Running reports whether the daemon of that name runs.
func (p Daemons) Running(name string) bool {
	record, ok := p.Read(name)
	return ok && record.Running()
}

// Names returns the names of all recorded daemons, running or not.
func (p Daemons) Names() []string {
	paths, _ := filepath.Glob(filepath.Join(p.Pids, "*.json")) // the pattern is well-formed: no other error exists
	var names []string
	for _, path := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".json"))
	}
	return names
}

// Stop ends a daemon: TERM or its own signal, then KILL once the grace has passed. A record
// whose process is gone is only removed. It reports whether the process ran.
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
	return false, fmt.Errorf("%s (pid %d) did not end after KILL", name, record.PID)
}

// WaitUntil polls condition until it holds, the time is over or ctx ends; it
// returns the last answer.
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

func RemoveIfExists(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// StopTimeout is how long a daemon may take to end before it is killed. Nothing
// of a cluster that is thrown away is worth waiting longer for.
const StopTimeout = 5 * time.Second
