package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

func newTestProcesses(t *testing.T) Daemons {
	folder := t.TempDir()
	return Daemons{Logs: filepath.Join(folder, "logs"), PIDs: filepath.Join(folder, "pids")}
}

func TestStartAndStop(t *testing.T) {
	p := newTestProcesses(t)
	if _, err := p.Start(Daemon{Name: "sleeper", Path: "/bin/sh", Args: []string{"-c", "echo hello; exec sleep 60"}}); err != nil {
		t.Fatal(err)
	}
	if !p.Running("sleeper") {
		t.Fatal("not running after start")
	}
	if !WaitUntil(t.Context(), 5*time.Second, func() bool { return Tail(p.LogPath("sleeper"), 1) == "hello" }) {
		t.Errorf("log is %q", Tail(p.LogPath("sleeper"), 5))
	}
	ran, err := p.Stop(t.Context(), "sleeper", time.Second)
	if err != nil || !ran {
		t.Fatalf("stop: ran %t, error %v", ran, err)
	}
	if p.Running("sleeper") || len(p.Names()) != 0 {
		t.Error("still there after stop")
	}
	if ran, err = p.Stop(t.Context(), "sleeper", time.Second); err != nil || ran {
		t.Errorf("second stop: ran %t, error %v", ran, err)
	}
}

func TestStopKillsProcessThatIgnoresTerm(t *testing.T) {
	p := newTestProcesses(t)
	script := `trap "" TERM; echo ready; while :; do sleep 0.1; done`
	if _, err := p.Start(Daemon{Name: "stubborn", Path: "/bin/sh", Args: []string{"-c", script}}); err != nil {
		t.Fatal(err)
	}
	WaitUntil(t.Context(), 5*time.Second, func() bool { return Tail(p.LogPath("stubborn"), 1) == "ready" })
	if ran, err := p.Stop(t.Context(), "stubborn", 200*time.Millisecond); err != nil || !ran {
		t.Fatalf("stop: ran %t, error %v", ran, err)
	}
	if p.Running("stubborn") {
		t.Error("still running")
	}
}

func TestStopUsesTheDaemonsSignal(t *testing.T) {
	p := newTestProcesses(t)
	script := `trap "echo stopped; exit" INT; trap "" TERM; echo ready; while :; do sleep 0.1; done`
	if _, err := p.Start(Daemon{Name: "graceful", Path: "/bin/sh", Args: []string{"-c", script}, Folder: t.TempDir(), Stop: syscall.SIGINT}); err != nil {
		t.Fatal(err)
	}
	if !WaitUntil(t.Context(), 5*time.Second, func() bool { return Tail(p.LogPath("graceful"), 1) == "ready" }) {
		t.Fatal("not ready")
	}
	if ran, err := p.Stop(t.Context(), "graceful", 5*time.Second); err != nil || !ran {
		t.Fatalf("stop: ran %t, error %v", ran, err)
	}
	if got := Tail(p.LogPath("graceful"), 1); got != "stopped" {
		t.Errorf("the log ends with %q", got)
	}
}

// A process that reuses the pid must not be signalled.
func TestStopIgnoresReusedPID(t *testing.T) {
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = other.Process.Kill(), other.Wait() }()
	p := newTestProcesses(t)
	if err := os.MkdirAll(p.PIDs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := p.writeRecord("etcd", Record{PID: other.Process.Pid, Started: "another time"}); err != nil {
		t.Fatal(err)
	}
	if ran, err := p.Stop(t.Context(), "etcd", time.Second); err != nil || ran {
		t.Errorf("stop: ran %t, error %v", ran, err)
	}
	if _, err := startTime(other.Process.Pid); err != nil {
		t.Error("the other process was ended")
	}
}

func TestProcessStartIgnoresZombies(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("zombies are detected on Linux only")
	}
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := WaitUntil(t.Context(), 5*time.Second, func() bool {
		_, err := startTime(cmd.Process.Pid)
		return err != nil
	})
	if !ended { // not waited for yet, so it is a zombie
		t.Error("a zombie counts as running")
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestCleanEnvironment(t *testing.T) {
	got := CleanEnvironment([]string{"PATH=/bin", "HTTPS_PROXY=x", "no_proxy=y", "KUBECONFIG=z", "HOME=/root"})
	if want := []string{"PATH=/bin", "HOME=/root"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
