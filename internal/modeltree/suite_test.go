package modeltree

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/quoin-dev/quoin/internal/content"
)

// files are the contents of files by path. A prefix of the content is the mode: "exec:", "link:" or
// "sub:".
type files map[string]string

var modes = map[string]filemode.FileMode{"exec:": filemode.Executable, "link:": filemode.Symlink, "sub:": filemode.Submodule}

// treeOf stores a tree without any checks.
func treeOf(t testing.TB, s storer.EncodedObjectStorer, all files) plumbing.Hash {
	t.Helper()
	var entries []entry
	folders := map[string]files{}
	for path, text := range all {
		name, rest, nested := strings.Cut(path, "/")
		if nested {
			if folders[name] == nil {
				folders[name] = files{}
			}
			folders[name][rest] = text
			continue
		}
		e := entry{name: name, mode: filemode.Regular}
		for prefix, mode := range modes {
			if rest, found := strings.CutPrefix(text, prefix); found {
				e.mode, text = mode, rest
			}
		}
		e.hash = must(AddBlob(s, []byte(text)))(t)
		entries = append(entries, e)
	}
	for name, in := range folders {
		entries = append(entries, entry{name, filemode.Dir, treeOf(t, s, in)})
	}
	return must(writeTree(s, entries))(t)
}

// commitOf stores a commit of files.
func commitOf(t testing.TB, s storer.EncodedObjectStorer, all files, parents ...plumbing.Hash) plumbing.Hash {
	t.Helper()
	return must(AddCommit(s, Commit{Tree: treeOf(t, s, all), Parents: parents, AuthorName: "Ada", AuthorEmail: "ada@example.com", Message: "test", When: time.Unix(int64(len(parents)), 0)}))(t)
}

// contents returns the files of a tree.
func contents(t testing.TB, s storer.EncodedObjectStorer, tree plumbing.Hash) files {
	t.Helper()
	all := files{}
	for _, f := range must(filesOf(s, tree))(t) {
		text := ""
		for prefix, mode := range modes {
			if f.Mode == mode {
				text = prefix
			}
		}
		if f.Mode != filemode.Submodule {
			text += string(must(Content(s, f.Hash))(t))
		}
		all[f.Path] = text
	}
	return all
}

// must returns a function that fails the test on an error.
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// rejects checks an error and a part of its message.
func rejects(t testing.TB, err error, part string) {
	t.Helper()
	var rejected *content.Error
	if !errors.As(err, &rejected) || !strings.Contains(rejected.Message, part) {
		t.Errorf("got %v, want a rejection with %q", err, part)
	}
}

func newStore() *memory.Storage { return memory.NewStorage() }

// text returns files in order, for messages.
func (f files) text() string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(f)) {
		b.WriteString(path + "=" + f[path] + ";")
	}
	return b.String()
}
