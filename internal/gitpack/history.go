package gitpack

import (
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

const (
	// maxHistory bounds the commits that are visited and the objects that are sent, which are kept in
	// memory by name.
	maxHistory = 200_000
	// maxEdges bounds the commits of the client whose objects are read, so that they are not sent again.
	maxEdges = 16
)

// Request describes what a client has and wants.
type Request struct {
	Wants []plumbing.Hash
	// Haves are commits that the client has, and Shallow those of which it lacks the parents. Commits
	// that do not exist are ignored.
	Haves   []plumbing.Hash
	Shallow map[plumbing.Hash]bool
	// Depth is the number of generations to send; 0 for all.
	Depth int
}

// History finds the commits and objects that a client lacks.
//
// Commits are visited from the newest to the oldest, with the marks wanted and had, which their parents
// inherit, until all that remain are had. A commit with a wrong time may be sent although the client
// has it; none is omitted that it lacks.
type History struct {
	objectsOf storer.EncodedObjectStorer
	request   Request
	marks     map[plumbing.Hash]mark
	queue     commitQueue
	// open is the number of commits in the queue that are wanted and not had.
	open int
	// Common are the commits that both have, of those that the client named.
	Common []plumbing.Hash
	// NewShallow and Unshallow are the changes of the commits whose parents the client lacks.
	NewShallow, Unshallow []plumbing.Hash
	// order has the wanted commits in the order in which they were visited.
	order []*node
}

// node is a commit, without its text.
type node struct {
	hash, tree plumbing.Hash
	parents    []plumbing.Hash
	when       time.Time
}

// readCommit reads a commit.
func readCommit(s storer.EncodedObjectStorer, hash plumbing.Hash) (*node, error) {
	c, err := object.GetCommit(s, hash)
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", hash, err)
	}
	return &node{hash: hash, tree: c.TreeHash, parents: c.ParentHashes, when: c.Committer.When}, nil
}

type mark byte

const (
	wanted mark = 1 << iota
	had
	visited
)

// commitQueue is a heap of commits, the newest first.
type commitQueue []*node

// Len implements heap.Interface.
func (q commitQueue) Len() int { return len(q) }

// Less implements heap.Interface.
func (q commitQueue) Less(i, j int) bool { return q[i].when.After(q[j].when) }

// Swap implements heap.Interface.
func (q commitQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *commitQueue) Push(x any) {
	if c, ok := x.(*node); ok {
		*q = append(*q, c)
	}
}

// Pop implements heap.Interface.
func (q *commitQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// NewHistory returns the history of a request. The error is a Rejection if a wanted commit does not
// exist.
func NewHistory(s storer.EncodedObjectStorer, f Request) (*History, error) {
	h := &History{objectsOf: s, request: f, marks: map[plumbing.Hash]mark{}}
	for _, hash := range f.Haves {
		commit, err := readCommit(s, hash)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if h.marks[hash] == 0 {
			h.Common = append(h.Common, hash)
		}
		h.add(commit, had)
	}
	wants, err := h.wants()
	if err != nil {
		return nil, err
	}
	if f.Depth > 0 {
		wants, err = h.limit(wants)
		if err != nil {
			return nil, err
		}
	}
	for _, commit := range wants {
		h.add(commit, wanted)
	}
	return h, nil
}

// wants returns the requested commits.
func (h *History) wants() ([]*node, error) {
	var commits []*node
	known := map[plumbing.Hash]bool{}
	for _, hash := range h.request.Wants {
		if known[hash] {
			continue
		}
		known[hash] = true
		commit, err := readCommit(h.objectsOf, hash)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			return nil, rejectf("upload-pack: not our ref %s", hash)
		}
		if err != nil {
			return nil, err
		}
		commits = append(commits, commit)
	}
	return commits, nil
}

// limit returns the commits within the requested depth, and sets what changes for the client.
func (h *History) limit(generation []*node) ([]*node, error) {
	var within []*node
	known := map[plumbing.Hash]bool{}
	for _, c := range generation {
		known[c.hash] = true
	}
	for depth := 1; len(generation) > 0; depth++ {
		var next []*node
		for _, c := range generation {
			within = append(within, c)
			if len(within) > maxHistory {
				return nil, tooLong()
			}
			if depth == h.request.Depth {
				if len(c.parents) > 0 && !h.request.Shallow[c.hash] {
					h.NewShallow = append(h.NewShallow, c.hash)
				}
				continue
			}
			if h.request.Shallow[c.hash] {
				h.Unshallow = append(h.Unshallow, c.hash)
			}
			for _, hash := range c.parents {
				if known[hash] {
					continue
				}
				known[hash] = true
				parent, err := readCommit(h.objectsOf, hash)
				if err != nil {
					return nil, err
				}
				next = append(next, parent)
			}
		}
		generation = next
	}
	return within, nil
}

func tooLong() error { return rejectf("the history has more than %d commits", maxHistory) }

// add adds a mark to a commit, and the commit to the queue.
func (h *History) add(c *node, m mark) {
	before := h.marks[c.hash]
	if before&m == m {
		return
	}
	h.marks[c.hash] = before | m
	switch {
	case before == 0, before&visited != 0:
		heap.Push(&h.queue, c)
		h.marks[c.hash] &^= visited
		if (before|m)&had == 0 {
			h.open++
		}
	case m&had != 0 && before&had == 0:
		h.open--
	}
}

// commits returns the wanted commits that the client lacks.
func (h *History) commits() ([]*node, error) {
	listed := map[plumbing.Hash]bool{}
	for h.open > 0 {
		c, ok := heap.Pop(&h.queue).(*node)
		if !ok {
			break
		}
		inherited := h.marks[c.hash] & (wanted | had)
		h.marks[c.hash] |= visited
		if inherited&had == 0 {
			h.open--
		}
		if inherited&wanted != 0 && !listed[c.hash] {
			listed[c.hash] = true
			h.order = append(h.order, c)
		}
		if len(h.marks) > maxHistory {
			return nil, tooLong()
		}
		if err := h.inherit(c, inherited); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(h.order), func(c *node) bool { return h.marks[c.hash]&had != 0 }), nil
}

// inherit adds the marks of a commit to its parents. Of a commit with limited depth, the wanted
// ancestors are known. The client lacks the parents of its shallow commits; without a new depth, they
// are not sent either.
func (h *History) inherit(c *node, inherited mark) error {
	if h.request.Shallow[c.hash] {
		inherited &^= had
		if h.request.Depth == 0 {
			inherited = 0
		}
	}
	if h.request.Depth > 0 {
		inherited &^= wanted
	}
	if inherited == 0 {
		return nil
	}
	for _, hash := range c.parents {
		if h.marks[hash]&inherited == inherited {
			continue
		}
		parent, err := readCommit(h.objectsOf, hash)
		if err != nil {
			return err
		}
		h.add(parent, inherited)
	}
	return nil
}

// Objects returns the names of the objects that the client lacks, commits first.
func (h *History) Objects() ([]plumbing.Hash, error) {
	commits, err := h.commits()
	if err != nil {
		return nil, err
	}
	w := &treeWalk{objectsOf: h.objectsOf, seen: map[plumbing.Hash]struct{}{}}
	for _, tree := range h.edges(commits) {
		if err := w.walk(tree, 0); err != nil {
			return nil, err
		}
	}
	w.found = nil
	for _, c := range commits {
		w.add(c.hash)
	}
	for _, c := range commits {
		if err := w.walk(c.tree, 0); err != nil {
			return nil, err
		}
	}
	return w.found, nil
}

// edges returns the trees of commits that the client has and that are likely to share objects with the
// commits that it lacks: their parents, and the commits that it named.
func (h *History) edges(commits []*node) []plumbing.Hash {
	var trees []plumbing.Hash
	add := func(hash plumbing.Hash) {
		if len(trees) >= maxEdges || h.marks[hash]&had == 0 {
			return
		}
		if c, err := readCommit(h.objectsOf, hash); err == nil && !slices.Contains(trees, c.tree) {
			trees = append(trees, c.tree)
		}
	}
	for _, c := range commits {
		for _, parent := range c.parents {
			add(parent)
		}
	}
	for _, hash := range h.Common {
		add(hash)
	}
	return trees
}

// maxTreeDepth bounds nested folders.
const maxTreeDepth = 100

// treeWalk collects objects of trees, each once.
type treeWalk struct {
	objectsOf storer.EncodedObjectStorer
	seen      map[plumbing.Hash]struct{}
	found     []plumbing.Hash
}

// add adds an object and reports whether it is new.
func (w *treeWalk) add(hash plumbing.Hash) bool {
	if _, ok := w.seen[hash]; ok {
		return false
	}
	w.seen[hash] = struct{}{}
	w.found = append(w.found, hash)
	return true
}

// walk adds a tree and the objects in it.
func (w *treeWalk) walk(hash plumbing.Hash, depth int) error {
	switch {
	case !w.add(hash):
		return nil
	case len(w.seen) > maxHistory:
		return rejectf("the repository has more than %d objects", maxHistory)
	case depth > maxTreeDepth:
		return rejectf("folders are nested more than %d levels deep", maxTreeDepth)
	}
	tree, err := object.GetTree(w.objectsOf, hash)
	if err != nil {
		return fmt.Errorf("read tree %s: %w", hash, err)
	}
	for _, entry := range tree.Entries {
		switch entry.Mode {
		case filemode.Dir:
			if err := w.walk(entry.Hash, depth+1); err != nil {
				return err
			}
		case filemode.Submodule:
		default:
			w.add(entry.Hash)
		}
	}
	return nil
}
