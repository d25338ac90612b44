package modeltree

import (
	"fmt"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// IsAncestor reports whether a commit is another one, or in the history of it.
func IsAncestor(s storer.EncodedObjectStorer, ancestor, commit plumbing.Hash) (bool, error) {
	if ancestor == commit {
		return true, nil
	}
	older, newer, err := commits(s, ancestor, commit)
	if err != nil {
		return false, err
	}
	return older.IsAncestor(newer)
}

// MergeBase returns the best common ancestor of two commits, or the zero hash if they have none. Of
// several, which criss-cross merges make, it returns the newest.
func MergeBase(s storer.EncodedObjectStorer, a, b plumbing.Hash) (plumbing.Hash, error) {
	if a == b {
		return a, nil
	}
	first, second, err := commits(s, a, b)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	bases, err := first.MergeBase(second)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("find the merge base of %s and %s: %w", a, b, err)
	}
	if len(bases) == 0 {
		return plumbing.ZeroHash, nil
	}
	// The same one for (a, b) and (b, a).
	return slices.MaxFunc(bases, func(x, y *object.Commit) int {
		if order := x.Committer.When.Compare(y.Committer.When); order != 0 {
			return order
		}
		return slices.Compare(x.Hash[:], y.Hash[:])
	}).Hash, nil
}

// commits returns two commits.
func commits(s storer.EncodedObjectStorer, a, b plumbing.Hash) (first, second *object.Commit, err error) {
	if first, err = object.GetCommit(s, a); err != nil {
		return nil, nil, fmt.Errorf("read commit %s: %w", a, err)
	}
	if second, err = object.GetCommit(s, b); err != nil {
		return nil, nil, fmt.Errorf("read commit %s: %w", b, err)
	}
	return first, second, nil
}
