package process

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

// errNoProcess means that the process does not exist or is a zombie.
var errNoProcess = errors.New("no such process")

// bootID identifies the boot: start times are relative to it.
var bootID = sync.OnceValue(func() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(text) < 8 {
		return "unknown"
	}
	return string(text[:8])
})

// startTime returns a text that identifies a process among all processes with
// its pid.
func startTime(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", errNoProcess
	}
	state, ticks, err := parseStat(string(text))
	if err != nil {
		return "", err
	}
	// An orphaned daemon stays a zombie if no init process reaps it, for
	// example in a container without an init.
	if state == "Z" || state == "X" {
		return "", errNoProcess
	}
	return bootID() + "-" + ticks, nil
}

// parseStat returns the state and the start time of a line of /proc/*/stat. The
// second field, the command in parentheses, may contain any character, so
// fields are counted from the last parenthesis (proc(5)).
func parseStat(line string) (state, startTicks string, err error) {
	end := strings.LastIndexByte(line, ')')
	if end < 0 {
		return "", "", fmt.Errorf("unexpected process status %q", line)
	}
	fields := strings.Fields(line[end+1:])
	if len(fields) < 20 {
		return "", "", fmt.Errorf("unexpected process status %q", line)
	}
	return fields[0], fields[19], nil
}
