package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// workspace is a hidden temporary folder next to the target, on the same file
// system, so that the new folder can be renamed to the target.
type workspace struct {
	target string
	dir    string
	tree   string // the new folder
}

// newWorkspace creates a workspace, after removing those of killed fetches.
func newWorkspace(target string) (*workspace, error) {
	parent, prefix := filepath.Dir(target), "."+filepath.Base(target)+".fetch-"
	fail := func(err error) (*workspace, error) {
		return nil, localError(fmt.Sprintf("target %q", target), err)
	}
	if err := checkTarget(target); err != nil {
		return fail(err)
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fail(err)
	}
	if err := removeStale(parent, prefix); err != nil {
		return fail(err)
	}
	dir, err := os.MkdirTemp(parent, prefix+"*")
	if err != nil {
		return fail(err)
	}
	w := &workspace{target: target, dir: dir, tree: filepath.Join(dir, "tree")}
	if err := os.Mkdir(w.tree, 0o755); err != nil {
		w.remove()
		return fail(err)
	}
	if err := os.Chmod(w.tree, 0o755); err != nil { // independent of the umask
		w.remove()
		return fail(err)
	}
	return w, nil
}

// checkTarget returns an error if the target exists and is not a folder.
func checkTarget(target string) error {
	info, err := os.Lstat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return errors.New("exists and is not a folder")
	}
	return nil
}

func removeStale(parent, prefix string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), prefix) {
			if err := os.RemoveAll(filepath.Join(parent, entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// receive writes a pack to the workspace.
func (w *workspace) receive(ctx context.Context, r io.Reader, limit int64) (*pack, error) {
	return storePack(ctx, filepath.Join(w.dir, "git"), r, limit)
}

// place renames the new folder to the target. A crash between the two renames
// leaves no target; the next fetch creates it.
func (w *workspace) place() error {
	old := filepath.Join(w.dir, "old")
	err := os.Rename(w.target, old)
	replaced := err == nil
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = os.Rename(w.tree, w.target)
	}
	if err != nil {
		if replaced {
			err = errors.Join(err, os.Rename(old, w.target))
		}
		return localError(fmt.Sprintf("target %q", w.target), err)
	}
	return nil
}

// remove deletes the workspace, best-effort: the next fetch removes the rest.
func (w *workspace) remove() { _ = os.RemoveAll(w.dir) }
