// Package freeport reserves addresses for the processes of tests.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// The range is below the ephemeral ports of Linux (32768 and higher) and outside the ports of localcluster and of
// Kubernetes.
const (
	first = 10300
	count = 1700
)

// reserved are the lock files of the ports. They are closed when the process ends.
var reserved struct {
	sync.Mutex
	files []*os.File
}

// Address returns a loopback address that is reserved for the processes of a test until the test process ends. A server
// may be killed and started on it again: no connection has the port as its own, and no other test process gets it.
func Address() (string, error) { return AddressAt("127.0.0.1") }

// AddressAt is like Address, with another IP address of this machine.
func AddressAt(ip string) (string, error) {
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("quoin-ports-%d", os.Getuid()))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	start := rand.IntN(count)
	for i := range count {
		port := strconv.Itoa(first + (start+i)%count)
		address := net.JoinHostPort(ip, port)
		free, err := reserve(filepath.Join(folder, port), address)
		if err != nil {
			return "", err
		}
		if free {
			return address, nil
		}
	}
	return "", fmt.Errorf("no free port from %d to %d", first, first+count-1)
}

// reserve locks a file for this process, unless another one has locked it or the address is in use.
func reserve(path, address string) (bool, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return false, file.Close()
		}
		return false, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	listener, err := net.Listen("tcp", address)
	if err != nil { // in use by another program
		return false, file.Close()
	}
	reserved.Lock()
	defer reserved.Unlock()
	reserved.files = append(reserved.files, file)
	return true, listener.Close()
}
