package upload

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/modeltree"
)

// filesFrom returns files: one a line, the path before the first "=".
func filesFrom(text string) model {
	m := model{}
	for line := range strings.SplitSeq(text, "\n") {
		if path, text, found := strings.Cut(line, "="); found {
			m[path] = text
		}
	}
	return m
}

// blobOf returns the blob of a content.
func blobOf(text string) plumbing.Hash {
	return plumbing.ComputeHash(plumbing.BlobObject, []byte(text))
}

// FuzzFinish checks the end of an upload: whatever the branch has, and the client has uploaded and lists,
// the end is rejected, or the branch has what the list says and nothing that the client did not ask for.
func FuzzFinish(f *testing.F) {
	f.Add("a=1\nb=2", "c=3", "a=1\nc=3", false, "")
	f.Add("a=1", "a=2", "a=1", true, "")
	f.Add("a=1", "", "a=2", false, "")
	f.Add("", "../a=1", "../a=1", false, "message")
	f.Add("a/b=1", "a=1", "a=1", false, strings.Repeat("x", 50))
	f.Add("a=1", "b=1", "b=1", true, "\x00")
	f.Fuzz(func(t *testing.T, branch, uploaded, listed string, keep bool, message string) {
		before, sent, list := filesFrom(branch), filesFrom(uploaded), filesFrom(listed)
		finish := &Finish{ID: "x", Files: list.hashes(), KeepOthers: keep, Message: message}
		if finish.digest() != (&Finish{ID: "y", Files: maps.Clone(finish.Files), KeepOthers: keep, Message: message}).digest() {
			t.Fatal("the digest of the same end differs")
		}
		var current []modeltree.File
		for path, text := range before {
			current = append(current, modeltree.File{Path: path, Hash: blobOf(text), Size: int64(len(text)), Mode: filemode.Regular})
		}
		stored := map[string]file{}
		for path, text := range sent {
			stored[path] = file{path: path, blob: blobOf(text), sha1: sha1Of([]byte(text)), size: int64(len(text))}
		}
		err := finish.check()
		var edits []modeltree.Edit
		if err == nil {
			edits, err = finish.edits(current, before.hashes(), stored)
		}
		var rejected *content.Error
		switch {
		case err != nil && !errors.As(err, &rejected):
			t.Fatalf("%T: %v", err, err)
		case err != nil:
			return
		}
		checkEnd(t, before, list, edits, keep)
		for path := range sent {
			if _, found := list[path]; !found {
				t.Fatalf("%q was uploaded, is not listed, and is lost", path)
			}
		}
	})
}

// checkEnd checks the files of a branch after edits.
func checkEnd(t *testing.T, before, list model, edits []modeltree.Edit, keep bool) {
	t.Helper()
	got, want := map[string]plumbing.Hash{}, map[string]plumbing.Hash{}
	for path, text := range before {
		got[path] = blobOf(text)
	}
	if keep {
		maps.Copy(want, got)
	}
	for path, text := range list {
		want[path] = blobOf(text)
	}
	for _, e := range edits {
		if err := modeltree.CheckPath(e.Path); err != nil && !e.Blob.IsZero() {
			t.Fatal(err)
		}
		if got[e.Path] == e.Blob {
			t.Fatalf("the edit of %q changes nothing", e.Path)
		}
		if e.Blob.IsZero() {
			delete(got, e.Path)
			continue
		}
		got[e.Path] = e.Blob
	}
	if !maps.Equal(got, want) {
		t.Fatalf("the branch has %v, want %v", got, want)
	}
}
