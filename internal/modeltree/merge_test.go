package modeltree

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/storage/memory"
)

// conflicts returns conflicts as text.
func conflictText(all []Conflict) string {
	var b strings.Builder
	for _, c := range all {
		b.WriteString(c.Path + ": " + c.Reason + ";")
	}
	return b.String()
}

func TestMerge(t *testing.T) {
	for name, test := range map[string]struct {
		base, ours, theirs, merged files
		conflicts                  []Conflict
	}{
		"changes of different files": {files{"a": "1", "b": "1"}, files{"a": "2", "b": "1"}, files{"a": "1", "b": "2"}, files{"a": "2", "b": "2"}, nil},
		"new files":                  {files{"a": "1"}, files{"a": "1", "b": "2"}, files{"a": "1", "c/d": "3"}, files{"a": "1", "b": "2", "c/d": "3"}, nil},
		"the same new file":          {nil, files{"a": "1"}, files{"a": "1"}, files{"a": "1"}, nil},
		"the same deletion":          {files{"a": "1", "b": "1"}, files{"b": "1"}, files{"b": "1"}, files{"b": "1"}, nil},
		"a deletion":                 {files{"a": "1", "b": "1"}, files{"b": "1"}, files{"a": "1", "b": "2"}, files{"b": "2"}, nil},
		"both delete all":            {files{"a": "1", "b": "1"}, files{"b": "1"}, files{"a": "1"}, files{}, nil},
		"different lines":            {files{"a": "1\n2\n3\n"}, files{"a": "0\n2\n3\n"}, files{"a": "1\n2\n4\n"}, files{"a": "0\n2\n4\n"}, nil},
		"a mode and the content":     {files{"a": "1"}, files{"a": "exec:1"}, files{"a": "2"}, files{"a": "exec:2"}, nil},
		"a folder becomes a file":    {files{"a/b": "1", "c": "1"}, files{"a": "2", "c": "1"}, files{"a/b": "1", "c": "2"}, files{"a": "2", "c": "2"}, nil},
		"both make a folder":         {files{"a": "1"}, files{"a/b": "1"}, files{"a/c": "2"}, files{"a/b": "1", "a/c": "2"}, nil},
		"a folder in the place of a file that the other deletes": {files{"a": "1", "z": "1"}, files{"a/b": "1", "z": "1"}, files{"z": "1"}, files{"a/b": "1", "z": "1"}, nil},

		"the same line":             {files{"d/a": "1\n2\n"}, files{"d/a": "1\n3\n"}, files{"d/a": "1\n4\n"}, nil, []Conflict{{"d/a", conflictLines}}},
		"different new files":       {nil, files{"a": "1"}, files{"a": "2"}, nil, []Conflict{{"a", conflictAdded}}},
		"new files of other modes":  {nil, files{"a": "1"}, files{"a": "exec:1"}, nil, []Conflict{{"a", conflictMode}}},
		"changed and deleted":       {files{"a": "1", "b": "1"}, files{"a": "2", "b": "1"}, files{"b": "1"}, nil, []Conflict{{"a", conflictGone}}},
		"changed and renamed":       {files{"a": "1"}, files{"a": "2"}, files{"b": "1"}, nil, []Conflict{{"a", conflictGone}}},
		"a mode and a deletion":     {files{"a": "1", "b": "1"}, files{"a": "exec:1", "b": "1"}, files{"b": "1"}, nil, []Conflict{{"a", conflictGone}}},
		"folder deleted":            {files{"a/b": "1", "a/c": "1", "z": "1"}, files{"z": "1"}, files{"a/b": "2", "a/c": "1", "z": "1"}, nil, []Conflict{{"a/b", conflictGone}}},
		"binary":                    {files{"a": "1\x00"}, files{"a": "2\x00"}, files{"a": "3\x00"}, nil, []Conflict{{"a", conflictBinary}}},
		"one side is binary":        {files{"a": "1\n2\n3\n"}, files{"a": "\x00\n2\n3\n"}, files{"a": "1\n2\n4\n"}, nil, []Conflict{{"a", conflictBinary}}},
		"links":                     {files{"a": "link:x"}, files{"a": "link:y"}, files{"a": "link:z"}, nil, []Conflict{{"a", conflictLink}}},
		"submodules":                {files{"a": "sub:x"}, files{"a": "sub:y"}, files{"a": "sub:z"}, nil, []Conflict{{"a", conflictLink}}},
		"a link and other content":  {files{"a": "x"}, files{"a": "link:x"}, files{"a": "y"}, nil, []Conflict{{"a", conflictLink}}},
		"a file and a folder":       {files{"z": "1"}, files{"a": "1", "z": "1"}, files{"a/b": "1", "z": "1"}, nil, []Conflict{{"a", conflictFolder}}},
		"a changed file and folder": {files{"a": "1"}, files{"a": "2"}, files{"a/b": "1"}, nil, []Conflict{{"a", conflictGone}}},
		"names differ in case":      {files{"z": "1"}, files{"m/A": "1", "z": "1"}, files{"m/a": "1", "z": "1"}, nil, []Conflict{{"m/a", conflictCase}}},
		"several": {files{"a": "1", "b/c": "1", "d": "1"}, files{"a": "2", "b/c": "2", "d": "2"}, files{"a": "3", "b/c": "3", "d": "1"}, nil,
			[]Conflict{{"a", conflictLines}, {"b/c", conflictLines}}},
	} {
		t.Run(name, func(t *testing.T) { testMerge(t, test.base, test.ours, test.theirs, test.merged, test.conflicts) })
	}
}

// testMerge merges in both directions.
func testMerge(t *testing.T, baseFiles, oursFiles, theirsFiles, merged files, conflicts []Conflict) {
	t.Helper()
	s := newStore()
	base := zero
	if baseFiles != nil {
		base = commitOf(t, s, baseFiles)
	}
	ours, theirs := commitOf(t, s, oursFiles), commitOf(t, s, theirsFiles)
	defer func() { requireComplete(t, s) }()
	for _, sides := range [][2]plumbing.Hash{{ours, theirs}, {theirs, ours}} {
		tree, found, err := Merge(s, base, sides[0], sides[1])
		if err != nil {
			t.Fatal(err)
		}
		if conflictText(found) != conflictText(conflicts) || tree.IsZero() != (len(conflicts) > 0) {
			t.Fatalf("got conflicts %q, tree %s, want %q", conflictText(found), tree, conflictText(conflicts))
		}
		if len(conflicts) == 0 {
			if got := contents(t, s, tree); got.text() != merged.text() || tree != treeOf(t, s, merged) {
				t.Errorf("got %s, want %s", got.text(), merged.text())
			}
		}
	}
}

// requireComplete checks that all objects to which trees refer are stored: a repository rejects others.
func requireComplete(t testing.TB, s *memory.Storage) {
	t.Helper()
	for tree := range s.Trees {
		for _, e := range must(readTree(s, tree))(t) {
			if e.mode != filemode.Submodule && s.HasEncodedObject(e.hash) != nil {
				t.Errorf("tree %s has %q, but %s is not stored", tree, e.name, e.hash)
			}
		}
	}
}

func TestMergeLargeFilesConflict(t *testing.T) {
	large := strings.Repeat("a line\n", maxMergeBytes/7)
	testMerge(t, files{"a": "1\n" + large + "2\n"}, files{"a": "3\n" + large + "2\n"}, files{"a": "1\n" + large + "4\n"}, nil, []Conflict{{"a", conflictBinary}})
}

// TestMergeRandomTrees checks, for random changes of both sides: files that one side changed become
// what it made of them, files that both changed conflict or are equal, and the direction does not
// matter.
func TestMergeRandomTrees(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	change := func(all files) files {
		changed := files{}
		for path, text := range all {
			changed[path] = text
		}
		for range random.IntN(4) {
			path := fmt.Sprintf("d%d/f%d", random.IntN(3), random.IntN(4))
			if random.IntN(3) == 0 {
				delete(changed, path)
			} else {
				changed[path] = fmt.Sprintf("text %d", random.IntN(3)) // one line: both sides conflict
			}
		}
		return changed
	}
	clean := 0
	for range 2000 {
		s := newStore()
		base := change(change(change(nil)))
		ours, theirs := change(base), change(base)
		b, o, th := treeOf(t, s, base), treeOf(t, s, ours), treeOf(t, s, theirs)
		tree, conflicts, err := Merge(s, b, o, th)
		again, conflictsAgain, errAgain := Merge(s, b, th, o)
		if err != nil || errAgain != nil || tree != again || conflictText(conflicts) != conflictText(conflictsAgain) {
			t.Fatalf("the directions differ: %v %v %v %v", conflicts, conflictsAgain, err, errAgain)
		}
		requireComplete(t, s)
		want, conflicting := expectedMerge(base, ours, theirs)
		if len(conflicts) != conflicting {
			t.Fatalf("base %s ours %s theirs %s: %v", base.text(), ours.text(), theirs.text(), conflicts)
		}
		if conflicting == 0 {
			clean++
			if got := contents(t, s, tree); got.text() != want.text() {
				t.Fatalf("base %s ours %s theirs %s merged %s", base.text(), ours.text(), theirs.text(), got.text())
			}
		}
	}
	if clean < 500 || clean > 1900 {
		t.Errorf("%d merges of 2000 had no conflict", clean)
	}
}

// expectedMerge merges files that are wholes.
func expectedMerge(base, ours, theirs files) (merged files, conflicts int) {
	merged = files{}
	for d := range 3 {
		for f := range 4 {
			path := fmt.Sprintf("d%d/f%d", d, f)
			at := func(in files) string {
				if text, found := in[path]; found {
					return text
				}
				return deleted
			}
			text, ok := pick(at(base), at(ours), at(theirs))
			if !ok {
				conflicts++
			} else if text != deleted {
				merged[path] = text
			}
		}
	}
	return merged, conflicts
}

func TestMergeBaseAndAncestors(t *testing.T) {
	s := newStore()
	root := commitOf(t, s, files{"a": "root"})
	left := commitOf(t, s, files{"a": "left"}, root)
	right := commitOf(t, s, files{"a": "right"}, root)
	merge := commitOf(t, s, files{"a": "merge"}, left, right)
	later := commitOf(t, s, files{"a": "later"}, right)
	unrelated := commitOf(t, s, files{"a": "unrelated"})
	for _, test := range []struct{ a, b, base plumbing.Hash }{
		{left, right, root}, {merge, later, right}, {merge, left, left}, {root, merge, root}, {merge, merge, merge}, {merge, unrelated, zero},
	} {
		for _, pair := range [][2]plumbing.Hash{{test.a, test.b}, {test.b, test.a}} {
			if base := must(MergeBase(s, pair[0], pair[1]))(t); base != test.base {
				t.Errorf("got %s, want %s", base, test.base)
			}
		}
	}
	// Criss-cross: two bases, the same one for both directions.
	cross := commitOf(t, s, files{"a": "cross"}, right, left)
	if must(MergeBase(s, merge, cross))(t) != must(MergeBase(s, cross, merge))(t) {
		t.Error("the merge base depends on the direction")
	}
	for _, test := range []struct {
		ancestor, commit plumbing.Hash
		want             bool
	}{{root, merge, true}, {merge, root, false}, {left, right, false}, {root, root, true}, {right, later, true}, {unrelated, merge, false}} {
		if got := must(IsAncestor(s, test.ancestor, test.commit))(t); got != test.want {
			t.Errorf("%s is an ancestor of %s: %t", test.ancestor, test.commit, got)
		}
	}
	if _, err := IsAncestor(s, plumbing.NewHash("12"), root); err == nil {
		t.Error("a commit that does not exist is no ancestor")
	}
}
