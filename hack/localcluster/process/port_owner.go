package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// PortOwner describes the process that listens on a TCP port, as far as /proc
// is readable for this user.
func PortOwner(port int) string {
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for _, inode := range listeningInodes(string(text), port) {
			inodes["socket:["+inode+"]"] = true
		}
	}
	if pid := socketOwner(inodes); pid != "" {
		command, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline")) // if unreadable, only the pid is shown
		text := strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))
		return fmt.Sprintf("process %s (%.120s)", pid, text)
	}
	return "another process"
}

// listeningInodes returns the inodes of the sockets that listen on port, from a
// table in the format of /proc/net/tcp: the second column is the local address
// with the port in hexadecimal, the fourth the state (0A is LISTEN), the tenth
// the inode.
func listeningInodes(table string, port int) []string {
	var inodes []string
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[3] != "0A" {
			continue
		}
		_, hexPort, _ := strings.Cut(fields[1], ":")
		if number, err := strconv.ParseUint(hexPort, 16, 16); err == nil && int(number) == port {
			inodes = append(inodes, fields[9])
		}
	}
	return inodes
}

// socketOwner returns the pid of a process that has one of the sockets open.
func socketOwner(sockets map[string]bool) string {
	if len(sockets) == 0 {
		return ""
	}
	descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/*") // without processes of other users
	for _, descriptor := range descriptors {
		if target, err := os.Readlink(descriptor); err == nil && sockets[target] {
			return strings.Split(descriptor, "/")[2]
		}
	}
	return ""
}
