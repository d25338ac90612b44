// Package modeledit turns requests to write, delete, rename or replace files of a data model into edits
// of its tree. It reads and writes nothing; modeltree.Apply checks the tree that results.
//
// Paths of requests may begin with a slash, as lists of files show them. Rejected requests are a
// *content.Error that names the path.
package modeledit

import (
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/modeltree"
)

// Blob is a file and its content.
type Blob struct {
	Path string
	Hash plumbing.Hash
}

// Rename is a new path of a file, or of a folder with everything in it.
type Rename struct{ From, To string }

// Path returns a path of a request in the form of the tree.
func Path(path string) string { return strings.TrimPrefix(path, "/") }

// Put returns the edits that create or overwrite files.
func Put(current []modeltree.File, put []Blob) ([]modeltree.Edit, error) {
	p := newPlan(current)
	for _, blob := range put {
		path := Path(blob.Path)
		if err := modeltree.CheckPath(path); err != nil {
			return nil, err
		}
		if _, twice := p.edits[path]; twice {
			return nil, content.Errorf(content.Invalid, "files: path %q is there twice", path)
		}
		p.set(path, blob.Hash)
	}
	return p.finish(), nil
}

// Delete returns the edits that delete files, and folders with everything in them.
func Delete(current []modeltree.File, paths []string) ([]modeltree.Edit, error) {
	p := newPlan(current)
	for _, path := range paths {
		at, err := p.at(Path(path))
		if err != nil {
			return nil, err
		}
		for _, f := range at {
			p.set(f.Path, plumbing.ZeroHash)
		}
	}
	return p.finish(), nil
}

// Move returns the edits that rename files and folders. All renames happen at once, so two files can be
// exchanged.
func Move(current []modeltree.File, renames []Rename) ([]modeltree.Edit, error) {
	p, moved := newPlan(current), map[string]plumbing.Hash{}
	for _, r := range renames {
		from, to := Path(r.From), Path(r.To)
		if err := modeltree.CheckPath(to); err != nil {
			return nil, err
		}
		at, err := p.at(from)
		if err != nil {
			return nil, err
		}
		for _, f := range at {
			target := to + strings.TrimPrefix(f.Path, from)
			if _, twice := moved[target]; twice {
				return nil, content.Errorf(content.Invalid, "files: newPath %q is there twice", target)
			}
			if _, twice := p.edits[f.Path]; twice {
				return nil, content.Errorf(content.Invalid, "files: path %q is renamed twice", f.Path)
			}
			moved[target] = f.Hash
			p.set(f.Path, plumbing.ZeroHash)
		}
	}
	for target, hash := range moved {
		if _, exists := p.result[target]; exists {
			return nil, content.Errorf(content.Conflict, "files: newPath %q exists; delete it first", target)
		}
		p.set(target, hash)
	}
	return p.finish(), nil
}

// Replace returns the edits after which a tree has files. The files that the tree has besides are
// deleted, or kept if keep is true.
func Replace(current []modeltree.File, files []Blob, keep bool) []modeltree.Edit {
	p, wanted := newPlan(current), make(map[string]bool, len(files))
	for _, f := range files {
		wanted[f.Path] = true
	}
	if !keep {
		for _, f := range current {
			if !wanted[f.Path] {
				p.set(f.Path, plumbing.ZeroHash)
			}
		}
	}
	for _, f := range files {
		if p.result[f.Path] != f.Hash {
			p.set(f.Path, f.Hash)
		}
	}
	return p.finish()
}

// Below returns edits of the tree at a directory of a repository as edits of the repository.
func Below(root string, edits []modeltree.Edit) []modeltree.Edit {
	root = strings.Trim(root, "/")
	if root == "" || root == "." {
		return edits
	}
	below := make([]modeltree.Edit, len(edits))
	for i, e := range edits {
		below[i] = modeltree.Edit{Path: root + "/" + e.Path, Blob: e.Blob}
	}
	return below
}

// plan is a set of edits, and the tree that they result in.
type plan struct {
	current []modeltree.File
	edits   map[string]plumbing.Hash
	result  map[string]plumbing.Hash
}

func newPlan(current []modeltree.File) *plan {
	p := &plan{current: current, edits: map[string]plumbing.Hash{}, result: make(map[string]plumbing.Hash, len(current))}
	for _, f := range current {
		p.result[f.Path] = f.Hash
	}
	return p
}

// set edits a file; a zero hash deletes it.
func (p *plan) set(path string, blob plumbing.Hash) {
	p.edits[path] = blob
	if blob.IsZero() {
		delete(p.result, path)
		return
	}
	p.result[path] = blob
}

// at returns the file with a path, or those in the folder with that path.
func (p *plan) at(path string) ([]modeltree.File, error) {
	path = strings.TrimSuffix(path, "/")
	var found []modeltree.File
	for _, f := range p.current {
		if f.Path == path || strings.HasPrefix(f.Path, path+"/") {
			found = append(found, f)
		}
	}
	if len(found) == 0 {
		return nil, content.Errorf(content.NotFound, "files: path %.200q does not exist", path)
	}
	return found, nil
}

// finish returns the edits by path.
func (p *plan) finish() []modeltree.Edit {
	edits := make([]modeltree.Edit, 0, len(p.edits))
	for path, blob := range p.edits {
		edits = append(edits, modeltree.Edit{Path: path, Blob: blob})
	}
	slices.SortFunc(edits, func(x, y modeltree.Edit) int { return strings.Compare(x.Path, y.Path) })
	return edits
}
