package modeltree

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

var zero plumbing.Hash

// encode returns the bytes of a tree with entries as they are.
func encode(entries ...string) []byte {
	var data []byte
	for i, e := range entries {
		data = append(append(data, e...), 0)
		data = append(data, bytes.Repeat([]byte{byte(i + 1)}, 20)...)
	}
	return data
}

func TestMalformedObjectsAreRejected(t *testing.T) {
	hash := strings.Repeat("1", 40)
	for name, test := range map[string]struct {
		kind plumbing.ObjectType
		data []byte
	}{
		"a tree that ends early":                   {plumbing.TreeObject, encode("100644 a")[:20]},
		"a tree without a mode":                    {plumbing.TreeObject, encode("a")},
		"a mode that is not one":                   {plumbing.TreeObject, encode("100000 a")},
		"a mode that is not octal":                 {plumbing.TreeObject, encode("9 a")},
		"an empty name":                            {plumbing.TreeObject, encode("100644 ")},
		"a name with a slash":                      {plumbing.TreeObject, encode("100644 a/b")},
		"a name that leaves the folder":            {plumbing.TreeObject, encode("40000 ..")},
		"the files of Git":                         {plumbing.TreeObject, encode("40000 .git")},
		"the files of Git in another case":         {plumbing.TreeObject, encode("40000 .GiT")},
		"names that are not in order":              {plumbing.TreeObject, encode("100644 b", "100644 a")},
		"a name twice":                             {plumbing.TreeObject, encode("100644 a", "100644 a")},
		"a name twice, as a file and a folder":     {plumbing.TreeObject, encode("100644 a", "40000 a")},
		"the same with another name between":       {plumbing.TreeObject, encode("100644 a", "100644 a.b", "40000 a")},
		"a commit without a tree":                  {plumbing.CommitObject, []byte("author a <b> 0 +0000\n")},
		"a commit without an author":               {plumbing.CommitObject, []byte("tree " + hash + "\n\n")},
		"a commit with a hash that is not one":     {plumbing.CommitObject, []byte("tree " + strings.Repeat("g", 40) + "\nauthor a <b> 0 +0000\n")},
		"a commit with a hash that ends too early": {plumbing.CommitObject, []byte("tree 12\nauthor a <b> 0 +0000\n")},
		"a tag without an object":                  {plumbing.TagObject, []byte("type commit\n")},
		"a tag of no type":                         {plumbing.TagObject, []byte("object " + hash + "\ntype x\n")},
		"a delta":                                  {plumbing.REFDeltaObject, nil},
	} {
		if references, err := References(test.kind, test.data); err == nil {
			t.Errorf("%s: accepted with %v", name, references)
		}
	}
}

func TestReferences(t *testing.T) {
	data := encode("100644 a", "120000 b", "40000 c", "160000 d", "100755 e")
	references := must(References(plumbing.TreeObject, data))(t)
	var got []string
	for _, r := range references {
		got = append(got, r.Type.String()+r.Hash.String()[:2])
	}
	if strings.Join(got, " ") != "blob01 blob02 tree03 blob05" {
		t.Error(got)
	}
	s := newStore()
	first := commitOf(t, s, files{"a": "1"})
	second := commitOf(t, s, files{"a": "2"}, first, first)
	commit := must(s.EncodedObject(plumbing.CommitObject, second))(t)
	references = must(References(plumbing.CommitObject, must(contentOf(commit))(t)))(t)
	if len(references) != 3 || references[0].Type != plumbing.TreeObject || references[1] != (Reference{first, plumbing.CommitObject}) {
		t.Error(references)
	}
	tag := &object.Tag{Name: "v1", TargetType: plumbing.CommitObject, Target: first}
	o := &plumbing.MemoryObject{}
	if err := tag.Encode(o); err != nil {
		t.Fatal(err)
	}
	references = must(References(plumbing.TagObject, must(contentOf(o))(t)))(t)
	if len(references) != 1 || references[0] != (Reference{first, plumbing.CommitObject}) {
		t.Error(references)
	}
}

// TestTreesAreThoseOfGit checks the order and the hash of a tree with those of go-git.
func TestTreesAreThoseOfGit(t *testing.T) {
	s := newStore()
	tree := treeOf(t, s, files{"a/x": "1", "a.b": "2", "a-b": "3", "a0": "exec:4", "b": "link:a"})
	decoded, err := object.GetTree(s, tree)
	if err != nil {
		t.Fatal(err)
	}
	again := &plumbing.MemoryObject{}
	if err := decoded.Encode(again); err != nil {
		t.Fatal(err) // go-git rejects trees that are not in order
	}
	if again.Hash() != tree || len(decoded.Entries) != 5 || decoded.Entries[2].Name != "a" {
		t.Errorf("%s, %v", again.Hash(), decoded.Entries)
	}
}

func TestCommitCannotInjectHeaders(t *testing.T) {
	s := newStore()
	hash := must(AddCommit(s, Commit{
		Tree: treeOf(t, s, files{"a": "1"}), AuthorName: "Eve\ngpgsig x\n<a@b>", AuthorEmail: "e@x> 0 +0000\nparent 1", Message: "  m\x00\xff\nparent 2\n\n",
	}))(t)
	commit, err := object.GetCommit(s, hash)
	if err != nil {
		t.Fatal(err)
	}
	if commit.Author.Name != "Evegpgsig xa@b" || commit.Author.Email != "e@x 0 +0000parent 1" || len(commit.ParentHashes) != 0 ||
		commit.PGPSignature != "" || commit.Message != "m\uFFFD\nparent 2\n" {
		t.Errorf("%+v", commit)
	}
}

// FuzzParseTree checks that a tree that is accepted has each name once, and is written in the same order.
func FuzzParseTree(f *testing.F) {
	f.Add(encode("100644 a", "40000 b", "100755 c"))
	f.Add(encode("100644 a", "100644 a.b", "40000 a"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseTree(data)
		if err != nil {
			return
		}
		names := map[string]bool{}
		for _, e := range entries {
			if names[e.name] || e.mode == filemode.Empty {
				t.Fatalf("%+v", entries)
			}
			names[e.name] = true
		}
		s := newStore()
		again := must(readTree(s, must(writeTree(s, slices.Clone(entries)))(t)))(t)
		if !slices.Equal(entries, again) {
			t.Fatalf("%+v is written as %+v", entries, again)
		}
	})
}
