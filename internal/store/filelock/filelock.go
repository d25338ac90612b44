// Package filelock locks files between processes.
package filelock

import "errors"

// ErrLocked is the error of Lock for a file that another process has locked.
var ErrLocked = errors.New("another process has locked the file")
