package repository

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
)

func (w *world) collect() {
	w.Helper()
	if err := Collect(w.Context(), w.store, w.clock); err != nil {
		w.Fatal(err)
	}
}

func testCollect(w *world) {
	kept := w.save("main", files{"a": "1", "shared": "s"})
	side := w.save("side", files{"b/c": "2", "shared": "s"})
	w.remove("side")
	w.clock = w.clock.Add(minAge)
	uploaded := w.session()
	blob := try(modeltree.AddBlob(uploaded, []byte("uploaded")))(w)
	if err := uploaded.Save(nil, nil, nil); err != nil {
		w.Fatal(err)
	}
	w.collect()
	if !w.has(side) {
		w.Error("an object was deleted at the age of 25 hours, not after it")
	}
	w.clock = w.clock.Add(time.Second)
	w.collect()
	if w.has(side) || !w.has(kept) || !w.has(blob) {
		w.Errorf("the old branch: %t, main: %t, the upload: %t", w.has(side), w.has(kept), w.has(blob))
	}
	if n := w.number("SELECT COUNT(*) FROM git_object"); n != 5 { // a commit, a tree, two files, the upload
		w.Errorf("%d objects are left", n)
	}
	w.check()
	// The upload of the same content again keeps it for another 24 hours at least.
	w.clock = w.clock.Add(24 * time.Hour)
	uploaded = w.session()
	try(modeltree.AddBlob(uploaded, []byte("uploaded")))(w)
	if err := uploaded.Save(nil, nil, nil); err != nil {
		w.Fatal(err)
	}
	w.clock = w.clock.Add(24 * time.Hour)
	w.collect()
	if !w.has(blob) {
		w.Error("an upload of a day ago is lost")
	}
	w.clock = w.clock.Add(2 * time.Hour)
	w.collect()
	if w.has(blob) || !w.has(kept) {
		w.Error("the upload is still there, or main is not")
	}
	w.check()
	testUnchanged(w)
}

// testUnchanged checks that a collection of a repository that has not changed writes nothing.
func testUnchanged(w *world) {
	w.Helper()
	state := func() string {
		all, err := repositories(w.Context(), w.store.Reader(), repositoryState{})
		return fmt.Sprint(all, err)
	}
	before := state()
	w.clock = w.clock.Add(minAge)
	w.collect()
	w.collect()
	if after := state(); after != before {
		w.Errorf("%s became %s", before, after)
	}
	w.remove("main")
	w.collect()
	if n := w.number("SELECT objects FROM git_repository"); n != 0 {
		w.Errorf("%d objects are left", n)
	}
}

// interrupted is a collection that calls a function before each of its transactions.
func (w *world) interrupted(before func()) *collection {
	return &collection{store: w.store, scope: demo, until: w.clock.Add(-minAge).UnixMicro(), marked: map[plumbing.Hash]bool{}, beforeDelete: before}
}

// state returns what a collection knows of the repository.
func (w *world) state() repositoryState {
	return try(repositories(w.Context(), w.store.Reader(), repositoryState{}))(w)[0]
}

// testCollectDuringChanges uses old unreachable objects while a collection that has found them is
// about to delete them.
func testCollectDuringChanges(w *world) {
	for name, use := range map[string]func(commit, tree, blob plumbing.Hash) error{
		"a branch is made of an old commit": func(commit, _, _ plumbing.Hash) error {
			return w.session().Save([]Move{{"again", zero, commit}}, nil, nil)
		},
		"a commit is made of an old tree": func(_, tree, _ plumbing.Hash) error {
			s := w.session()
			made := try(modeltree.AddCommit(s, modeltree.Commit{Tree: tree, Message: "again", When: w.clock}))(w)
			return s.Save([]Move{{"again", zero, made}}, nil, nil)
		},
		"an old file is used in another tree": func(_, _, blob plumbing.Hash) error {
			s := w.session()
			tree := try(modeltree.Apply(s, zero, []modeltree.Edit{{Path: "used", Blob: blob}}))(w)
			made := try(modeltree.AddCommit(s, modeltree.Commit{Tree: tree, Message: "again", When: w.clock}))(w)
			return s.Save([]Move{{"again", zero, made}}, nil, nil)
		},
		"the same files are stored without a branch": func(_, _, _ plumbing.Hash) error {
			s := w.session()
			w.commit(s, "change of old", files{"d/old": "x"})
			return s.Save(nil, nil, nil)
		},
	} {
		commit := w.save("old", files{"d/old": "x"})
		s := w.session()
		tree := try(modeltree.TreeOf(s, commit))(w)
		blob := try(modeltree.Files(s, commit, ""))(w)[0].Hash
		w.remove("old")
		w.clock = w.clock.Add(minAge + time.Hour)
		calls := 0
		var used error
		c := w.interrupted(func() {
			if calls++; calls == 1 {
				used = use(commit, tree, blob)
			}
		})
		if err := c.run(w.Context(), w.state()); err != nil {
			w.Fatal(err)
		}
		if used != nil || calls == 0 {
			w.Errorf("%s: %v, %d transactions", name, used, calls)
		}
		w.check()
		if !w.has(blob) {
			w.Errorf("%s: it is lost", name)
		}
		if _, err := w.session().Branch("again"); err == nil {
			w.read("again")
			w.remove("again")
		}
		w.clock = w.clock.Add(minAge + time.Hour)
		w.collect()
		if n := w.number("SELECT objects FROM git_repository"); n != 0 {
			w.Errorf("%s: %d objects are left", name, n)
		}
	}
}

// testCollectRandom changes branches and collects at random, with collections that are interrupted by
// changes and others that end half-way, as if they were killed.
func testCollectRandom(w *world) {
	random := rand.New(rand.NewPCG(9, 10))
	branches := map[string]files{}
	change := func() {
		name := fmt.Sprint("b", random.IntN(3))
		if _, exists := branches[name]; exists && random.IntN(3) == 0 {
			w.remove(name)
			delete(branches, name)
			return
		}
		all := files{}
		for range 1 + random.IntN(3) {
			all[fmt.Sprintf("d%d/f%d", random.IntN(2), random.IntN(2))] = fmt.Sprint(random.IntN(4))
		}
		w.save(name, all)
		branches[name] = all
	}
	const killed = "killed"
	for range 60 {
		change()
		w.clock = w.clock.Add(time.Duration(random.IntN(20)) * time.Hour)
		calls, kill := 0, random.IntN(4)
		c := w.interrupted(func() {
			calls++
			if random.IntN(2) == 0 {
				change()
			}
			if calls == kill {
				panic(killed)
			}
		})
		c.batch = 1 + random.IntN(3)
		func() {
			defer func() {
				if r := recover(); r != nil && r != killed {
					panic(r)
				}
			}()
			if err := c.run(w.Context(), w.state()); err != nil {
				w.Fatal(err)
			}
		}()
		w.check()
		for name, want := range branches {
			if got := w.read(name); fmt.Sprint(got) != fmt.Sprint(want) {
				w.Fatalf("branch %s has %v, want %v", name, got, want)
			}
		}
	}
	for name := range branches {
		w.remove(name)
	}
	w.clock = w.clock.Add(minAge + time.Hour)
	w.collectTwice()
	if n := w.number("SELECT COUNT(*) FROM git_object"); n != 0 {
		w.Errorf("%d objects are left", n)
	}
}

// collectTwice collects in two replicas at once.
func (w *world) collectTwice() {
	w.Helper()
	var both errgroup.Group
	for _, replica := range []*store.Store{w.store, w.another()} {
		both.Go(func() error { return Collect(w.Context(), replica, w.clock) })
	}
	if err := both.Wait(); err != nil {
		w.Error(err)
	}
	w.check()
	w.collect() // what one has left because of the other
}

// purgedCluster has no deployment d2 and no account a2.
type purgedCluster struct{}

func (purgedCluster) AccountExists(_ context.Context, a store.Account) (bool, error) {
	return a.UID != "a2", nil
}

func (purgedCluster) DeploymentExists(_ context.Context, d store.Deployment) (bool, error) {
	return d.UID != "d2", nil
}

func testPurge(w *world) {
	for _, in := range []content.Scope{demo, scope("a1", "d2"), scope("a2", "d3")} {
		s := w.newRepositories().Session(w.Context(), in)
		all := files{}
		for i := range 600 {
			all[fmt.Sprint("f", i)] = fmt.Sprint(i)
		}
		if err := s.Save([]Move{{"main", zero, w.commit(s, "m", all)}}, nil, nil); err != nil {
			w.Fatal(err)
		}
	}
	purger := &store.Purger{Store: w.store, Cluster: purgedCluster{}, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler)}
	if err := purger.Scan(w.Context()); err != nil {
		w.Error(err)
	}
	counts := []int64{}
	for _, table := range []string{"git_object", "git_branch", "git_repository", "deployment", "account"} {
		counts = append(counts, w.number("SELECT COUNT(*) FROM "+table))
	}
	if !slices.Equal(counts, []int64{602, 1, 1, 1, 1}) {
		w.Errorf("%v rows are left", counts)
	}
	if got := w.read("main"); len(got) != 600 {
		w.Errorf("%d files are left", len(got))
	}
	w.check()
}
