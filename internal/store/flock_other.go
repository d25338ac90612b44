//go:build !unix

package store

import (
	"errors"
	"os"
)

// flock is not supported: the binary is only the kubectl plugin on this platform.
func flock(*os.File) error { return errors.ErrUnsupported }
