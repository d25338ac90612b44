package modeltree

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/quoin-dev/quoin/internal/content"
)

// fuzzedPaths are paths that get in each other's way.
var fuzzedPaths = []string{"a", "a/b", "a/b/c", "A", "a.b", "a-b/c", "d/e", "d/E", "d/e/f", "É", "é"}

// fuzzedTexts are the contents and modes of files.
var fuzzedTexts = []string{"1\n2\n3\n", "0\n2\n3\n", "1\n2\n4\n", "1", "", "x\x00y", "exec:1\n2\n3\n", "exec:1\n2\n4\n", "link:a", "sub:"}

// filesFrom returns files that each two bytes name. A file in the place of a folder, and the reverse, is
// left out.
func filesFrom(script string) files {
	all := files{}
	for i := 0; i+1 < len(script); i += 2 {
		path := fuzzedPaths[int(script[i])%len(fuzzedPaths)]
		clash := slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(other string) bool {
			return strings.HasPrefix(other, path+"/") || strings.HasPrefix(path, other+"/")
		})
		if !clash {
			all[path] = fuzzedTexts[int(script[i+1])%len(fuzzedTexts)]
		}
	}
	return all
}

// FuzzMerge checks what holds for merges of all trees: the direction does not matter, one side without
// changes gives the other one, and the result is a valid tree or conflicts that name entries of it.
func FuzzMerge(f *testing.F) {
	f.Add("\x00\x00", "\x00\x01", "\x00\x02")
	f.Add("\x00\x00\x06\x00", "\x01\x00\x06\x00", "\x06\x01")
	f.Add("", "\x03\x00", "\x00\x00")
	f.Add("\x02\x00\x05\x01", "\x00\x08\x05\x06", "\x02\x01\x07\x09")
	f.Add("\x08\x00", "\x06\x00\x07\x00", "\x08\x01\x09\x00\x0a\x00")
	f.Fuzz(func(t *testing.T, base, ours, theirs string) {
		if len(base)+len(ours)+len(theirs) > 100 {
			return // more names repeat
		}
		s := newStore()
		b, o, th := treeOf(t, s, filesFrom(base)), treeOf(t, s, filesFrom(ours)), treeOf(t, s, filesFrom(theirs))
		for _, side := range []plumbing.Hash{o, th} {
			for _, trees := range [][3]plumbing.Hash{{b, b, side}, {b, side, b}, {b, side, side}} {
				if tree, conflicts, err := Merge(s, trees[0], trees[1], trees[2]); err != nil || len(conflicts) > 0 || tree != side {
					t.Fatalf("a merge with one changed side is %s: %v %v", tree, conflicts, err)
				}
			}
		}
		tree, conflicts, err := Merge(s, b, o, th)
		again, conflictsAgain, errAgain := Merge(s, b, th, o)
		if err != nil || errAgain != nil || tree != again || conflictText(conflicts) != conflictText(conflictsAgain) {
			t.Fatalf("the directions differ: %s %s %v %v %v %v", tree, again, conflicts, conflictsAgain, err, errAgain)
		}
		if tree.IsZero() != (len(conflicts) > 0) {
			t.Fatalf("tree %s, conflicts %v", tree, conflicts)
		}
		if len(conflicts) > 0 {
			checkConflicts(t, conflicts, filesFrom(base), filesFrom(ours), filesFrom(theirs))
			return
		}
		checkMerged(t, contents(t, s, tree), filesFrom(base), filesFrom(ours), filesFrom(theirs))
	})
}

// checkConflicts checks that conflicts name files or folders of one of the sides, each once.
func checkConflicts(t *testing.T, conflicts []Conflict, sides ...files) {
	t.Helper()
	seen := map[Conflict]bool{}
	for _, c := range conflicts {
		exists := slices.ContainsFunc(sides, func(side files) bool {
			return slices.ContainsFunc(slices.Collect(maps.Keys(side)), func(path string) bool { return path == c.Path || strings.HasPrefix(path, c.Path+"/") })
		})
		if !exists || c.Reason == "" || seen[c] {
			t.Fatalf("conflicts %v", conflicts)
		}
		seen[c] = true
	}
}

// checkMerged checks that a file that one side left alone is what the other side made of it.
func checkMerged(t *testing.T, merged, base, ours, theirs files) {
	t.Helper()
	at := func(in files, path string) string {
		if text, found := in[path]; found {
			return text
		}
		return deleted
	}
	for _, path := range fuzzedPaths {
		b, o, th := at(base, path), at(ours, path), at(theirs, path)
		if want, whole := pick(b, o, th); whole && at(merged, path) != want {
			t.Fatalf("%q is %q, want %q: base %s ours %s theirs %s", path, at(merged, path), want, base.text(), ours.text(), theirs.text())
		}
	}
}

// FuzzApply checks that edits of a tree are rejected, or make the files that they name.
func FuzzApply(f *testing.F) {
	f.Add("\x00\x00\x06\x01", "a", "text", "d/e", "")
	f.Add("\x02\x00", "a", "", "a/b", "x")
	f.Add("\x01\x00", "a/b", "", "a", "x")
	f.Add("", "A", "1", "a", "2")
	f.Add("\x00\x08", "a", "replaces a link", "../a", "x")
	f.Fuzz(func(t *testing.T, script, path1, text1, path2, text2 string) {
		s, before := newStore(), filesFrom(script)
		tree := treeOf(t, s, before)
		commit := must(AddCommit(s, Commit{Tree: tree}))(t)
		want := maps.Clone(before)
		var edits []Edit
		for _, e := range [][2]string{{path1, text1}, {path2, text2}} {
			edit := Edit{Path: e[0]}
			delete(want, e[0])
			if e[1] != "" { // an empty text deletes
				edit.Blob = must(AddBlob(s, []byte(e[1])))(t)
				want[e[0]] = modePrefix(before[e[0]]) + e[1]
			}
			edits = append(edits, edit)
		}
		after, err := Apply(s, commit, edits)
		var rejected *content.Error
		if errors.As(err, &rejected) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := contents(t, s, after); got.text() != want.text() {
			t.Fatalf("%v on %s: got %s, want %s", edits, before.text(), got.text(), want.text())
		}
	})
}

// modePrefix returns the prefix of the mode that a file with a text keeps when it is written.
func modePrefix(text string) string {
	if strings.HasPrefix(text, "exec:") {
		return "exec:"
	}
	return ""
}

// FuzzReferences checks that go-git reads each commit that is accepted in the same way: what it takes for
// the tree and the parents is what is checked when the commit is stored.
func FuzzReferences(f *testing.F) {
	hash, other := strings.Repeat("1", 40), strings.Repeat("2", 40)
	f.Add([]byte("tree " + hash + "\nparent " + other + "\nauthor a <b> 0 +0000\ncommitter a <b> 0 +0000\n\nmessage\n"))
	f.Add([]byte("tree " + hash + "\nauthor a <b> 0 +0000\nparent " + other + "\n\n"))
	f.Add([]byte("tree " + hash + "\nauthor a <b> 0 +0000\ngpgsig x\n parent " + other + "\n\nparent " + other + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		references, err := References(plumbing.CommitObject, data)
		if err != nil {
			return
		}
		s := newStore()
		commit := must(add(s, plumbing.CommitObject, data))(t)
		decoded, err := object.GetCommit(s, commit)
		if err != nil {
			t.Fatalf("go-git cannot read %q: %v", data, err)
		}
		got := []Reference{{decoded.TreeHash, plumbing.TreeObject}}
		for _, parent := range decoded.ParentHashes {
			got = append(got, Reference{parent, plumbing.CommitObject})
		}
		if !slices.Equal(got, references) {
			t.Fatalf("go-git reads %v of %q, want %v", got, data, references)
		}
	})
}
