package plugin_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quoin-dev/quoin/internal/serving/logtest"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// clearScreen is what a terminal gets before each screen: the cursor moves to the top left, and the screen is cleared.
const clearScreen = "\x1b[H\x1b[2J"

// watching is a `get -w` that runs, and what it has printed.
type watching struct {
	name    string
	command *exec.Cmd
	stderr  strings.Builder
	stdout  logtest.Buffer
}

// watchCommand creates a deployment and returns a command that watches it.
func watchCommand(t *testing.T, name string) *watching {
	t.Helper()
	d := deployment(name, nil)
	if err := k8s.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k8s.Delete(context.Background(), d) }) // not in the lists of other tests
	wait(t, name)
	w := &watching{name: name, command: exec.CommandContext(t.Context(), program, "get", name, "-n", namespace, "-w")}
	w.command.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig())
	w.command.Stderr = &w.stderr
	return w
}

// start starts the command.
func (w *watching) start(t *testing.T) {
	t.Helper()
	if err := w.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.command.Process.Kill() }) // it has ended, unless the test failed
}

// version is the line of a screen with the version that a deployment runs, without that to which it is upgraded.
var version = regexp.MustCompile(`(?m)^Version: +(\S+)\r?$`)

// await waits until the last screen shows a deployment that is ready, and returns its version.
func (w *watching) await(t *testing.T, is func(version string) bool) {
	t.Helper()
	if err := apiclient.Eventually(func() error {
		text := w.stdout.String()
		last := text[max(0, strings.LastIndex(text, "Name: ")):]
		if shown := version.FindStringSubmatch(last); shown == nil || !is(shown[1]) || !strings.Contains(last, "Status:      Succeeded") {
			return fmt.Errorf("the last screen is\n%s", last)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// rollOut waits for the first screen, changes the version of the deployment, and waits for a screen with the new one.
func (w *watching) rollOut(t *testing.T) {
	t.Helper()
	w.await(t, func(version string) bool { return version != "1.2.3" })
	if r := quoin(t, nil, "pin", w.name, "1.2.3", "-n", namespace); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	w.await(t, func(version string) bool { return version == "1.2.3" })
}

// awaitEnd waits until the command has ended after Ctrl-C, which is no error.
func (w *watching) awaitEnd(t *testing.T) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- w.command.Wait() }()
	select {
	case err := <-ended:
		if err != nil || w.stderr.Len() > 0 {
			t.Errorf("%v, %q", err, &w.stderr)
		}
	case <-time.After(30 * time.Second):
		t.Error("the command still runs after Ctrl-C")
	}
}

// screens returns the number of screens in an output.
func screens(text string) int { return strings.Count(text, "Name:        watched") }

// TestWatchToFile: without a terminal, get -w prints a screen after each change, with an empty line between two, until it is
// interrupted.
func TestWatchToFile(t *testing.T) {
	w := watchCommand(t, "watched-file")
	w.command.Stdout = &w.stdout
	w.start(t)
	w.rollOut(t)
	if err := w.command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	w.awaitEnd(t)
	text := w.stdout.String()
	if n := screens(text); n < 2 || strings.Count(text, "\n\nName: ") != n-1 || !strings.HasPrefix(text, "Name: ") || strings.Contains(text, "\x1b") {
		t.Errorf("%d screens:\n%q", n, text)
	}
}

// TestWatchOnTerminal: on a terminal, get -w draws each screen over the one before, until the user presses Ctrl-C.
func TestWatchOnTerminal(t *testing.T) {
	w := watchCommand(t, "watched-terminal")
	user, process := pseudoTerminal(t)
	w.command.Stdin, w.command.Stdout = process, process
	// Ctrl-C is sent to the processes of the terminal.
	w.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	w.start(t)
	go func() { _, _ = io.Copy(&w.stdout, user) }() // until the terminal is closed
	w.rollOut(t)
	text := w.stdout.String()
	if n := screens(text); n < 2 || strings.Count(text, clearScreen+"Name: ") != n || strings.Count(text, "\x1b") != 2*n {
		t.Errorf("%d screens:\n%q", n, text)
	}
	if _, err := user.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	w.awaitEnd(t)
}

// pseudoTerminal returns the two ends of a terminal: that of the user, and that of the process.
func pseudoTerminal(t *testing.T) (user, process *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	process, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Close() })
	return user, process
}
