package binaries

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quoin-dev/quoin/hack/localcluster/process"
	"github.com/quoin-dev/quoin/hack/localcluster/progress"
)

// Files are files that are made once for all clusters on this machine.
type Files struct {
	Kind  string // folder below the cache
	Hash  string // of what they are made from
	Title string // of the progress
	// Prepare is called before Make, under the lock; nil for nothing.
	Prepare func() error
	// Make writes the files to target. work is an empty folder, which is removed.
	Make func(work, target string) error
}

// Cached returns the folder of files, and makes them unless they are in the
// cache. The folder is created atomically.
func Cached(ctx context.Context, f Files) (string, error) {
	cache, err := CacheDirectory()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, f.Kind)
	final := filepath.Join(cache, f.Hash)
	if isFolder(final) {
		return final, nil
	}
	unlock, err := process.Lock(ctx, filepath.Join(cache, "lock"), "another localcluster works on "+cache+": waiting for it")
	if err != nil {
		return "", err
	}
	defer unlock()
	// Checked again under the lock: another process may have made them.
	if isFolder(final) {
		return final, nil
	}
	if f.Prepare != nil {
		if err := f.Prepare(); err != nil {
			return "", err
		}
	}
	// Under the lock, these can only be remains of a killed process.
	left, _ := filepath.Glob(filepath.Join(cache, "partial-*")) // Glob fails only for malformed patterns
	for _, folder := range left {
		if err := os.RemoveAll(folder); err != nil {
			return "", err
		}
	}
	partial := filepath.Join(cache, fmt.Sprintf("partial-%d", os.Getpid()))
	defer os.RemoveAll(partial)
	work, target := filepath.Join(partial, "work"), filepath.Join(partial, "target")
	for _, folder := range []string{work, target} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return "", err
		}
	}
	return final, progress.Step(f.Title, func() error {
		if err := f.Make(work, target); err != nil {
			return err
		}
		return os.Rename(target, final)
	})
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
