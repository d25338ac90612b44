package process

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// start runs cat in a shell, until the test ends.
func start(t *testing.T, cat string) *Process {
	command := exec.CommandContext(t.Context(), "sh", "-c", `exec 3<&0; "$0" <&3 & echo " 127.0.0.1:1 "; wait`, cat)
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p, address, err := StartListener("shell", command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		p.Stop()
	})
	if address != "127.0.0.1:1" {
		t.Errorf("the address is %q", address)
	}
	return p
}

func TestFamilyIsTheProcessAndItsChildren(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("SKIPPED LOUDLY: this machine has no /proc")
	}
	const odd = "c) a (t"
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	linked := filepath.Join(t.TempDir(), odd)
	if err := os.Symlink(cat, linked); err != nil {
		t.Fatal(err)
	}
	p := start(t, linked)
	// The child executes cat shortly after the shell has printed its address.
	if err := Await(t.Context(), "cat", 1000, 10*time.Millisecond, func() error {
		shell, child := 0, 0
		for _, u := range Family(p.ID()) {
			switch {
			case u.ID == p.ID() && u.Parent == os.Getpid():
				shell++
			case u.Parent == p.ID() && u.Program == odd:
				child++
			}
		}
		if shell != 1 || child != 1 {
			return errors.New("the family is not complete")
		}
		return nil
	}); err != nil {
		t.Errorf("%v: %v", err, Family(p.ID()))
	}
}

func TestUsageAndMemoryOfAProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("SKIPPED LOUDLY: this machine has no /proc")
	}
	before := UsageOf(os.Getpid())
	if before.ID != os.Getpid() || before.Parent != os.Getppid() {
		t.Errorf("this process is %v, want the id %d and the parent %d", before, os.Getpid(), os.Getppid())
	}
	for start := time.Now(); UsageOf(os.Getpid()).Processor <= before.Processor; {
		if time.Since(start) > time.Minute {
			t.Fatal("the processor time does not increase")
		}
	}
	m, err := MemoryOf(os.Getpid())
	if err != nil || m.Resident < 1 || m.Resident > 10_000 || m.Peak < m.Resident || m.Anonymous < 1 || m.Anonymous > m.Resident {
		t.Errorf("memory of this process: %+v MiB, %v", m, err)
	}
	p := start(t, "cat")
	p.Stop()
	if u := UsageOf(p.ID()); u != (Usage{ID: p.ID()}) {
		t.Errorf("the usage of a process that has exited is %v", u)
	}
	if _, err := MemoryOf(p.ID()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("memory of a process that has exited: %v", err)
	}
}

func TestIdle(t *testing.T) {
	if _, err := os.Stat("/proc/stat"); err != nil {
		t.Skip("SKIPPED LOUDLY: this machine has no /proc")
	}
	if idle := Idle(); idle <= 0 {
		t.Errorf("the processors have been idle for %.2f s", idle)
	}
}

func TestIdleOf(t *testing.T) {
	for text, want := range map[string]float64{
		"cpu  100 1 50 800 20 3 4 0 0 0\ncpu0 50 0 25 400 10 0 0 0 0 0\n": 8.2,
		"cpu0 50 0 25 400 10 0 0\n":                                       0,
		"cpu 1 2 3 4\n":                                                   0,
		"":                                                                0,
	} {
		if got := idleOf(text); got != want {
			t.Errorf("%q: idle for %.2f s, want %.2f s", text, got, want)
		}
	}
}

func TestLogTail(t *testing.T) {
	dir := t.TempDir()
	p, err := Start(t.Context(), "printer", dir, "sh", "-c", "echo out; echo err >&2")
	if err != nil {
		t.Fatal(err)
	}
	_ = p.command.Wait()
	if got := p.LogTail(); got != "--- printer\nout\nerr\n" {
		t.Errorf("the end of the log is %q", got)
	}
	if _, err := Start(t.Context(), "nothing", dir, filepath.Join(dir, "nothing")); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "start nothing: ") {
		t.Errorf("a program that does not exist: %v", err)
	}
	p = nil
	p.Stop()
	if got := p.LogTail(); got != "" {
		t.Errorf("the log of no process is %q", got)
	}
}

func TestAwaitReturnsTheLastError(t *testing.T) {
	tries, broken := 0, errors.New("broken")
	try := func() error {
		if tries++; tries < 3 {
			return broken
		}
		return nil
	}
	if err := Await(t.Context(), "server", 3, time.Millisecond, try); err != nil || tries != 3 {
		t.Errorf("%d tries: %v", tries, err)
	}
	tries = 0
	if err := Await(t.Context(), "server", 2, time.Millisecond, try); !errors.Is(err, broken) || err.Error() != "server does not answer: broken" {
		t.Errorf("%d tries: %v", tries, err)
	}
}

func TestCheckFlagsNamesTheFlag(t *testing.T) {
	before := flag.CommandLine
	t.Cleanup(func() { flag.CommandLine = before })
	flag.CommandLine = flag.NewFlagSet("bench", flag.ContinueOnError)
	flag.Int("callers", 4, "")
	flag.Int("rounds", 0, "")
	for _, test := range []struct {
		minimum map[string]int
		want    string
	}{
		{map[string]int{"callers": 4, "rounds": 0}, ""},
		{map[string]int{"callers": 5}, "-callers is 4, must be 5 or more"},
		{map[string]int{"callers": 1, "rounds": 1}, "-rounds is 0, must be 1 or more"},
	} {
		got := ""
		if err := CheckFlags(test.minimum); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%v: %q, want %q", test.minimum, got, test.want)
		}
	}
	if err := flag.CommandLine.Parse([]string{"-callers", "5", "more"}); err != nil {
		t.Fatal(err)
	}
	if err := CheckFlags(map[string]int{"callers": 5}); err == nil || err.Error() != `unexpected argument "more"` {
		t.Errorf("an argument after the flags: %v", err)
	}
}
