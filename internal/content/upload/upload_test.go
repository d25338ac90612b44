package upload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	gitobject "github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
)

var (
	first  = model{"model/cubes/a.yml": "a", "model/cubes/b.yml": "b", "README.md": "first"}
	second = model{"model/cubes/a.yml": "a", "model/cubes/c.yml": "c", "README.md": "second"}
	// added is what a client uploads for second after first.
	added = model{"model/cubes/c.yml": "c", "README.md": "second"}
)

func testUpload(w *world) {
	one := w.upload(first, first)
	w.has(first)
	if !one.Announce {
		w.Error("the first upload is not announced")
	}
	two := w.upload(added, second)
	w.has(second)
	commit, _ := w.branch()
	if two.LastHash != commit.String() || two.LastHash == one.LastHash || w.commits() != 2 {
		w.Errorf("%+v, %+v, %d commits", one, two, w.commits())
	}
	third := maps.Clone(second)
	third["README.md"] = "third"
	three := w.upload(model{"README.md": "third"}, third)
	// Of the second, one file is new, one is changed and one is deleted.
	for hash, want := range map[string]string{one.LastHash: "Upload: 3 files changed\n", two.LastHash: "Upload: 3 files changed\n", three.LastHash: "Upload: 1 file changed\n"} {
		c, err := gitobject.GetCommit(w.repositories.Session(w.Context(), demo), plumbing.NewHash(hash))
		if err != nil || c.Message != want {
			w.Errorf("commit %v, %v; want the message %q", c, err, want)
		}
	}
	commit, _ = w.branch()
	if last, err := w.uploads.Last(w.Context(), demo); err != nil || last != commit {
		w.Errorf("the last upload is %s, %v", last, err)
	}
}

func testRepeat(w *world) {
	id := w.start()
	for path, text := range first {
		if err := w.add(id, path, text); err != nil {
			w.Fatal(err)
		}
	}
	one, err := w.finish(id, first)
	if err != nil || !one.Announce {
		w.Fatalf("%+v, %v", one, err)
	}
	// The answer was lost, and the commit not announced.
	if again, err := w.finish(id, first); err != nil || again != one {
		w.Errorf("%+v, %v, want %+v", again, err, one)
	}
	if err := w.uploads.Announced(w.Context(), demo, id); err != nil {
		w.Fatal(err)
	}
	w.upload(added, second) // another one in between
	if again, err := w.finish(id, first); err != nil || again.LastHash != one.LastHash || again.Announce {
		w.Errorf("%+v, %v, want %+v", again, err, one)
	}
	w.has(second)
	_, err = w.finish(id, second)
	contenttest.Rejects(w, err, content.Conflict, "finished, with other files")
	contenttest.Rejects(w, w.add(id, "x", "x"), content.Conflict, "the upload is finished")
	if w.commits() != 2 {
		w.Errorf("%d commits", w.commits())
	}
}

func testConcurrent(w *world) {
	id := w.start()
	for path, text := range first {
		if err := w.add(id, path, text); err != nil {
			w.Fatal(err)
		}
	}
	var wait sync.WaitGroup
	results := make(chan string, 8)
	for range cap(results) {
		wait.Go(func() {
			result, err := w.finish(id, first)
			if err != nil {
				w.Error(err)
			}
			results <- result.LastHash
		})
	}
	wait.Wait()
	close(results)
	commit, _ := w.branch()
	for hash := range results {
		if hash != commit.String() {
			w.Errorf("a request returned %s, the branch is at %s", hash, commit)
		}
	}
	if w.commits() != 1 {
		w.Errorf("%d commits", w.commits())
	}
}

func testUnchanged(w *world) {
	one := w.upload(first, first)
	two := w.upload(nil, first)
	if two.LastHash != one.LastHash || two.Announce || w.commits() != 1 {
		w.Errorf("%+v after %+v, %d commits", two, one, w.commits())
	}
	// Files that are uploaded although the branch has them.
	if three := w.upload(first, first); three.LastHash != one.LastHash || three.Announce || w.commits() != 1 {
		w.Errorf("%+v after %+v, %d commits", three, one, w.commits())
	}
}

func testKeep(w *world) {
	w.upload(first, first)
	id := w.start()
	if err := w.add(id, "new", "new"); err != nil {
		w.Fatal(err)
	}
	f := Finish{ID: id, Files: model{"new": "new"}.hashes(), KeepOthers: true, Message: " a message\n"}
	if _, err := w.uploads.Finish(w.Context(), demo, by, f, w.target); err != nil {
		w.Fatal(err)
	}
	want := maps.Clone(first)
	want["new"] = "new"
	w.has(want)
	w.upload(nil, model{"new": "new"})
	w.has(model{"new": "new"})
}

func testHashes(w *world) {
	w.upload(first, first)
	before, _ := w.branch()
	for part, c := range map[string]struct{ files, listed model }{
		`"model/cubes/c.yml" with the hash`:           {listed: model{"model/cubes/c.yml": "c"}},
		`the hash of "README.md" is`:                  {files: model{"model/cubes/c.yml": "c", "README.md": "cut o"}, listed: second},
		`"model/cubes/d.yml" was uploaded and is not`: {files: model{"model/cubes/d.yml": "d"}, listed: first},
		`"README.md" with the hash`:                   {listed: model{"README.md": "never uploaded"}},
	} {
		id := w.start()
		for path, text := range c.files {
			if err := w.add(id, path, text); err != nil {
				w.Fatal(err)
			}
		}
		_, err := w.finish(id, c.listed)
		contenttest.Rejects(w, err, content.Invalid, part)
		if after, _ := w.branch(); after != before {
			w.Errorf("%s: the branch has moved", part)
		}
	}
	// A file that is sent again replaces the first.
	id := w.start()
	for _, text := range []string{"cut o", "second"} {
		if err := w.add(id, "README.md", text); err != nil {
			w.Fatal(err)
		}
	}
	if _, err := w.finish(id, model{"README.md": "second"}); err != nil {
		w.Error(err)
	}
	w.has(model{"README.md": "second"})
}

func testInvalid(w *world) {
	id := w.start()
	for _, path := range []string{"", "/a", "../a", "a/../b", "a//b", "a\x00", "a\nb", ".git/config", strings.Repeat("a", 300)} {
		contenttest.Rejects(w, w.add(id, path, "x"), content.Invalid, "path")
		_, err := w.uploads.Finish(w.Context(), demo, by, Finish{ID: id, Files: model{path: "x"}.hashes()}, w.target)
		contenttest.Rejects(w, err, content.Invalid, "path")
	}
	for _, hash := range []string{"", "x", strings.Repeat("A", 40), strings.Repeat("a", 39)} {
		_, err := w.uploads.Finish(w.Context(), demo, by, Finish{ID: id, Files: map[string]string{"a": hash}}, w.target)
		contenttest.Rejects(w, err, content.Invalid, "SHA-1")
	}
	_, err := w.finish(id, nil)
	contenttest.Rejects(w, err, content.Invalid, "files: is empty")
	clash := model{"model/a.yml": "x", "Model/b.yml": "x"}
	for path, text := range clash {
		if err := w.add(id, path, text); err != nil {
			w.Fatal(err)
		}
	}
	_, err = w.finish(id, clash)
	contenttest.Rejects(w, err, content.Invalid, "case")
	w.has(model{})
}

func testOwner(w *world) {
	id := w.start()
	if err := w.add(id, "a", "a"); err != nil {
		w.Fatal(err)
	}
	for _, other := range []struct {
		scope content.Scope
		by    string
	}{{scope("a1", "d2"), by}, {scope("a2", "d1"), by}, {scope("a2", "d3"), by}, {demo, "ApiKey:k2"}} {
		session := w.repositories.Session(w.Context(), other.scope)
		contenttest.Rejects(w, w.addAs(other.scope, other.by, id, "b", "b"), content.NotFound, "transaction")
		_, err := w.uploads.Finish(w.Context(), other.scope, other.by, Finish{ID: id, Files: model{"a": "a"}.hashes()}, func(context.Context) (*Target, error) {
			return &Target{Session: session, Branch: "main"}, nil
		})
		contenttest.Rejects(w, err, content.NotFound, "transaction")
		_, err = w.uploads.Branch(w.Context(), other.scope, other.by, id)
		contenttest.Rejects(w, err, content.NotFound, "transaction")
	}
	if _, err := w.finish(id, model{"a": "a"}); err != nil {
		w.Error(err)
	}
}

func testExpiry(w *world) {
	w.upload(model{"x": "x", "y": "y"}, model{"x": "x", "y": "y"})
	id := w.start()
	if err := w.add(id, "a", "a"); err != nil {
		w.Fatal(err)
	}
	w.clock = w.clock.Add(Lifetime - time.Minute)
	late := w.start()
	if err := w.add(id, "b", "b"); err != nil {
		w.Error(err)
	}
	w.clock = w.clock.Add(time.Minute)
	contenttest.Rejects(w, w.add(id, "c", "c"), content.NotFound, "expired")
	_, err := w.finish(id, model{"a": "a", "b": "b"})
	contenttest.Rejects(w, err, content.NotFound, "expired")
	if err := Expire(w.Context(), w.store, w.clock); err != nil {
		w.Fatal(err)
	}
	if contenttest.Count(w, w.store, "upload") != 1 || contenttest.Count(w, w.store, "upload_file") != 0 || contenttest.Count(w, w.store, "upload_hash") != 2 {
		w.Errorf("%d uploads, %d files, %d hashes are left", contenttest.Count(w, w.store, "upload"), contenttest.Count(w, w.store, "upload_file"), contenttest.Count(w, w.store, "upload_hash"))
	}
	if _, err := w.uploads.Branch(w.Context(), demo, by, late); err != nil {
		w.Error(err)
	}
	if err := Expire(w.Context(), w.store, w.clock.Add(hashLifetime)); err != nil || contenttest.Count(w, w.store, "upload_hash") != 0 {
		w.Errorf("%v: %d hashes are left", err, contenttest.Count(w, w.store, "upload_hash"))
	}
}

// set sets a column of all uploads.
func (w *world) set(column string, value int64) {
	w.Helper()
	err := w.store.Tx(w.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(w.Context(), "UPDATE upload SET "+column+" = $1", value)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
}

func testLimits(w *world) {
	id := w.start()
	contenttest.Rejects(w, w.add(id, "large", strings.Repeat("x", MaxFileBytes+1)), content.Invalid, `"large" has 8388609 bytes; allowed: 8388608`)
	if err := w.add(id, "a", "a"); err != nil {
		w.Fatal(err)
	}
	w.set("bytes", MaxBytes-1)
	contenttest.Rejects(w, w.add(id, "b", "bb"), content.Conflict, "bytes together; allowed: 268435456")
	for path, text := range (model{"a": "aa", "b": ""}) {
		if err := w.add(id, path, text); err != nil {
			w.Errorf("%s: %v", path, err)
		}
	}
	w.set("bytes", 0)
	w.set("files", MaxFiles)
	contenttest.Rejects(w, w.add(id, "c", "c"), content.Conflict, "allowed: 10000")
	if err := w.add(id, "a", "replaced"); err != nil {
		w.Error(err)
	}
	many := map[string]string{}
	for i := range MaxFiles + 1 {
		many[fmt.Sprint(i)] = strings.Repeat("a", 40)
	}
	_, err := w.uploads.Finish(w.Context(), demo, by, Finish{ID: id, Files: many}, w.target)
	contenttest.Rejects(w, err, content.Invalid, "has 10001 files")
}

func testOpen(w *world) {
	oldest := w.start()
	for range MaxOpenOfCreator - 1 {
		w.start()
	}
	if err := w.add(oldest, "a", "a"); err != nil {
		w.Fatal(err)
	}
	w.start()
	contenttest.Rejects(w, w.add(oldest, "b", "b"), content.NotFound, "expired")
	for i := range MaxOpen - MaxOpenOfCreator {
		if _, err := w.uploads.Start(w.Context(), demo, fmt.Sprint("ApiKey:other", i/MaxOpenOfCreator), "main"); err != nil {
			w.Fatal(err)
		}
	}
	_, err := w.uploads.Start(w.Context(), demo, "ApiKey:another", "main")
	contenttest.Rejects(w, err, content.Conflict, "100 open uploads")
	w.start() // in the place of one of its own
	if _, err := w.uploads.Start(w.Context(), scope("a1", "d2"), by, "main"); err != nil {
		w.Error(err)
	}
}

// commitTo commits a model to the branch main, as another client.
func (w *world) commitTo(m model) {
	w.Helper()
	t, err := w.target(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	var edits []modeltree.Edit
	for path, text := range m {
		blob, err := modeltree.AddBlob(t.Session, []byte(text))
		if err != nil {
			w.Fatal(err)
		}
		edits = append(edits, modeltree.Edit{Path: path, Blob: blob})
	}
	tree, err := modeltree.Apply(t.Session, t.Commit, edits)
	if err != nil {
		w.Fatal(err)
	}
	commit := modeltree.Commit{Tree: tree, When: w.clock, Message: "another"}
	if !t.Commit.IsZero() {
		commit.Parents = []plumbing.Hash{t.Commit}
	}
	hash, err := modeltree.AddCommit(t.Session, commit)
	if err != nil {
		w.Fatal(err)
	}
	if err := t.Session.Save([]repository.Move{{Branch: "main", From: t.Commit, To: hash}}, nil, nil); err != nil {
		w.Fatal(err)
	}
}

func testMoved(w *world) {
	w.upload(first, first)
	id := w.start()
	for path, text := range added {
		if err := w.add(id, path, text); err != nil {
			w.Fatal(err)
		}
	}
	moved := false
	_, err := w.uploads.Finish(w.Context(), demo, by, Finish{ID: id, Files: second.hashes(), KeepOthers: true}, func(ctx context.Context) (*Target, error) {
		t, err := w.target(ctx)
		if !moved {
			moved = true
			w.commitTo(model{"another": "another"})
		}
		return t, err
	})
	if err != nil {
		w.Fatal(err)
	}
	w.has(model{"model/cubes/a.yml": "a", "model/cubes/b.yml": "b", "model/cubes/c.yml": "c", "README.md": "second", "another": "another"})
}

func testRoot(w *world) {
	w.commitTo(model{"README.md": "of the repository", "project/model/a.yml": "old"})
	w.root = "project"
	w.upload(model{"model/b.yml": "b"}, model{"model/b.yml": "b"})
	w.has(model{"README.md": "of the repository", "project/model/b.yml": "b"})
}

// counting counts the objects that are read.
type counting struct {
	storer.EncodedObjectStorer
	reads int
}

func (c *counting) EncodedObject(t plumbing.ObjectType, hash plumbing.Hash) (plumbing.EncodedObject, error) {
	c.reads++
	return c.EncodedObjectStorer.EncodedObject(t, hash)
}

func testStoredHashes(w *world) {
	m := model{}
	for i := range 1200 {
		m[fmt.Sprintf("model/%d.yml", i)] = fmt.Sprint(i / 2) // two files of each content
	}
	w.commitTo(m)
	t, err := w.target(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	files, err := modeltree.Files(t.Session, t.Commit, "")
	if err != nil {
		w.Fatal(err)
	}
	w.checkHashes("computed", w.uploads, t, files, m, 1200)
	w.checkHashes("known", w.uploads, t, files, m, 0)
	w.checkHashes("of another process", &Uploads{DB: w.store, Record: record}, t, files, m, 0)
	if n := contenttest.Count(w, w.store, "upload_hash"); n != 600 {
		w.Errorf("%d hashes are stored", n)
	}
}

func (w *world) checkHashes(name string, u *Uploads, t *Target, files []modeltree.File, m model, most int) {
	w.Helper()
	objects := &counting{EncodedObjectStorer: t.Session}
	got, err := u.Hashes(w.Context(), demo, objects, files)
	if err != nil || !maps.Equal(got, m.hashes()) || objects.reads > most {
		w.Errorf("%s: %d hashes, %d objects read, %v", name, len(got), objects.reads, err)
	}
}

func testPurge(w *world) {
	w.upload(first, first)
	w.start()
	other := scope("a1", "d2")
	if _, err := w.uploads.Start(w.Context(), other, by, "main"); err != nil {
		w.Fatal(err)
	}
	for more := true; more; {
		err := w.store.Tx(w.Context(), func(tx *store.Tx) (err error) {
			more, err = Owner.Purge(w.Context(), tx, store.Deleted{AccountUID: "a1", DeploymentUID: "d1"}, 2)
			return err
		})
		if err != nil {
			w.Fatal(err)
		}
	}
	for table, want := range map[string]int{"upload": 1, "upload_file": 0, "upload_last": 0, "upload_hash": 0} {
		if n := contenttest.Count(w, w.store, table); n != want {
			w.Errorf("%s has %d rows, want %d", table, n, want)
		}
	}
}

func testEvents(w *world) {
	w.upload(first, first)
	w.upload(nil, first)
	if got := w.names(); got != strings.Join([]string{audit.FinishedUploadingFiles, audit.StartedUploadingFiles, audit.StartedUploadingFiles}, ", ") {
		w.Errorf("the events are %s", got)
	}
}

// testLive: an upload for a live preview commits as others do, and is not the last upload of the deployment.
func testLive(w *world) {
	id, err := w.uploads.StartLive(w.Context(), demo, by, "main")
	if err != nil || !IsLive(id) || IsLive(w.start()) {
		w.Fatalf("%q, %v", id, err)
	}
	for path, text := range first {
		if err := w.add(id, path, text); err != nil {
			w.Fatal(err)
		}
	}
	if _, err := w.finish(id, first); err != nil {
		w.Fatal(err)
	}
	w.has(first)
	var rejected *content.Error
	if last, err := w.uploads.Last(w.Context(), demo); !errors.As(err, &rejected) || rejected.Reason != content.NotFound {
		w.Errorf("the last upload is %s, %v", last, err)
	}
}
