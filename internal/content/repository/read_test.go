package repository

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// turn records what a session does in turns.
type turn struct {
	waits, yields int
	isAside       bool
}

// Yield implements Turn.
func (t *turn) Yield() error {
	t.yields++
	return nil
}

// Aside implements Turn.
func (t *turn) Aside(wait func() error) error {
	t.waits++
	t.isAside = true
	defer func() { t.isAside = false }()
	return wait()
}

// TestInTurns: other work runs while a session waits for the database, and between two objects.
func TestInTurns(t *testing.T) {
	w := openWorld(t, storetest.SQLiteURL(t))
	commit := w.save("main", files{"a.yml": "cubes: []"})
	s, in := w.session(), &turn{}
	s.InTurns(in)
	if b, err := s.Branch("main"); err != nil || b.Commit != commit || in.waits != 1 {
		t.Errorf("%v, %v, %d waits", b, err, in.waits)
	}
	if _, err := s.EncodedObject(plumbing.CommitObject, commit); err != nil || in.waits != 2 || in.yields != 1 {
		t.Errorf("%v, %d waits, %d yields", err, in.waits, in.yields)
	}
	next := w.commit(s, "next", files{"b.yml": "cubes: []"}, commit)
	before := in.waits
	err := s.Save([]Move{{"main", commit, next}}, nil, func(context.Context, *store.Tx) error {
		if !in.isAside {
			t.Error("the transaction holds the place")
		}
		return nil
	})
	if err != nil || in.waits == before {
		t.Errorf("%v, %d waits", err, in.waits)
	}
	s.InTurns(nil)
	before = in.waits
	if _, err := s.Branch("main"); err != nil || in.waits != before {
		t.Errorf("afterwards: %v, %d waits", err, in.waits)
	}
}

func testStatements(w *world) {
	const folders, perFolder = 20, 100
	all := files{}
	for i := range folders * perFolder {
		all[fmt.Sprintf("model/d%d/f%d.yml", i%folders, i)] = fmt.Sprint("cubes: ", i)
	}
	commit := w.save("main", all)
	counted := func(work func()) int64 {
		before := w.statements.Load()
		work()
		return w.statements.Load() - before
	}
	s := w.session()
	var list []modeltree.File
	if n := counted(func() { list = try(modeltree.Files(s, commit, ""))(w) }); n > 20 || len(list) != len(all) {
		w.Errorf("a list of %d files takes %d statements", len(list), n)
	}
	read := counted(func() {
		for _, f := range list {
			if text := string(try(modeltree.Content(s, f.Hash))(w)); text != all[f.Path] {
				w.Fatal(f.Path, text)
			}
		}
	})
	if read > 3*folders {
		w.Errorf("reading %d files one after the other takes %d statements", len(list), read)
	}
	w.readHistory()
	again := w.repos.Session(w.Context(), demo)
	try(modeltree.Files(again, commit, ""))(w)
	again = w.repos.Session(w.Context(), demo)
	if n := counted(func() { try(modeltree.Files(again, commit, ""))(w) }); n != 0 {
		w.Errorf("listing them again takes %d statements", n)
	}
	var hashes []plumbing.Hash
	for _, f := range list {
		hashes = append(hashes, f.Hash)
	}
	seen := 0
	s = w.session()
	stored := counted(func() {
		err := s.EachStored(append(hashes, plumbing.NewHash("1234")), func(o Stored) error {
			seen++
			_, err := o.object()
			return err
		})
		if err != nil {
			w.Error(err)
		}
	})
	if seen != len(list) || stored > 20 {
		w.Errorf("%d objects are read with %d statements", seen, stored)
	}
}

// readHistory reads the history of two branches: one that was made in one change, newest commit first
// as in a packfile, and one that was made commit by commit.
func (w *world) readHistory() {
	w.Helper()
	const commits = 300
	s := w.session()
	tree := try(modeltree.Apply(s, zero, nil))(w)
	var all []plumbing.Hash
	add := func(s *Session) plumbing.Hash {
		parents := all[max(0, len(all)-1):]
		return try(modeltree.AddCommit(s, modeltree.Commit{Tree: tree, Parents: parents, Message: fmt.Sprint(len(all)), When: start}))(w)
	}
	for range commits {
		all = append(all, add(s))
	}
	slices.Reverse(s.order)
	if err := s.Save([]Move{{"pushed", zero, all[commits-1]}}, nil, nil); err != nil {
		w.Fatal(err)
	}
	for range 100 {
		w.clock = w.clock.Add(time.Second)
		s, before := w.session(), all[len(all)-1]
		all = append(all, add(s))
		if err := s.Save([]Move{{"pushed", before, all[len(all)-1]}}, nil, nil); err != nil {
			w.Fatal(err)
		}
	}
	before := w.statements.Load()
	if !try(modeltree.IsAncestor(w.session(), all[0], all[len(all)-1]))(w) {
		w.Error("the first commit is not in the history")
	}
	if n := w.statements.Load() - before; n > 40 {
		w.Errorf("reading a history of %d commits takes %d statements", len(all), n)
	}
}

func testDamaged(w *world) {
	commit := w.save("main", files{"a": noise(1000)})
	file := try(modeltree.Files(w.session(), commit, ""))(w)[0]
	compressed := func(n int) []byte { return try(try(newCompressor())(w).bytes([]byte(noise(n))))(w) }
	data, short, long := compressed(1000), compressed(999), compressed(1001)
	flipped := bytes.Clone(data)
	flipped[700] ^= 1
	for _, damaged := range [][]byte{flipped, data[:500], {}, {1, 2, 3}, short, long} {
		contenttest.Exec(w, w.store, "UPDATE git_object SET data = $1 WHERE hash = $2", damaged, file.Hash[:])
		if _, err := modeltree.Content(w.session(), file.Hash); err == nil || !strings.Contains(err.Error(), "damaged") {
			w.Error(err)
		}
	}
}

// testPlan checks the plans of statements, first without statistics, as after the first push.
func testPlan(w *world) {
	w.save("main", files{"a": "1"})
	if w.store.Dialect() == store.PostgreSQL {
		contenttest.Exec(w, w.store, "INSERT INTO git_object SELECT 'a1', 'd1', decode(lpad(to_hex(n), 40, '0'), 'hex'), 3, 1, '', n FROM generate_series(1, 20000) AS n")
	}
	hashes := make([]plumbing.Hash, 16)
	for i := range hashes {
		hashes[i][0] = byte(i)
	}
	list, args := batch(demo, hashes)
	byHash := fmt.Sprintf("SELECT hash, type, size, data FROM git_object WHERE "+keyIn, list)
	w.plan("git_object_pkey", byHash, args...)
	if w.store.Dialect() == store.PostgreSQL {
		contenttest.Exec(w, w.store, "ANALYZE git_object")
	}
	w.plan("git_object_pkey", byHash, args...)
	w.plan("git_object_age", "SELECT hash, type, created_at FROM git_object WHERE "+byAge+" AND (created_at, hash) > ($3, $4) AND created_at < $5 ORDER BY created_at, hash LIMIT $6",
		"a1", "d1", 5, []byte{1}, 19_000, hashPage)
	w.plan("git_object_age", "SELECT hash FROM git_object WHERE "+byAge+" AND type = $3 AND created_at <= 5000 ORDER BY created_at DESC LIMIT 128", "a1", "d1", 1)
}

// plan checks that a statement uses an index and does not sort.
func (w *world) plan(index, query string, args ...any) {
	w.Helper()
	plan := strings.ReplaceAll(contenttest.Plan(w, w.store, query, args...), "sqlite_autoindex_git_object_1", "git_object_pkey")
	if !strings.Contains(plan, index) || strings.Contains(plan, "Sort") || strings.Contains(plan, "TEMP B-TREE") {
		w.Error(plan)
	}
}
