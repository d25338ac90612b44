// Package command runs programs for the journeys.
package command

import (
	"fmt"
	"io"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
)

// Output runs a command and returns its stdout. Its stderr goes to the log of the test.
func Output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, io.MultiWriter(GinkgoWriter, &stderr)
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
