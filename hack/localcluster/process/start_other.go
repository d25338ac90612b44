//go:build !linux

package process

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
)

// errNoProcess says that there is no such process.
var errNoProcess = errors.New("no such process")

// startTime returns a text that is the same for the life of a process and
// different for any other process that gets its number.
func startTime(pid int) (string, error) {
	output, err := exec.Command("ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output()
	started := strings.TrimSpace(string(output))
	if err != nil || started == "" {
		return "", errNoProcess
	}
	return started, nil
}
