package plugin

import (
	"bytes"
	"context"
	"testing"
	"time"
)

// terminal is a standard input in which the user presses Ctrl-C instead of a text: a read does not end.
type terminal struct {
	interrupt context.CancelFunc
	closed    <-chan struct{}
}

func (t terminal) Read([]byte) (int, error) {
	t.interrupt()
	<-t.closed
	return 0, context.Canceled
}

// Ctrl-C ends curl while it reads the body from a terminal.
func TestCurlIsInterruptedWhileItReads(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	t.Setenv("HOME", t.TempDir())
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	closed := make(chan struct{})
	defer close(closed)
	var stdout, stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, []string{"curl", "/api/v1/deployments", "-d", "@-", "-s", "https://127.0.0.1:1"}, Options{
			Version: "v1.0.0", Stdin: terminal{interrupt, closed}, Stdout: &stdout, Stderr: &stderr,
		})
	}()
	select {
	case code := <-ended:
		if code != exitFailed || stdout.String() != "" || stderr.String() != "error: interrupted\n" {
			t.Errorf("%d, %q, %q", code, &stdout, &stderr)
		}
	case <-time.After(time.Minute):
		t.Fatal("curl still reads")
	}
}
