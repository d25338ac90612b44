package repository

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

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
)

func testLifecycle(w *world) {
	if all := try(w.session().Branches())(w); len(all) != 0 {
		w.Errorf("%v", all)
	}
	_, err := w.session().Branch("main")
	contenttest.Rejects(w, err, content.NotFound, `branch "main" does not exist`)

	first := w.save("main", files{"cube.js": "1", "model/cubes/a.yml": "2", "empty": ""})
	w.clock = w.clock.Add(time.Minute)
	second := w.save("main", files{"cube.js": "1", "model/cubes/a.yml": "3", "empty": ""})
	if got := w.read("main"); !maps.Equal(got, files{"cube.js": "1", "model/cubes/a.yml": "3", "empty": ""}) {
		w.Errorf("%v", got)
	}
	s := w.session()
	b := try(s.Branch("main"))(w)
	if b != (Branch{"main", second, w.clock}) {
		w.Errorf("%+v", b)
	}
	// As go-git reads it.
	commit := try(gitobject.GetCommit(s, second))(w)
	if commit.ParentHashes[0] != first || commit.Author.Name != "Ada" {
		w.Errorf("%+v", commit)
	}
	file := try(commit.File("model/cubes/a.yml"))(w)
	if text := try(file.Contents())(w); text != "3" {
		w.Error(text)
	}
	if _, err := s.EncodedObject(plumbing.TreeObject, second); !errors.Is(err, plumbing.ErrObjectNotFound) {
		w.Error("a commit was returned as a tree:", err)
	}
	missing := plumbing.NewHash("1234")
	if _, err := s.EncodedObject(plumbing.AnyObject, missing); !errors.Is(err, plumbing.ErrObjectNotFound) {
		w.Error(err)
	}
	if _, err := s.EncodedObjectSize(missing); !errors.Is(err, plumbing.ErrObjectNotFound) {
		w.Error(err)
	}
	w.check()
	w.save("feature/orders", files{"a": "1"})
	var names []string
	for _, b := range try(s.Branches())(w) {
		names = append(names, b.Name)
	}
	if strings.Join(names, " ") != "feature/orders main" {
		w.Error(names)
	}
	w.remove("main")
	_, err = s.Branch("main")
	contenttest.Rejects(w, err, content.NotFound, "main")
	w.check()
}

func testBranchNames(w *world) {
	s := w.session()
	commit := w.commit(s, "m", files{"a": "1"})
	for _, name := range []string{
		"", "-a", "a..b", "a b", "a~", "a^", "a:b", "a?", "a*", "a[", `a\b`, "/a", "a/", "a//b", ".a", "a/.b", "a.", "a.lock", "a.lock/b", "@", "a@{b", "HEAD",
		"a\x00b", "a\nb", "a\u202eb", "\xff", strings.Repeat("a", 245), "main\x7f",
	} {
		contenttest.Rejects(w, s.Save([]Move{{name, zero, commit}}, nil, nil), content.Invalid, "branch: ")
		_, err := s.Branch(name)
		contenttest.Rejects(w, err, content.NotFound, "does not exist")
	}
	for _, name := range []string{"main", "feature/orders", "dev-ada", "dbt-sync/main-20261122-ab12", "ü", strings.Repeat("a", 244), "a-", "a@b"} {
		if err := s.Save([]Move{{name, zero, commit}}, nil, nil); err != nil {
			w.Error(err)
		}
	}
	contenttest.Rejects(w, s.Save([]Move{{"feature", zero, commit}}, nil, nil), content.Conflict, `beside branch "feature/orders"`)
	contenttest.Rejects(w, s.Save([]Move{{"main/x", zero, commit}}, nil, nil), content.Conflict, `beside branch "main"`)
	// A branch takes the place of one that is deleted in the same change.
	if err := s.Save([]Move{{"main/x", zero, commit}, {"main", commit, zero}}, nil, nil); err != nil {
		w.Error(err)
	}
	w.check()
}

func testMoves(w *world) {
	first := w.save("main", files{"a": "1"})
	s := w.session()
	second := w.commit(s, "second", files{"a": "2"}, first)
	for _, test := range []struct {
		moves   []Move
		reason  content.Reason
		message string
	}{
		{[]Move{{"main", zero, second}}, content.Conflict, "is at " + first.String() + ", not at no commit"},
		{[]Move{{"main", second, first}}, content.Conflict, "it has changed meanwhile"},
		{[]Move{{"main", second, zero}}, content.Conflict, "it has changed meanwhile"},
		{[]Move{{"main", second, second}}, content.Conflict, "it has changed meanwhile"},
		{[]Move{{"other", first, second}}, content.Conflict, "is at no commit"},
		{[]Move{{"other", first, zero}}, content.Conflict, "is at no commit"},
		{[]Move{{"other", zero, zero}}, content.Invalid, "from nothing to nothing"},
		{[]Move{{"main", first, second}, {"main", second, first}}, content.Invalid, "twice"},
		{[]Move{{"b", zero, second}, {"main", zero, second}}, content.Conflict, "main"},
	} {
		contenttest.Rejects(w, s.Save(test.moves, nil, nil), test.reason, test.message)
		if all := try(s.Branches())(w); len(all) != 1 || all[0].Commit != first || w.has(second) {
			w.Fatalf("%v changed %v", test.moves, all)
		}
	}
	if err := s.Save([]Move{{"main", first, second}, {"b", zero, first}}, nil, nil); err != nil {
		w.Error(err)
	}
	if err := s.Save([]Move{{"main", second, second}, {"b", first, zero}}, nil, nil); err != nil {
		w.Error(err)
	}
	if err := w.session().Save([]Move{{"main", second, first}}, nil, nil); err != nil {
		w.Error(err)
	}
	w.check()
}

func testReferences(w *world) {
	missing := plumbing.NewHash("1234")
	blob := func(s *Session) plumbing.Hash { return try(modeltree.AddBlob(s, []byte("x")))(w) }
	commitOf := func(s *Session, tree plumbing.Hash, parents ...plumbing.Hash) plumbing.Hash {
		return try(modeltree.AddCommit(s, modeltree.Commit{Tree: tree, Parents: parents, AuthorName: "a", When: start}))(w)
	}
	raw := func(s *Session, entry string, hash plumbing.Hash) plumbing.Hash {
		o := s.NewEncodedObject()
		o.SetType(plumbing.TreeObject)
		writer := try(o.Writer())(w)
		_, err := writer.Write(append(append([]byte(entry), 0), hash[:]...))
		return try(try(s.SetEncodedObject(o))(w), err)(w)
	}
	stored := w.save("main", files{"a": "1"})
	for name, test := range map[string]struct {
		add     func(s *Session) plumbing.Hash
		message string
	}{
		"a branch of nothing":             {func(*Session) plumbing.Hash { return missing }, "a branch refers to the commit " + missing.String() + ", which does not exist"},
		"a branch of a blob":              {blob, "as a commit, which is a blob"},
		"a commit of nothing":             {func(s *Session) plumbing.Hash { return commitOf(s, missing) }, "refers to the tree " + missing.String()},
		"a commit of a blob":              {func(s *Session) plumbing.Hash { return commitOf(s, blob(s)) }, "as a tree, which is a blob"},
		"a commit of a commit":            {func(s *Session) plumbing.Hash { return commitOf(s, stored) }, "as a tree, which is a commit"},
		"a parent that does not exist":    {func(s *Session) plumbing.Hash { return commitOf(s, raw(s, "100644 a", blob(s)), missing) }, "refers to the commit"},
		"a file that does not exist":      {func(s *Session) plumbing.Hash { return commitOf(s, raw(s, "100644 a", missing)) }, "refers to the blob"},
		"a file that is a commit":         {func(s *Session) plumbing.Hash { return commitOf(s, raw(s, "100644 a", stored)) }, "as a blob, which is a commit"},
		"a folder that is a file":         {func(s *Session) plumbing.Hash { return commitOf(s, raw(s, "40000 a", blob(s))) }, "as a tree, which is a blob"},
		"a folder that is no such object": {func(s *Session) plumbing.Hash { return commitOf(s, raw(s, "40000 a", missing)) }, "refers to the tree"},
	} {
		s := w.session()
		err := s.Save([]Move{{"b", zero, test.add(s)}}, nil, nil)
		contenttest.Rejects(w, err, content.Invalid, test.message)
		if len(try(s.Branches())(w)) != 1 {
			w.Fatal(name)
		}
	}
	s := w.session()
	if err := s.Save([]Move{{"b", zero, commitOf(s, raw(s, "160000 a", missing))}}, nil, nil); err != nil {
		w.Error("the commit of a submodule is in another repository:", err)
	}
	for name, o := range map[string]struct {
		kind plumbing.ObjectType
		data []byte
	}{
		"a malformed tree":   {plumbing.TreeObject, []byte("x")},
		"a malformed commit": {plumbing.CommitObject, nil},
		"too large":          {plumbing.BlobObject, make([]byte, modeltree.MaxObjectBytes+1)},
	} {
		in := &plumbing.MemoryObject{}
		in.SetType(o.kind)
		_, _ = in.Write(o.data)
		_, err := s.SetEncodedObject(in)
		contenttest.Rejects(w, err, content.Invalid, "")
		if err == nil {
			w.Error(name)
		}
	}
	w.check()
}

func testTenants(w *world) {
	commit := w.save("main", files{"a": "1"})
	shared := w.repos // with the cache of the owner
	if _, err := shared.Session(w.Context(), demo).EncodedObject(plumbing.AnyObject, commit); err != nil {
		w.Fatal(err)
	}
	for _, other := range []content.Scope{scope("a1", "d2"), scope("a2", "d1"), scope("a2", "d3")} {
		s := shared.Session(w.Context(), other)
		if _, err := s.EncodedObject(plumbing.AnyObject, commit); !errors.Is(err, plumbing.ErrObjectNotFound) {
			w.Errorf("%+v reads it: %v", other, err)
		}
		if err := s.HasEncodedObject(commit); !errors.Is(err, plumbing.ErrObjectNotFound) {
			w.Error(err)
		}
		if all := try(s.Branches())(w); len(all) != 0 {
			w.Error(all)
		}
		if err := s.EachStored([]plumbing.Hash{commit}, func(Stored) error { return errors.New("it is returned") }); err != nil {
			w.Error(err)
		}
		contenttest.Rejects(w, s.Save([]Move{{"main", commit, zero}}, nil, nil), content.Conflict, "is at no commit")
		contenttest.Rejects(w, s.Save([]Move{{"main", zero, commit}}, nil, nil), content.Invalid, "does not exist")
		iterator := try(s.IterEncodedObjects(plumbing.AnyObject))(w)
		if _, err := iterator.Next(); err == nil {
			w.Error("it has objects")
		}
	}
}

var changedModel = audit.Declare("Changed a model in a test")

func testEvents(w *world) {
	event := audit.Event{Name: changedModel, Outcome: audit.Succeeded, Object: audit.Object{Kind: "Branch", Name: "main"}}
	s := w.session()
	commit := w.commit(s, "m", files{"a": "1"})
	failure := errors.New("it fails")
	w.failing = failure
	if err := s.Save([]Move{{"main", zero, commit}}, []audit.Event{event}, nil); !errors.Is(err, failure) {
		w.Error(err)
	}
	w.failing = nil
	fail := func(context.Context, *store.Tx) error { return failure }
	if err := s.Save([]Move{{"main", zero, commit}}, []audit.Event{event}, fail); !errors.Is(err, failure) {
		w.Error(err)
	}
	if err := s.Save(nil, []audit.Event{event}, fail); !errors.Is(err, failure) {
		w.Error(err)
	}
	if n := w.number("SELECT COUNT(*) FROM git_object") + w.number("SELECT COUNT(*) FROM git_branch") + w.number("SELECT COUNT(*) FROM audit_event"); n != 0 {
		w.Errorf("%d rows are left", n)
	}
	err := s.Save([]Move{{"main", zero, commit}}, []audit.Event{event}, func(ctx context.Context, tx *store.Tx) error {
		// It runs before the moves, and sees the objects.
		var branches, objects int
		if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM git_branch").Scan(&branches); err != nil {
			return err
		}
		err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM git_object").Scan(&objects)
		if branches != 0 || objects != 3 {
			w.Errorf("%d branches, %d objects", branches, objects)
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	if n := w.number("SELECT COUNT(*) FROM audit_event"); n != 1 {
		w.Errorf("%d events", n)
	}
	w.check()
}

// again is a database that runs each transaction twice, as after a deadlock.
type again struct{ *store.Store }

func (a again) Tx(ctx context.Context, work func(tx *store.Tx) error) error {
	first := errors.New("the first run is rolled back")
	err := a.Store.Tx(ctx, func(tx *store.Tx) error { return errors.Join(work(tx), first) })
	if !errors.Is(err, first) {
		return err
	}
	return a.Store.Tx(ctx, work)
}

func testRunAgain(w *world) {
	w.repos.DB = again{w.store}
	s := w.repos.Session(w.Context(), demo)
	runs := 0
	commit := w.commit(s, "m", files{"a": "1", "b": noise(100)})
	event := audit.Event{Name: changedModel, Outcome: audit.Succeeded, Object: audit.Object{Kind: "Branch", Name: "main"}}
	err := s.Save([]Move{{"main", zero, commit}}, []audit.Event{event}, func(context.Context, *store.Tx) error { runs++; return nil })
	if err != nil || runs != 2 {
		w.Error(err, runs)
	}
	if n := w.number("SELECT COUNT(*) FROM audit_event"); n != 1 {
		w.Errorf("%d events", n)
	}
	if got := w.read("main"); got["a"] != "1" {
		w.Error(got)
	}
	w.check()
}

// testConcurrent moves a branch from two replicas at once.
func testConcurrent(w *world) {
	replicas := []*store.Store{w.store, w.another()}
	for round := range 5 {
		before := w.save("main", files{"round": fmt.Sprint(round)})
		const callers = 6
		results := make(chan error, callers)
		var all sync.WaitGroup
		for i := range callers {
			repos := w.newRepositories()
			repos.DB = replicas[i%2]
			s := repos.Session(context.Background(), demo)
			commit := w.commit(s, fmt.Sprint("caller ", i), files{"caller": fmt.Sprint(i), "more": noise(1000)}, before)
			all.Go(func() { results <- s.Save([]Move{{"main", before, commit}}, nil, nil) })
		}
		all.Wait()
		close(results)
		won := 0
		for err := range results {
			if err == nil {
				won++
			} else {
				contenttest.Rejects(w, err, content.Conflict, "it has changed meanwhile")
			}
		}
		if won != 1 {
			w.Fatalf("%d callers moved the branch", won)
		}
		w.check()
	}
}
