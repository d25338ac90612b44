package main

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

func newTestProcesses(t *testing.T) processes {
	folder := t.TempDir()
	return processes{logs: filepath.Join(folder, "logs"), pids: filepath.Join(folder, "pids")}
}

func TestStartAndStop(t *testing.T) {
	p := newTestProcesses(t)
	if _, err := p.start(daemon{name: "sleeper", path: "/bin/sh", args: []string{"-c", "echo hello; exec sleep 60"}}); err != nil {
		t.Fatal(err)
	}
	if !p.running("sleeper") {
		t.Fatal("not running after start")
	}
	if !waitUntil(t.Context(), 5*time.Second, func() bool { return tail(p.logPath("sleeper"), 1) == "hello" }) {
		t.Errorf("log is %q", tail(p.logPath("sleeper"), 5))
	}
	ran, err := p.stop(t.Context(), "sleeper", time.Second)
	if err != nil || !ran {
		t.Fatalf("stop: ran %t, error %v", ran, err)
	}
	if p.running("sleeper") || len(p.names()) != 0 {
		t.Error("still there after stop")
	}
	if ran, err = p.stop(t.Context(), "sleeper", time.Second); err != nil || ran {
		t.Errorf("second stop: ran %t, error %v", ran, err)
	}
}

func TestStopKillsWhatIgnoresTerm(t *testing.T) {
	p := newTestProcesses(t)
	script := `trap "" TERM; echo ready; while :; do sleep 0.1; done`
	if _, err := p.start(daemon{name: "stubborn", path: "/bin/sh", args: []string{"-c", script}}); err != nil {
		t.Fatal(err)
	}
	waitUntil(t.Context(), 5*time.Second, func() bool { return tail(p.logPath("stubborn"), 1) == "ready" })
	if ran, err := p.stop(t.Context(), "stubborn", 200*time.Millisecond); err != nil || !ran {
		t.Fatalf("stop: ran %t, error %v", ran, err)
	}
	if p.running("stubborn") {
		t.Error("still running")
	}
}

func TestStopAsksWithTheDaemonsOwnSignal(t *testing.T) {
	p := newTestProcesses(t)
	script := `trap "echo asked; exit" INT; trap "" TERM; echo ready; while :; do sleep 0.1; done`
	if _, err := p.start(daemon{name: "patient", path: "/bin/sh", args: []string{"-c", script}, folder: t.TempDir(), stop: syscall.SIGINT}); err != nil {
		t.Fatal(err)
	}
	if !waitUntil(t.Context(), 5*time.Second, func() bool { return tail(p.logPath("patient"), 1) == "ready" }) {
		t.Fatal("not ready")
	}
	if ran, err := p.stop(t.Context(), "patient", 5*time.Second); err != nil || !ran {
		t.Fatalf("stop: ran %t, error %v", ran, err)
	}
	if got := tail(p.logPath("patient"), 1); got != "asked" {
		t.Errorf("the log ends with %q", got)
	}
}

// A number that the kernel has given to another process must not be signalled.
func TestStopSparesAStranger(t *testing.T) {
	stranger := exec.Command("sleep", "60")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = stranger.Process.Kill(), stranger.Wait() }()
	p := newTestProcesses(t)
	if err := os.MkdirAll(p.pids, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := p.writeRecord("etcd", processRecord{PID: stranger.Process.Pid, Started: "another time"}); err != nil {
		t.Fatal(err)
	}
	if ran, err := p.stop(t.Context(), "etcd", time.Second); err != nil || ran {
		t.Errorf("stop: ran %t, error %v", ran, err)
	}
	if _, err := processStart(stranger.Process.Pid); err != nil {
		t.Error("the stranger was ended")
	}
}

func TestProcessStartIgnoresZombies(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("zombies are told apart on Linux only")
	}
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := waitUntil(t.Context(), 5*time.Second, func() bool {
		_, err := processStart(cmd.Process.Pid)
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
	got := cleanEnvironment([]string{"PATH=/bin", "HTTPS_PROXY=x", "no_proxy=y", "KUBECONFIG=z", "HOME=/root"})
	if want := []string{"PATH=/bin", "HOME=/root"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
