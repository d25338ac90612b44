package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

const (
	maxNameLength = 255 // bytes; Linux's NAME_MAX
	maxDepth      = 100 // nested folders
	// maxTreeSize bounds the tree object of a folder, bytes.
	maxTreeSize = 16 << 20
)

// checkout writes one folder of a commit.
type checkout struct {
	*fetch
	ctx     context.Context
	store   *filesystem.Storage
	root    plumbing.Hash // the commit's tree
	path    []string      // the components of the folder that is written
	out     *os.Root      // keeps every write inside the new folder
	omit    func(name string) bool
	result  FetchResult
	folders int
}

// checkOut writes the sub folder to the workspace.
func (f *fetch) checkOut(ctx context.Context, store *filesystem.Storage, work *workspace) (FetchResult, error) {
	commit, err := object.GetCommit(store, f.commit)
	if err != nil { // the hash may be that of a tag or a tree
		return FetchResult{}, f.remote.fail(ErrCommitNotFound, "%s is not a commit", f.commit)
	}
	c := &checkout{fetch: f, ctx: ctx, store: store, root: commit.TreeHash, path: f.path}
	tree, err := c.start()
	if err != nil {
		return FetchResult{}, err
	}
	project := f.isProject(tree)
	if !project {
		c.omit = f.Omit
	}
	if c.out, err = f.openOutput(work.tree, project); err != nil {
		return FetchResult{}, f.localError(err)
	}
	defer c.out.Close()
	if err := c.folder(tree, nil); err != nil {
		return FetchResult{}, err
	}
	return c.result, nil
}

func (f *fetch) localError(err error) error {
	return localError(fmt.Sprintf("target %q", f.Dir), err)
}

// openOutput opens the folder that a project or a model is written to, and creates the nested one.
func (f *fetch) openOutput(folder string, project bool) (*os.Root, error) {
	nested := filepath.Join(folder, f.Nested)
	if f.Nested != "" {
		err := os.Mkdir(nested, 0o755)
		if err == nil {
			err = os.Chmod(nested, 0o755) // independent of the umask
		}
		if err != nil {
			return nil, err
		}
	}
	if project {
		return os.OpenRoot(folder)
	}
	return os.OpenRoot(nested)
}

// isProject reports whether a tree has the nested folder with a file of a project beside it.
func (f *fetch) isProject(tree *object.Tree) bool {
	nested, ok := find(tree, f.Nested)
	isIn := func(name string) bool { _, found := find(tree, name); return found }
	return ok && nested.Mode == filemode.Dir && slices.ContainsFunc(f.ProjectFiles, isIn)
}

// start returns the tree of the sub folder; it does not follow symbolic links.
func (c *checkout) start() (*object.Tree, error) {
	tree, err := c.tree(c.root)
	if err != nil {
		return nil, err
	}
	for _, name := range c.path {
		entry, ok := find(tree, name)
		if !ok {
			return nil, c.remote.fail(ErrPathNotFound, "path %q not found in commit %s", c.displayPath(), c.commit)
		}
		if entry.Mode != filemode.Dir {
			return nil, c.remote.fail(ErrPathNotFound, "path %q is not a folder in commit %s", c.displayPath(), c.commit)
		}
		if tree, err = c.tree(entry.Hash); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

func find(tree *object.Tree, name string) (object.TreeEntry, bool) {
	for _, entry := range tree.Entries {
		if entry.Name == name {
			return entry, true
		}
	}
	return object.TreeEntry{}, false
}

func (c *checkout) tree(hash plumbing.Hash) (*object.Tree, error) {
	size, err := c.store.EncodedObjectSize(hash)
	if err != nil {
		return nil, c.damaged()
	}
	if size > maxTreeSize {
		return nil, c.remote.fail(ErrTooLarge, "the tree object of a folder is larger than %d bytes", maxTreeSize)
	}
	tree, err := object.GetTree(c.store, hash)
	if err != nil {
		return nil, c.damaged()
	}
	return tree, nil
}

func (c *checkout) damaged() error {
	if c.ctx.Err() != nil {
		return c.remote.transportError(c.ctx, c.ctx.Err())
	}
	return c.remote.fail(ErrUnreachable, "the download is not complete")
}

// folder writes the entries of a folder; dir is its path below the sub folder.
func (c *checkout) folder(tree *object.Tree, dir []string) error {
	c.folders++
	if c.folders > c.MaxFiles {
		return c.remote.fail(ErrTooLarge, "more than %d folders", c.MaxFiles)
	}
	if len(dir) > maxDepth {
		return c.remote.fail(ErrTooLarge, "folders are nested more than %d levels deep", maxDepth)
	}
	for _, entry := range tree.Entries {
		if err := c.ctx.Err(); err != nil {
			return c.remote.transportError(c.ctx, err)
		}
		if !validName(entry.Name) {
			return c.remote.fail(ErrInvalidTree, "%q in folder %q is not a file name", entry.Name, "/"+path.Join(dir...))
		}
		if isHidden(entry.Name) {
			continue
		}
		if err := c.entry(entry, append(dir[:len(dir):len(dir)], entry.Name)); err != nil {
			return err
		}
	}
	return nil
}

func (c *checkout) entry(entry object.TreeEntry, target []string) error {
	switch entry.Mode {
	case filemode.Dir:
		tree, err := c.tree(entry.Hash)
		if err != nil {
			return err
		}
		return c.folder(tree, target)
	case filemode.Submodule:
		return nil
	case filemode.Symlink:
		file, err := c.resolve(entry, target)
		if err != nil {
			return err
		}
		return c.file(file.Hash, target)
	case filemode.Regular, filemode.Executable, filemode.Deprecated:
		return c.file(entry.Hash, target)
	}
	return c.remote.fail(ErrInvalidTree, "%q has an unknown type", path.Join(target...))
}

// file writes a file after checking the limits.
func (c *checkout) file(hash plumbing.Hash, target []string) error {
	if c.omit != nil && c.omit(path.Join(target...)) {
		return nil
	}
	blob, err := object.GetBlob(c.store, hash)
	if err != nil {
		return c.damaged()
	}
	if c.result.Files++; c.result.Files > c.MaxFiles {
		return c.remote.fail(ErrTooLarge, "more than %d files in path %q", c.MaxFiles, c.displayPath())
	}
	if c.result.Bytes += blob.Size; c.result.Bytes > c.MaxBytes {
		return c.remote.fail(ErrTooLarge, "more than %d bytes in path %q", c.MaxBytes, c.displayPath())
	}
	if err := c.makeFolder(target[:len(target)-1]); err != nil {
		return err
	}
	return c.write(blob, path.Join(target...))
}

// makeFolder creates a folder and its parents, independent of the umask.
func (c *checkout) makeFolder(dir []string) error {
	for i := range dir {
		name := path.Join(dir[:i+1]...)
		err := c.out.Mkdir(name, 0o755)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err == nil {
			err = c.out.Chmod(name, 0o755)
		}
		if err != nil {
			return c.localError(err)
		}
	}
	return nil
}

func (c *checkout) write(blob *object.Blob, name string) error {
	content, err := blob.Reader()
	if err != nil {
		return c.damaged()
	}
	defer content.Close()
	file, err := c.out.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) || errors.Is(err, syscall.ENOTDIR) { // a file and a folder with the same name
		return c.remote.fail(ErrInvalidTree, "%q is a duplicate entry of its folder", name)
	}
	if err != nil {
		return c.localError(err)
	}
	n, err := io.Copy(localWriter{file}, io.LimitReader(contextReader{c.ctx, content}, blob.Size+1))
	err = errors.Join(err, failLocally(file.Chmod(0o644)), failLocally(file.Close()))
	var local *localFailure
	switch {
	case errors.As(err, &local):
		return c.localError(local.err)
	case err != nil, n != blob.Size:
		return c.damaged()
	}
	return nil
}
