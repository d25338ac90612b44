package modeltree

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/fold"
)

const (
	// maxMergeBytes is the size up to which files are merged by line; larger ones conflict as wholes.
	maxMergeBytes = 4 << 20
	// binaryPrefix is the number of bytes in which Git looks for a NUL to tell a binary file.
	binaryPrefix = 8000
)

// Conflict is a file that cannot be merged.
type Conflict struct{ Path, Reason string }

// The reasons of conflicts. They are the same for both directions of a merge.
const (
	conflictLines  = "both branches changed the same lines"
	conflictBinary = "both branches changed the file, which is binary or too large to merge by line"
	conflictAdded  = "both branches added the file, with different content"
	conflictGone   = "one branch deleted the file, the other one changed it"
	conflictMode   = "both branches added the file, with different modes"
	conflictLink   = "both branches changed it, and it is a symbolic link or a submodule in one of them"
	conflictFolder = "it is a file in one branch and a folder in the other one"
	conflictCase   = "the branches have names that differ only in case"
)

// Merge merges theirs into ours. The three are commits or trees; a zero base has no files. Conflicts
// name files, by path; with any, tree is zero. The objects that are added are complete, also with conflicts.
//
// A change of one side is taken, and so is a change that both made. Text files that both changed are
// merged by line; changes of the same or of adjacent lines conflict. Renames are not detected: they
// are a deletion and a new file.
func Merge(s storer.EncodedObjectStorer, base, ours, theirs plumbing.Hash) (tree plumbing.Hash, conflicts []Conflict, err error) {
	var trees [3]plumbing.Hash
	for i, hash := range []plumbing.Hash{base, ours, theirs} {
		if trees[i], err = treeAt(s, hash); err != nil {
			return plumbing.ZeroHash, nil, err
		}
	}
	m := &merger{store: s}
	if tree, err = m.trees("", trees[0], trees[1], trees[2]); err != nil {
		return plumbing.ZeroHash, nil, err
	}
	if len(m.conflicts) > 0 {
		slices.SortFunc(m.conflicts, func(a, b Conflict) int { return strings.Compare(a.Path, b.Path) })
		return plumbing.ZeroHash, m.conflicts, nil
	}
	if tree.IsZero() {
		tree, err = writeTree(s, nil, trees[:]...)
		return tree, nil, err
	}
	if tree != trees[1] && tree != trees[2] {
		err = checkLimits(s, tree)
	}
	return tree, nil, err
}

// treeAt returns the tree of a commit; that of a tree is itself.
func treeAt(s storer.EncodedObjectStorer, hash plumbing.Hash) (plumbing.Hash, error) {
	if hash.IsZero() {
		return hash, nil
	}
	o, err := s.EncodedObject(plumbing.AnyObject, hash)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("read %s: %w", hash, err)
	}
	if o.Type() == plumbing.TreeObject {
		return hash, nil
	}
	return TreeOf(s, hash)
}

// discarded stands for the tree of a folder, and the content of a file, in a merge that has conflicts: only their
// existence matters then, and nothing is stored.
var discarded = plumbing.ComputeHash(plumbing.BlobObject, []byte("discarded"))

// merger collects the conflicts of a merge.
type merger struct {
	store     storer.EncodedObjectStorer
	conflicts []Conflict
	depth     int
}

func (m *merger) conflict(path, reason string) {
	m.conflicts = append(m.conflicts, Conflict{strings.TrimSuffix(path, "/"), reason})
}

// sides are the three versions of an entry. An entry without a mode does not exist.
type sides struct{ base, ours, theirs entry }

// trees merges the trees of a folder, of which the zero hash is one that does not exist. It returns
// the zero hash if nothing is left.
func (m *merger) trees(path string, base, ours, theirs plumbing.Hash) (plumbing.Hash, error) {
	switch {
	case ours == theirs || theirs == base:
		return ours, nil
	case ours == base:
		return theirs, nil
	}
	if m.depth++; m.depth > MaxDepth {
		return plumbing.ZeroHash, content.Errorf(content.Conflict, "the repository has more than %d levels of folders", MaxDepth)
	}
	defer func() { m.depth-- }()
	byName := map[string]*sides{}
	for i, tree := range []plumbing.Hash{base, ours, theirs} {
		entries, err := readTree(m.store, tree)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		for _, e := range entries {
			if byName[e.name] == nil {
				byName[e.name] = &sides{}
			}
			*[]*entry{&byName[e.name].base, &byName[e.name].ours, &byName[e.name].theirs}[i] = e
		}
	}
	var merged []entry
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		e, err := m.entry(path+name, name, byName[name])
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if e.mode != filemode.Empty {
			merged = append(merged, e)
		}
	}
	m.checkCase(path, merged, byName)
	switch {
	case len(merged) == 0:
		return plumbing.ZeroHash, nil
	case len(m.conflicts) > 0:
		return discarded, nil
	}
	return writeTree(m.store, merged, base, ours, theirs)
}

// entry merges an entry as a file and as a folder; the result can be one of them.
func (m *merger) entry(path, name string, s *sides) (entry, error) {
	before := len(m.conflicts)
	file, err := m.file(path, fileIn(s.base), fileIn(s.ours), fileIn(s.theirs))
	if err != nil {
		return entry{}, err
	}
	tree, err := m.trees(path+"/", folderIn(s.base), folderIn(s.ours), folderIn(s.theirs))
	if err != nil {
		return entry{}, err
	}
	switch {
	case tree.IsZero():
		return file, nil
	case file.mode == filemode.Empty:
		return entry{name, filemode.Dir, tree}, nil
	case len(m.conflicts) == before:
		m.conflict(path, conflictFolder)
	}
	return entry{}, nil
}

// fileIn returns an entry if it is not a folder.
func fileIn(e entry) entry {
	if e.mode == filemode.Dir {
		return entry{}
	}
	return e
}

// folderIn returns the tree of an entry if it is a folder.
func folderIn(e entry) plumbing.Hash {
	if e.mode == filemode.Dir {
		return e.hash
	}
	return plumbing.ZeroHash
}

// file merges a file.
func (m *merger) file(path string, base, ours, theirs entry) (entry, error) {
	switch {
	case ours == theirs || theirs == base:
		return ours, nil
	case ours == base:
		return theirs, nil
	case ours.mode == filemode.Empty || theirs.mode == filemode.Empty:
		m.conflict(path, conflictGone)
		return entry{}, nil
	case !isText(ours) || !isText(theirs) || base.mode != filemode.Empty && !isText(base):
		m.conflict(path, conflictLink) // its mode and its content belong together
		return entry{}, nil
	}
	mode, merged := pick(base.mode, ours.mode, theirs.mode)
	if !merged {
		m.conflict(path, conflictMode)
		return entry{}, nil
	}
	hash, merged := pick(base.hash, ours.hash, theirs.hash)
	if merged {
		return entry{ours.name, mode, hash}, nil
	}
	hash, err := m.content(path, base, ours, theirs)
	return entry{ours.name, mode, hash}, err
}

// pick merges a value that is a whole.
func pick[T comparable](base, ours, theirs T) (result T, merged bool) {
	switch {
	case ours == theirs || theirs == base:
		return ours, true
	case ours == base:
		return theirs, true
	}
	return base, false
}

// content merges the content of a file that both sides changed.
func (m *merger) content(path string, base, ours, theirs entry) (plumbing.Hash, error) {
	if base.mode == filemode.Empty {
		m.conflict(path, conflictAdded)
		return discarded, nil
	}
	var texts [3][]byte
	for i, e := range []entry{base, ours, theirs} {
		var err error
		if texts[i], err = Content(m.store, e.hash); err != nil {
			return plumbing.ZeroHash, err
		}
		if len(texts[i]) > maxMergeBytes || bytes.IndexByte(texts[i][:min(len(texts[i]), binaryPrefix)], 0) >= 0 {
			m.conflict(path, conflictBinary)
			return discarded, nil
		}
	}
	merged, ok := mergeLines(texts[0], texts[1], texts[2])
	if !ok {
		m.conflict(path, conflictLines)
	}
	if len(m.conflicts) > 0 {
		return discarded, nil
	}
	return AddBlob(m.store, merged)
}

// isText reports whether the content of an entry can be text.
func isText(e entry) bool { return e.mode == filemode.Regular || e.mode == filemode.Executable }

// checkCase adds a conflict for each name of the result that one side added, and that differs only
// in case from one of the other side.
func (m *merger) checkCase(path string, merged []entry, byName map[string]*sides) {
	spelling := make(map[string]string, len(merged))
	for _, e := range merged {
		other, found := spelling[fold.Case(e.name)]
		spelling[fold.Case(e.name)] = e.name
		if !found {
			continue
		}
		a, b := byName[other], byName[e.name]
		together := func(in func(*sides) entry) bool {
			return in(a).mode != filemode.Empty && in(b).mode != filemode.Empty
		}
		if !together(func(s *sides) entry { return s.ours }) && !together(func(s *sides) entry { return s.theirs }) {
			m.conflict(path+e.name, conflictCase)
		}
	}
}
