// Package portforward runs kubectl port-forward.
package portforward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// timeout limits the start.
const timeout = 30 * time.Second

// forwarding is the line of kubectl with the local port.
var forwarding = regexp.MustCompile(`^Forwarding from 127\.0\.0\.1:(\d+) `)

// Start forwards a free local port to a port of a Service, unless ctx ends before it has started. It runs until running
// ends, and is not interrupted by the terminal. connection are the flags of kubectl for the connection to the cluster.
// It returns the local port, and a function that ends kubectl and waits until it has ended.
func Start(ctx, running context.Context, namespace, service string, remote int, connection []string) (port int, stop func(), err error) {
	running, cancel := context.WithCancel(running)
	started := context.AfterFunc(ctx, cancel)
	arguments := append([]string{"port-forward", "--namespace=" + namespace, "service/" + service, ":" + strconv.Itoa(remote)}, connection...)
	command := exec.CommandContext(running, "kubectl", arguments...) //nolint:gosec // the user's own arguments, without a shell
	command.SysProcAttr = withoutInterrupts()
	var stderr strings.Builder
	command.Stderr = &stderr
	stdout, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		cancel()
		return 0, nil, fmt.Errorf("kubectl port-forward: %w", err)
	}
	found, ended := make(chan int, 1), make(chan struct{})
	go func() {
		defer close(ended)
		findPort(stdout, found)
		_ = command.Wait() // stderr has the reason
	}()
	stop = func() {
		cancel()
		<-ended
	}
	select {
	case port := <-found:
		if started() {
			return port, stop, nil
		}
		stop()
		return 0, nil, ctx.Err()
	case <-ended:
		cancel()
		if ctx.Err() != nil {
			return 0, nil, ctx.Err()
		}
		return 0, nil, errors.New("kubectl port-forward: " + strings.TrimSpace(stderr.String()))
	case <-time.After(timeout):
		stop()
		return 0, nil, fmt.Errorf("kubectl port-forward did not start within %s", timeout)
	}
}

// findPort reads the output of kubectl to its end, and sends the local port.
func findPort(output io.Reader, found chan<- int) {
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if match := forwarding.FindStringSubmatch(lines.Text()); match != nil && len(found) == 0 {
			port, _ := strconv.Atoi(match[1])
			found <- port
		}
	}
}
