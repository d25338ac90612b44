//go:build !unix

package filelock

import (
	"errors"
	"os"
)

// Lock is not supported: the binary is only the kubectl plugin on this platform.
func Lock(*os.File) error { return errors.ErrUnsupported }
