package modeltree

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/quoin-dev/quoin/internal/content"
)

// prefetcher is implemented by storers that read many objects in one request.
type prefetcher interface {
	// Prefetch reads objects, so that EncodedObject returns them without a request.
	Prefetch(hashes []plumbing.Hash) error
}

// sizer is implemented by storers that read many sizes in one request.
type sizer interface {
	// EncodedObjectSizes returns the sizes of those of the objects that exist.
	EncodedObjectSizes(hashes []plumbing.Hash) (map[plumbing.Hash]int64, error)
}

// Files returns the files of a commit in a folder, by path. Paths are relative to the folder; "" is
// the whole commit. A folder that does not exist has no files.
func Files(s storer.EncodedObjectStorer, commit plumbing.Hash, root string) ([]File, error) {
	files, err := List(s, commit, root)
	if err == nil {
		err = AddSizes(s, files)
	}
	if err != nil {
		return nil, err
	}
	return files, nil
}

// List returns what Files returns, without the sizes: each is in another object.
func List(s storer.EncodedObjectStorer, commit plumbing.Hash, root string) ([]File, error) {
	tree, err := TreeOf(s, commit)
	if err != nil {
		return nil, err
	}
	if tree, err = find(s, tree, root); err != nil || tree.IsZero() {
		return nil, err
	}
	return list(s, tree)
}

// find returns the tree of a folder, or the zero hash if it does not exist.
func find(s storer.EncodedObjectStorer, tree plumbing.Hash, folder string) (plumbing.Hash, error) {
	for name := range strings.SplitSeq(folder, "/") {
		if name == "" || name == "." {
			continue
		}
		entries, err := readTree(s, tree)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		i := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
		if i < 0 {
			return plumbing.ZeroHash, nil
		}
		if entries[i].mode != filemode.Dir {
			return plumbing.ZeroHash, content.Errorf(content.Conflict, "path %s: it is not a folder", quote(folder))
		}
		tree = entries[i].hash
	}
	return tree, nil
}

// folder is a folder to list.
type folder struct {
	path string
	tree plumbing.Hash
}

// filesOf returns the files of a tree, with their sizes.
func filesOf(s storer.EncodedObjectStorer, tree plumbing.Hash) ([]File, error) {
	files, err := list(s, tree)
	if err == nil {
		err = AddSizes(s, files)
	}
	return files, err
}

// list returns the files of a tree, by path.
func list(s storer.EncodedObjectStorer, tree plumbing.Hash) ([]File, error) {
	var files []File
	folders := 0
	for level, depth := []folder{{"", tree}}, 0; len(level) > 0; depth++ {
		if folders += len(level); folders > MaxFiles || depth >= MaxDepth {
			return nil, content.Errorf(content.Conflict, "the repository has more than %d folders, or more than %d levels of them", MaxFiles, MaxDepth)
		}
		next, err := listLevel(s, level, &files)
		if err != nil {
			return nil, err
		}
		level = next
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files, nil
}

// listLevel adds the files of folders, and returns the folders in them.
func listLevel(s storer.EncodedObjectStorer, level []folder, files *[]File) (next []folder, err error) {
	if p, ok := s.(prefetcher); ok {
		trees := make([]plumbing.Hash, len(level))
		for i, f := range level {
			trees[i] = f.tree
		}
		if err := p.Prefetch(trees); err != nil {
			return nil, err
		}
	}
	for _, f := range level {
		entries, err := readTree(s, f.tree)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			path := f.path + e.name
			if e.mode == filemode.Dir {
				next = append(next, folder{path + "/", e.hash})
				continue
			}
			*files = append(*files, File{Path: path, Hash: e.hash, Mode: e.mode})
		}
		if len(*files) > MaxFiles || len(next) > MaxFiles {
			return nil, content.Errorf(content.Conflict, "the repository has more than %d files or folders", MaxFiles)
		}
	}
	return next, nil
}

// AddSizes sets the sizes of files.
func AddSizes(s storer.EncodedObjectStorer, files []File) error {
	var sizes map[plumbing.Hash]int64
	if many, ok := s.(sizer); ok {
		hashes := make([]plumbing.Hash, 0, len(files))
		for _, f := range files {
			if f.Mode != filemode.Submodule {
				hashes = append(hashes, f.Hash)
			}
		}
		var err error
		if sizes, err = many.EncodedObjectSizes(hashes); err != nil {
			return err
		}
	}
	for i := range files {
		f := &files[i]
		if f.Mode == filemode.Submodule {
			continue
		}
		size, found := sizes[f.Hash]
		if !found {
			var err error
			if size, err = s.EncodedObjectSize(f.Hash); err != nil {
				return fmt.Errorf("read the size of %s: %w", quote(f.Path), err)
			}
		}
		f.Size = size
	}
	return nil
}

// checkLimits returns an error if a tree has too many files, or too large ones.
func checkLimits(s storer.EncodedObjectStorer, tree plumbing.Hash) error {
	files, err := filesOf(s, tree)
	if err != nil {
		return err
	}
	var sum int64
	for _, f := range files {
		sum += f.Size
	}
	if sum > MaxBytes {
		return content.Errorf(content.Conflict, "all files have %d bytes together; allowed: %d", sum, MaxBytes)
	}
	return nil
}
