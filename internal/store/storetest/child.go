package storetest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// Main implements TestMain. children are functions that run in a child process: each by the name of
// the environment variable with its argument, the URL of a database. Without such a variable, Main
// runs the tests.
func Main(m *testing.M, children map[string]func(url string) error) {
	for variable, run := range children {
		url := os.Getenv(variable)
		if url == "" {
			continue
		}
		if err := run(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// KillChild runs the function of an environment variable (see Main) in a child process. It calls
// kill with each line that the child writes to standard output, and kills the child when kill
// returns true. The lines that the child wrote before it was killed are still read. The test fails
// if the child exits by itself.
func KillChild(t *testing.T, variable, url string, kill func(line string) bool) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), variable+"="+url)
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if kill(lines.Text()) {
			killed = true
			_ = child.Process.Kill() // it may have exited
		}
	}
	if err := child.Wait(); err == nil || !killed {
		t.Fatalf("the child exited before it was killed: %v", err)
	}
}
