package process

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

// errNoProcess says that there is no such process, or that it has ended and
// only waits to be collected by its parent.
var errNoProcess = errors.New("no such process")

// bootID tells boots apart: start times count from boot.
var bootID = sync.OnceValue(func() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(text) < 8 {
		return "unknown"
	}
	return string(text[:8])
})

// startTime returns a text that is the same for the life of a process and
// different for any other process that gets its number.
func startTime(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", errNoProcess
	}
	state, ticks, err := parseStat(string(text))
	if err != nil {
		return "", err
	}
	// A daemon whose parent has ended stays a zombie where nothing collects
	// orphans (a container without an init).
	if state == "Z" || state == "X" {
		return "", errNoProcess
	}
	return bootID() + "-" + ticks, nil
}

// parseStat returns the state and the start time of a line of /proc/*/stat.
// The second field is the command in parentheses and may hold any character,
// so fields are counted from the last parenthesis (proc(5)).
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
