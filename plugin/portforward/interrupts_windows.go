//go:build windows

package portforward

import "syscall"

// withoutInterrupts returns the attributes of a process that a console does not interrupt.
func withoutInterrupts() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
