//go:build unix

package store

import (
	"errors"
	"os"
	"syscall"
)

// flock locks a file; errLocked if another process has locked it.
func flock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
