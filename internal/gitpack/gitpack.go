// Package gitpack reads and writes packs of Git objects within limits, and finds the objects that a
// client lacks: gitformat-pack(5).
//
//	history.go   the commits and objects that a client lacks
//	unpack.go    reading a pack as it arrives
//	write.go     writing a pack of stored objects
package gitpack

import "fmt"

// Rejection is the reason for which a pack or a request is rejected, for its sender.
type Rejection string

// Error implements error.
func (r Rejection) Error() string { return string(r) }

func rejectf(format string, args ...any) error { return Rejection(fmt.Sprintf(format, args...)) }
