package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/progress"
)

// ErrLocked means that another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// TryLock acquires the lock file at path or returns ErrLocked. The kernel
// releases the lock when the process ends, so a lock is never stale.
func TryLock(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { file.Close() }, nil
}

// Lock acquires the lock file at path. It prints the message waiting once if it
// has to wait.
func Lock(ctx context.Context, path, waiting string) (unlock func(), err error) {
	for printed := false; ; {
		unlock, err := TryLock(path)
		if !errors.Is(err, ErrLocked) {
			return unlock, err
		}
		if !printed {
			progress.Infof("%s", waiting)
			printed = true
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
