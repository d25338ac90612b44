package modeltree

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/google/go-cmp/cmp"
)

// deleted is the content of a file that an edit deletes.
const deleted = "\x00deleted"

// edits returns edits; the order does not matter.
func edits(t *testing.T, s interface{ add(string) plumbing.Hash }, in files) (all []Edit) {
	t.Helper()
	for path, text := range in {
		e := Edit{Path: path}
		if text != deleted {
			e.Blob = s.add(text)
		}
		all = append(all, e)
	}
	return all
}

type adder func(text string) plumbing.Hash

func (a adder) add(text string) plumbing.Hash { return a(text) }

func TestApply(t *testing.T) {
	for name, test := range map[string]struct{ before, edits, after files }{
		"a new repository":                     {nil, files{"a": "1", "b/c/d": "2"}, files{"a": "1", "b/c/d": "2"}},
		"no change":                            {files{"a": "1", "b/c": "2"}, nil, files{"a": "1", "b/c": "2"}},
		"the same content":                     {files{"a": "1"}, files{"a": "1"}, files{"a": "1"}},
		"a file is changed":                    {files{"a": "1", "b/c": "2", "b/d": "3"}, files{"b/c": "4"}, files{"a": "1", "b/c": "4", "b/d": "3"}},
		"a file keeps its mode":                {files{"a": "exec:1"}, files{"a": "2"}, files{"a": "exec:2"}},
		"a link becomes a file":                {files{"a": "link:b"}, files{"a": "2"}, files{"a": "2"}},
		"a link is deleted":                    {files{"a": "link:b", "b": "1"}, files{"a": deleted}, files{"b": "1"}},
		"links and submodules stay":            {files{"a": "link:b", "s": "sub:", "b": "1"}, files{"b": "2"}, files{"a": "link:b", "s": "sub:", "b": "2"}},
		"a folder is deleted with its file":    {files{"a/b/c": "1", "d": "2"}, files{"a/b/c": deleted}, files{"d": "2"}},
		"all is deleted":                       {files{"a/b/c": "1"}, files{"a/b/c": deleted}, nil},
		"a missing file is deleted":            {files{"a": "1"}, files{"b/c": deleted, "a/b": deleted}, files{"a": "1"}},
		"a file becomes a folder":              {files{"a": "1"}, files{"a": deleted, "a/b": "2"}, files{"a/b": "2"}},
		"a folder becomes a file":              {files{"a/b": "1", "a/c/d": "2"}, files{"a/b": deleted, "a/c/d": deleted, "a": "3"}, files{"a": "3"}},
		"a file is renamed in case only":       {files{"a": "1"}, files{"a": deleted, "A": "1"}, files{"A": "1"}},
		"a clash that existed before may stay": {files{"a": "1", "A": "2"}, files{"b": "3"}, files{"a": "1", "A": "2", "b": "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			commit := zero
			if test.before != nil {
				commit = commitOf(t, s, test.before)
			}
			add := adder(func(text string) plumbing.Hash { return must(AddBlob(s, []byte(text)))(t) })
			tree := must(Apply(s, commit, edits(t, add, test.edits)))(t)
			if err := s.HasEncodedObject(tree); err != nil {
				t.Fatal(err)
			}
			if got := contents(t, s, tree); got.text() != test.after.text() {
				t.Errorf("got %s, want %s", got.text(), test.after.text())
			}
			if want := treeOf(t, s, test.after); tree != want {
				t.Errorf("the tree is not that of Git")
			}
		})
	}
}

func TestApplyRejects(t *testing.T) {
	many := files{}
	for i := range MaxFiles {
		many[fmt.Sprintf("d%d/f%d", i%100, i)] = "x"
	}
	for name, test := range map[string]struct {
		before, edits files
		message       string
	}{
		"a path out of the repository":     {nil, files{"../a": "1"}, `".."`},
		"a deletion out of the repository": {nil, files{"/etc/passwd": deleted}, "relative"},
		"a file in a file":                 {files{"a": "1"}, files{"a/b": "2"}, "it is a file, not a folder"},
		"a file in a link":                 {files{"a": "link:/etc"}, files{"a/b": "2"}, "it is a file, not a folder"},
		"a file in a submodule":            {files{"a": "sub:"}, files{"a/b": "2"}, "it is a file, not a folder"},
		"a file in the place of a folder":  {files{"a/b": "1"}, files{"a": "2"}, "it is a folder"},
		"both in one change":               {nil, files{"a/b": "1", "a": "2"}, "it is a folder"},
		"the deletion of a folder":         {files{"a/b": "1"}, files{"a": deleted}, "it is a folder"},
		"a clash of case":                  {files{"model/Orders.yml": "1"}, files{"model/orders.yml": "2"}, "only in case"},
		"a clash of case of folders":       {files{"Model/a": "1"}, files{"model/b": "2"}, "only in case"},
		"a clash of case in one change":    {nil, files{"a": "1", "A": "2"}, "only in case"},
		"too many files":                   {many, files{"one more": "1"}, "more than 10000 files"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			commit := zero
			if test.before != nil {
				commit = commitOf(t, s, test.before)
			}
			add := adder(func(text string) plumbing.Hash { return must(AddBlob(s, []byte(text)))(t) })
			_, err := Apply(s, commit, edits(t, add, test.edits))
			rejects(t, err, test.message)
		})
	}
	s := newStore()
	blob := must(AddBlob(s, nil))(t)
	_, err := Apply(s, zero, []Edit{{"a", blob}, {"a", zero}})
	rejects(t, err, "occurs twice")
	_, err = AddBlob(s, make([]byte, MaxObjectBytes+1))
	rejects(t, err, "16777217 bytes; allowed: 16777216")
	if _, err := Apply(s, zero, []Edit{{"a", plumbing.NewHash("1234")}}); !errors.Is(err, plumbing.ErrObjectNotFound) {
		t.Error("a blob that does not exist:", err)
	}
	large := must(AddBlob(s, make([]byte, MaxObjectBytes)))(t)
	var all []Edit
	for i := range MaxBytes/MaxObjectBytes + 1 {
		all = append(all, Edit{fmt.Sprint("f", i), large})
	}
	_, err = Apply(s, zero, all)
	rejects(t, err, "allowed: 268435456")
}

func TestFiles(t *testing.T) {
	s := newStore()
	commit := commitOf(t, s, files{"b": "12", "a/b/c": "exec:1", "a.b": "", "l": "link:b", "s": "sub:x", "a/d": "1234"})
	var got []string
	for _, f := range must(Files(s, commit, ""))(t) {
		got = append(got, fmt.Sprintf("%s %d %s", f.Path, f.Size, f.Mode))
	}
	want := []string{"a.b 0 0100644", "a/b/c 1 0100755", "a/d 4 0100644", "b 2 0100644", "l 1 0120000", "s 0 0160000"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for root, want := range map[string]string{"a": "b/c d", "a/b/": "c", "/a//b": "c", "missing": "", "a/missing": "", ".": "a.b a/b/c a/d b l s"} {
		var paths []string
		for _, f := range must(Files(s, commit, root))(t) {
			paths = append(paths, f.Path)
		}
		if got := strings.Join(paths, " "); got != want {
			t.Errorf("%q has %q, want %q", root, got, want)
		}
	}
	for _, root := range []string{"b", "l", "s", "a/d/x"} {
		_, err := Files(s, commit, root)
		rejects(t, err, "not a folder")
	}
	if _, err := Files(s, zero, ""); !errors.Is(err, plumbing.ErrObjectNotFound) {
		t.Error(err)
	}
}

// TestFilesAreBounded lists a commit whose few trees make very many files and folders.
func TestFilesAreBounded(t *testing.T) {
	s := newStore()
	tree := treeOf(t, s, files{"f": "1"})
	for range 40 { // 10^40 files
		var entries []entry
		for i := range 10 {
			entries = append(entries, entry{fmt.Sprint("d", i), filemode.Dir, tree})
		}
		tree = must(writeTree(s, entries))(t)
	}
	_, err := filesOf(s, tree)
	rejects(t, err, "more than 10000")
	deep := treeOf(t, s, files{"f": "1"})
	for range MaxDepth {
		deep = must(writeTree(s, []entry{{"d", filemode.Dir, deep}}))(t)
	}
	_, err = filesOf(s, deep)
	rejects(t, err, "100 levels")
}
