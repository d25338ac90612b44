package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ticks is the number of clock ticks in a second (USER_HZ), in which /proc counts.
const ticks = 100

// Usage is what /proc reports of a process.
type Usage struct {
	ID, Parent int
	Program    string
	// Processor is the processor time in seconds, user and kernel mode.
	Processor float64
}

// UsageOf reads /proc/<id>/stat. It returns zeroes if the process has exited or there is no /proc.
func UsageOf(id int) Usage {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return Usage{ID: id}
	}
	// The name of the program, in parentheses, may contain spaces and parentheses. After it come the
	// state, the parent and, as the 12th and 13th fields, the time in user and in kernel mode.
	first, last := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	fields := strings.Fields(string(text[last+1:]))
	if first < 0 || last < first || len(fields) < 13 {
		return Usage{ID: id}
	}
	parent, _ := strconv.Atoi(fields[1])
	user, _ := strconv.ParseFloat(fields[11], 64)
	kernel, _ := strconv.ParseFloat(fields[12], 64)
	return Usage{id, parent, string(text[first+1 : last]), (user + kernel) / ticks}
}

// Idle returns the time in seconds that all processors of the machine together have been idle; 0 if there is no /proc.
func Idle() float64 {
	text, _ := os.ReadFile("/proc/stat")
	return idleOf(string(text))
}

// idleOf returns the idle time in the text of /proc/stat.
func idleOf(text string) float64 {
	first, _, _ := strings.Cut(text, "\n")
	// The time in user mode, of nice processes, in kernel mode, idle, and waiting for disks.
	fields := strings.Fields(first)
	if len(fields) < 6 || fields[0] != "cpu" {
		return 0
	}
	idle, _ := strconv.ParseFloat(fields[4], 64)
	waiting, _ := strconv.ParseFloat(fields[5], 64)
	return (idle + waiting) / ticks
}

// Family returns the usage of a process and its children; nothing if there is no /proc.
func Family(id int) []Usage {
	var family []Usage
	all, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, file := range all {
		member, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))) // digits, by the pattern
		if u := UsageOf(member); u.ID == id || u.Parent == id {
			family = append(family, u)
		}
	}
	return family
}

// Memory is the resident memory of a process in MiB: the current one, and the highest since it started. Anonymous is the part of the
// current one without the pages of files, such as the program itself, which the kernel reads again.
type Memory struct{ Resident, Peak, Anonymous float64 }

// MemoryOf reads /proc/<id>/status. It needs Linux.
func MemoryOf(id int) (Memory, error) {
	m := Memory{}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", id))
	if err != nil {
		return m, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseFloat(fields[1], 64) // zero for lines without a number
		switch fields[0] {
		case "VmRSS:":
			m.Resident = kib / 1024
		case "VmHWM:":
			m.Peak = kib / 1024
		case "RssAnon:":
			m.Anonymous = kib / 1024
		}
	}
	return m, nil
}
