package repository

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

const (
	// saveURL makes the test binary a process that moves the branch main again and again. It writes each
	// commit to standard output before it saves it.
	saveURL = "QUOIN_REPOSITORY_SAVE_URL"
	// collectURL makes it a process that collects, and reports each transaction before it begins.
	collectURL = "QUOIN_REPOSITORY_COLLECT_URL"
)

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]func(url string) error{saveURL: saveForever, collectURL: collectSlowly})
}

func saveForever(url string) error {
	ctx := context.Background()
	s, err := store.Open(ctx, url, nil, audit.Owner, Owner)
	if err != nil {
		return err
	}
	repos := &Repositories{DB: s, Record: func(ctx context.Context, tx *store.Tx, e audit.Event) error {
		e.Account, e.Source, e.Actor = "demo", audit.SourceREST, audit.Actor{Kind: audit.ActorKey, ID: "k1"}
		return audit.RecordTx(ctx, tx, e)
	}}
	for i := 0; ; i++ {
		if err := saveNext(repos.Session(ctx, demo), i); err != nil {
			return err
		}
	}
}

// saveNext makes a commit with many objects and one event.
func saveNext(s *Session, i int) error {
	before, err := s.Branch("main")
	if err != nil && i > 0 {
		return err
	}
	var edits []modeltree.Edit
	for n := range 300 {
		blob, err := modeltree.AddBlob(s, []byte(fmt.Sprint("change ", i, " file ", n)))
		if err != nil {
			return err
		}
		edits = append(edits, modeltree.Edit{Path: fmt.Sprintf("d%d/f%d", n%10, n), Blob: blob})
	}
	tree, err := modeltree.Apply(s, before.Commit, edits)
	if err != nil {
		return err
	}
	parents := []plumbing.Hash{before.Commit}
	if before.Commit.IsZero() {
		parents = nil
	}
	commit, err := modeltree.AddCommit(s, modeltree.Commit{Tree: tree, Parents: parents, Message: fmt.Sprint(i), When: time.Now()})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, i, before.Commit, commit)
	event := audit.Event{Name: changedModel, Outcome: audit.Succeeded, Object: audit.Object{Kind: "Branch", Name: "main"}}
	return s.Save([]Move{{"main", before.Commit, commit}}, []audit.Event{event}, nil)
}

// TestSaveIsKilled kills a process that changes a branch: it is at the old or the new commit, with all
// objects and the events of the changes that were made.
func TestSaveIsKilled(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for round := range 4 {
			url := newDatabase(t)
			var last string
			storetest.KillChild(t, saveURL, url, func(line string) bool {
				last = line
				if !strings.HasPrefix(line, fmt.Sprint(2+round, " ")) {
					return false
				}
				time.Sleep(time.Duration(round) * 7 * time.Millisecond) // at different points of the transaction
				return true
			})
			w := openWorld(t, url)
			var i int64
			var before, after string
			if _, err := fmt.Sscan(last, &i, &before, &after); err != nil {
				t.Fatal(err, last)
			}
			at, events := try(w.session().Branch("main"))(w).Commit.String(), w.number("SELECT COUNT(*) FROM audit_event")
			if at == before && events != i || at == after && events != i+1 || at != before && at != after {
				t.Errorf("change %d: the branch was at %s, is at %s, should go to %s; %d events", i, before, at, after, events)
			}
			if got := w.read("main"); len(got) != 300 {
				t.Errorf("%d files", len(got))
			}
			w.check()
		}
	})
}

// later is when the objects of the test are old.
var later = time.Now().Add(2 * minAge)

func collectSlowly(url string) error {
	s, err := store.Open(context.Background(), url, nil, audit.Owner, Owner)
	if err != nil {
		return err
	}
	c := &collection{store: s, scope: demo, until: later.Add(-minAge).UnixMicro(), marked: map[plumbing.Hash]bool{}, batch: 20}
	c.beforeDelete = func() { fmt.Println("deleting") }
	return c.run(context.Background(), repositoryState{account: "a1", deployment: "d1", generation: 1})
}

// TestCollectIsKilled kills a process that deletes unreachable objects: those that are left refer to
// objects that are left, and the next collection deletes them.
func TestCollectIsKilled(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		url := newDatabase(t)
		w := openWorld(t, url)
		w.clock = time.Now()
		w.save("kept", files{"a": "1"})
		all := files{}
		for i := range 400 {
			all[fmt.Sprintf("d%d/f%d", i%20, i)] = fmt.Sprint(i)
		}
		w.save("old", all)
		w.remove("old")
		before := w.number("SELECT objects FROM git_repository")
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			transactions := 0
			storetest.KillChild(t, collectURL, url, func(string) bool {
				transactions++
				return transactions == 5
			})
		}
		w = openWorld(t, url)
		if n := w.number("SELECT objects FROM git_repository"); n == before || n <= 3 {
			t.Fatalf("%d of %d objects are left: the collection was not killed half-way", n, before)
		}
		w.check()
		w.clock = later
		w.collect()
		if n := w.number("SELECT objects FROM git_repository"); n != 3 || w.read("kept")["a"] != "1" {
			t.Errorf("%d objects are left", n)
		}
		w.check()
	})
}
