//go:build unix

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Lock locks a file until it is closed; the error is ErrLocked if another process has locked it.
func Lock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
