package repository

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/modeltree"
)

// noise returns bytes that cannot be compressed.
func noise(n int) string {
	data := make([]byte, n)
	_, _ = rand.Read(data)
	return string(data)
}

func testQuotas(w *world) {
	limited := func(q Quota, s content.Scope) *Session {
		repos := w.newRepositories()
		repos.Quota = q
		return repos.Session(w.Context(), s)
	}
	try1 := func(s *Session, branch string, all files) error {
		commit := w.commit(s, "m", all)
		return s.Save([]Move{{branch, zero, commit}}, nil, nil)
	}
	if err := try1(w.session(), "main", files{"a": noise(10_000)}); err != nil {
		w.Fatal(err)
	}
	bytes := w.number("SELECT bytes FROM git_repository")
	if bytes < 10_000 || bytes > 11_000 {
		w.Errorf("%d bytes", bytes)
	}
	contenttest.Rejects(w, try1(limited(Quota{DeploymentBytes: 15_000}, demo), "b", files{"b": noise(10_000)}), content.Conflict,
		fmt.Sprintf("there are %d bytes in the repository of the deployment, and would be", bytes))
	contenttest.Rejects(w, try1(limited(Quota{AccountBytes: 15_000}, scope("a1", "d2")), "b", files{"b": noise(10_000)}), content.Conflict,
		fmt.Sprintf("there are %d bytes in all repositories of the account, and would be", bytes))
	contenttest.Rejects(w, try1(limited(Quota{MaxObjects: 5}, demo), "b", files{"b": "1"}), content.Conflict, "there are 3 objects in the repository of the deployment, and would be 6; allowed: 5")
	contenttest.Rejects(w, try1(limited(Quota{MaxBranches: 1}, demo), "b", files{"b": "1"}), content.Conflict, "there are 1 branches in the repository of the deployment, and would be 2; allowed: 1")
	// Other accounts do not count, the same objects count once, and a smaller quota does not keep
	// branches from being deleted.
	if err := try1(limited(Quota{AccountBytes: 15_000}, scope("a2", "d3")), "b", files{"b": noise(10_000)}); err != nil {
		w.Error(err)
	}
	s := limited(Quota{DeploymentBytes: 1, AccountBytes: 1, MaxObjects: 1, MaxBranches: 1}, demo)
	if err := s.Save([]Move{{"main", try(s.Branch("main"))(w).Commit, zero}}, nil, nil); err != nil {
		w.Error(err)
	}
	contenttest.Exec(w, w.store, "DELETE FROM git_object WHERE account_uid = 'a2'")
	contenttest.Exec(w, w.store, "DELETE FROM git_branch WHERE account_uid = 'a2'")
	contenttest.Exec(w, w.store, "DELETE FROM git_repository WHERE account_uid = 'a2'")
	w.check()
}

func testIdempotent(w *world) {
	all := files{"a": "1", "b/c": noise(5000)}
	commit := w.save("main", all)
	objects, bytes := w.number("SELECT objects FROM git_repository"), w.number("SELECT bytes FROM git_repository")
	s := w.session()
	if again := w.commit(s, "change of main", all); again != commit {
		w.Fatal("the commit differs")
	}
	if err := s.Save(nil, nil, nil); err != nil {
		w.Error(err)
	}
	w.check()
	if w.number("SELECT objects FROM git_repository") != objects || w.number("SELECT bytes FROM git_repository") != bytes {
		w.Error("the same objects are counted again")
	}
	if err := s.Save(nil, nil, nil); err != nil { // nothing new
		w.Error(err)
	}
	// A session goes on after it was saved.
	next := w.commit(s, "next", files{"a": "1", "b/c": "2"}, commit)
	if err := s.Save([]Move{{"main", commit, next}}, nil, nil); err != nil {
		w.Error(err)
	}
	if got := w.read("main"); got["b/c"] != "2" {
		w.Error(got)
	}
	w.check()
}

// testLargeChange adds more than a session holds in memory.
func testLargeChange(w *world) {
	s := w.session()
	var edits []modeltree.Edit
	const size, n = 4 << 20, 12
	for i := range n {
		text := bytes.Repeat([]byte{byte(i)}, size)
		edits = append(edits, modeltree.Edit{Path: fmt.Sprint("f", i), Blob: try(modeltree.AddBlob(s, text))(w)})
		if s.addedBytes > maxAddedBytes {
			w.Fatalf("%d bytes are in memory", s.addedBytes)
		}
	}
	tree := try(modeltree.Apply(s, zero, edits))(w)
	commit := try(modeltree.AddCommit(s, modeltree.Commit{Tree: tree, When: start}))(w)
	if err := s.Save([]Move{{"main", zero, commit}}, nil, nil); err != nil {
		w.Fatal(err)
	}
	all := try(modeltree.Files(w.session(), commit, ""))(w)
	if len(all) != n || all[0].Size != size {
		w.Errorf("%+v", all)
	}
	// Commits and trees are not stored before what they refer to, so they are bounded.
	s = w.session()
	for i := 0; ; i++ {
		_, err := modeltree.AddCommit(s, modeltree.Commit{Tree: tree, Message: strings.Repeat("x", 1<<20) + fmt.Sprint(i), When: start})
		if err != nil {
			contenttest.Rejects(w, err, content.Conflict, "too many commits and folders")
			break
		}
		if s.addedBytes > maxAddedBytes {
			w.Fatalf("%d bytes are in memory", s.addedBytes)
		}
	}
	w.check()
}
