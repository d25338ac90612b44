//go:build unix

package portforward

import "syscall"

// withoutInterrupts returns the attributes of a process that a terminal does not interrupt: Ctrl-C is sent to the process
// group of the plugin.
func withoutInterrupts() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
