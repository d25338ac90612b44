//go:build !linux

package processors

// Preemptible does nothing: it is for Linux.
func Preemptible() (end func()) { return func() {} }
