//go:build !linux

package process

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
)

// errNoProcess means that the process does not exist.
var errNoProcess = errors.New("no such process")

// startTime returns a text that identifies a process among all processes with
// its pid.
func startTime(pid int) (string, error) {
	output, err := exec.Command("ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output()
	started := strings.TrimSpace(string(output))
	if err != nil || started == "" {
		return "", errNoProcess
	}
	return started, nil
}
