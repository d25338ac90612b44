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
// system: the new folder is built in it and renamed from it.
type workspace struct {
	target string
	dir    string
	tree   string // the new folder
}

// newWorkspace makes one, after removing what a killed fetch left.
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
	if err := os.Chmod(w.tree, 0o755); err != nil { // whatever the umask
		w.remove()
		return fail(err)
	}
	return w, nil
}

// checkTarget refuses what a rename must not replace.
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

// receive writes a pack into the workspace.
func (w *workspace) receive(ctx context.Context, r io.Reader, limit int64) (*pack, error) {
	return receivePack(ctx, filepath.Join(w.dir, "git"), r, limit)
}

// place moves the new folder to the target. Between the two renames there is
// no target at all, which is for a fetch that runs again to see.
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

// remove deletes the workspace; what cannot be deleted is left for the next
// fetch.
func (w *workspace) remove() { _ = os.RemoveAll(w.dir) }
