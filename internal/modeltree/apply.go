package modeltree

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/fold"
)

// Edit sets the content of a file, or deletes it if Blob is zero.
type Edit struct {
	Path string
	Blob plumbing.Hash
}

// Apply returns the tree of a commit after edits; a zero commit has no files. Files keep their mode;
// new ones, and those in the place of a symbolic link, are regular. Deleting a file that does not
// exist has no effect, and folders are deleted with their last file.
//
// It rejects paths that CheckPath rejects, a path that occurs twice, a file in the place of a folder
// and the reverse, new names that differ from others in a folder only in case, and results beyond
// the limits.
func Apply(s storer.EncodedObjectStorer, commit plumbing.Hash, edits []Edit) (plumbing.Hash, error) {
	changed, err := changesOf(edits)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	var before plumbing.Hash
	if !commit.IsZero() {
		if before, err = TreeOf(s, commit); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	after, err := changed.apply(s, before)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if after.IsZero() {
		return writeTree(s, nil, before)
	}
	if slices.ContainsFunc(edits, func(e Edit) bool { return !e.Blob.IsZero() }) {
		err = checkLimits(s, after)
	}
	return after, err
}

// changes are the edits in a folder.
type changes struct {
	path    string // of the folder, with a slash at the end
	files   map[string]plumbing.Hash
	folders map[string]*changes
}

// changesOf returns edits by folder.
func changesOf(edits []Edit) (*changes, error) {
	root := &changes{}
	for _, e := range edits {
		if err := CheckPath(e.Path); err != nil {
			return nil, err
		}
		in := root
		names := strings.Split(e.Path, "/")
		last := len(names) - 1
		for _, name := range names[:last] {
			if in.folders[name] == nil {
				if in.folders == nil {
					in.folders = map[string]*changes{}
				}
				in.folders[name] = &changes{path: in.path + name + "/"}
			}
			in = in.folders[name]
		}
		if _, twice := in.files[names[last]]; twice {
			return nil, content.Errorf(content.Invalid, "path %s: it occurs twice", quote(e.Path))
		}
		if in.files == nil {
			in.files = map[string]plumbing.Hash{}
		}
		in.files[names[last]] = e.Blob
	}
	return root, nil
}

// apply returns the tree after the changes, or the zero hash if it has no entries.
func (c *changes) apply(s storer.EncodedObjectStorer, before plumbing.Hash) (plumbing.Hash, error) {
	entries, err := readTree(s, before)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	at := make(map[string]entry, len(entries)+len(c.files)+len(c.folders))
	for _, e := range entries {
		at[e.name] = e
	}
	var added []string
	// Deletions first, so that a file and a folder can change places.
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		if c.files[name].IsZero() {
			if err := c.delete(at, name); err != nil {
				return plumbing.ZeroHash, err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.folders)) {
		if err := c.descend(s, at, name, &added); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		if err := c.set(at, name, &added); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	if len(at) == 0 {
		return plumbing.ZeroHash, nil
	}
	if err := c.checkCase(at, added); err != nil {
		return plumbing.ZeroHash, err
	}
	return writeTree(s, slices.Collect(maps.Values(at)), before)
}

// delete deletes a file.
func (c *changes) delete(at map[string]entry, name string) error {
	// With changes of files in the folder, those of the name have to be about a file.
	if at[name].mode == filemode.Dir && c.folders[name] == nil {
		return content.Errorf(content.Invalid, "path %s: it is a folder", quote(c.path+name))
	}
	if at[name].mode != filemode.Dir {
		delete(at, name)
	}
	return nil
}

// descend applies the changes of a folder.
func (c *changes) descend(s storer.EncodedObjectStorer, at map[string]entry, name string, added *[]string) error {
	before, exists := at[name]
	if exists && before.mode != filemode.Dir {
		if c.folders[name].deletesOnly() {
			return nil
		}
		return content.Errorf(content.Invalid, "path %s: it is a file, not a folder", quote(c.path+name))
	}
	tree, err := c.folders[name].apply(s, before.hash)
	if err != nil {
		return err
	}
	if tree.IsZero() {
		delete(at, name)
		return nil
	}
	if !exists {
		*added = append(*added, name)
	}
	at[name] = entry{name, filemode.Dir, tree}
	return nil
}

// deletesOnly reports whether the changes only delete files.
func (c *changes) deletesOnly() bool {
	for _, blob := range c.files {
		if !blob.IsZero() {
			return false
		}
	}
	for _, in := range c.folders {
		if !in.deletesOnly() {
			return false
		}
	}
	return true
}

// set sets the content of a file.
func (c *changes) set(at map[string]entry, name string, added *[]string) error {
	blob := c.files[name]
	if blob.IsZero() {
		return nil
	}
	e, exists := at[name]
	switch {
	case !exists:
		*added = append(*added, name)
	case e.mode == filemode.Dir:
		return content.Errorf(content.Invalid, "path %s: it is a folder", quote(c.path+name))
	}
	if e.mode != filemode.Executable {
		e.mode = filemode.Regular
	}
	at[name] = entry{name, e.mode, blob}
	return nil
}

// checkCase returns an error if a new name differs from another one only in case.
func (c *changes) checkCase(at map[string]entry, added []string) error {
	if len(added) == 0 {
		return nil
	}
	names := make(map[string]int, len(at))
	for name := range at {
		names[fold.Case(name)]++
	}
	for _, name := range added {
		if names[fold.Case(name)] > 1 {
			return content.Errorf(content.Invalid, "path %s: it differs only in case from another one", quote(c.path+name))
		}
	}
	return nil
}
