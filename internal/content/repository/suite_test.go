package repository

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"database/sql"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// world is a database with the tables of repositories and of the audit log, empty at first.
type world struct {
	*testing.T
	url   string
	store *store.Store
	repos *Repositories
	// statements counts those of sessions that read.
	statements atomic.Int64
	// failing is returned instead of recording an event.
	failing error
	clock   time.Time
}

// cases run on both databases.
var cases = []struct {
	name string
	run  func(w *world)
}{
	{"objects and branches are stored and read", testLifecycle},
	{"names of branches", testBranchNames},
	{"moves are compare-and-swap", testMoves},
	{"new objects refer to objects that exist", testReferences},
	{"quotas", testQuotas},
	{"objects that exist are stored once", testIdempotent},
	{"a large change does not fit in memory", testLargeChange},
	{"many objects are read with few statements", testStatements},
	{"damaged objects are not returned", testDamaged},
	{"another account or deployment sees nothing", testTenants},
	{"a change and its events are one transaction", testEvents},
	{"a transaction that runs again has the same effects", testRunAgain},
	{"of concurrent changes of a branch one wins", testConcurrent},
	{"unreachable objects are deleted when they are old", testCollect},
	{"what changes during a collection is kept", testCollectDuringChanges},
	{"random changes and collections keep what is reachable", testCollectRandom},
	{"a purge deletes the repository of a deleted deployment only", testPurge},
	{"objects are read and listed by indexes", testPlan},
}

func TestDatabases(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { c.run(openWorld(t, newDatabase(t))) })
		}
	})
}

// start is the time at which tests begin.
var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func openWorld(t *testing.T, url string) *world {
	t.Helper()
	s := contenttest.Open(t, url, audit.Owner, Owner)
	w := &world{T: t, url: url, store: s, clock: start}
	w.repos = w.newRepositories()
	return w
}

// newRepositories returns repositories with a cache of their own, as another process.
func (w *world) newRepositories() *Repositories {
	return &Repositories{DB: counting{w.store, &w.statements}, Record: w.record, Now: func() time.Time { return w.clock }}
}

// another returns the database as another replica opens it; SQLite has one.
func (w *world) another() *store.Store {
	w.Helper()
	if !w.store.Replicated() {
		return w.store
	}
	s := try(store.Open(w.Context(), w.url, nil, audit.Owner, Owner))(w)
	w.Cleanup(func() { _ = s.Close() })
	return s
}

func (w *world) record(ctx context.Context, tx *store.Tx, e audit.Event) error {
	if w.failing != nil {
		return w.failing
	}
	e.Account, e.Source, e.Actor = "demo", audit.SourceREST, audit.Actor{Kind: audit.ActorKey, ID: "k1"}
	return audit.RecordTx(ctx, tx, e)
}

// counting is a database that counts the statements of Read.
type counting struct {
	*store.Store
	statements *atomic.Int64
}

func (c counting) Read(ctx context.Context, work func(q store.Querier) error) error {
	return c.Store.Read(ctx, func(q store.Querier) error { return work(countingQuerier{q, c.statements}) })
}

type countingQuerier struct {
	store.Querier
	statements *atomic.Int64
}

func (c countingQuerier) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c.statements.Add(1)
	return c.Querier.QueryContext(ctx, query, args...)
}

func (c countingQuerier) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	c.statements.Add(1)
	return c.Querier.QueryRowContext(ctx, query, args...)
}

// scope returns a deployment of an account, by their UIDs.
func scope(account, deployment string) content.Scope {
	return content.Scope{Account: store.Account{UID: account, Name: "demo"}, Deployment: store.Deployment{UID: deployment, Namespace: "demo", Name: "sales"}}
}

var demo = scope("a1", "d1")

var zero plumbing.Hash

// session returns a session of a process that has read nothing.
func (w *world) session() *Session { return w.newRepositories().Session(w.Context(), demo) }

// files are the contents of files by path.
type files map[string]string

// commit adds a commit of files.
func (w *world) commit(s *Session, message string, all files, parents ...plumbing.Hash) plumbing.Hash {
	w.Helper()
	var edits []modeltree.Edit
	for path, text := range all {
		edits = append(edits, modeltree.Edit{Path: path, Blob: try(modeltree.AddBlob(s, []byte(text)))(w)})
	}
	tree := try(modeltree.Apply(s, zero, edits))(w)
	return try(modeltree.AddCommit(s, modeltree.Commit{Tree: tree, Parents: parents, AuthorName: "Ada", AuthorEmail: "ada@example.com", Message: message, When: w.clock}))(w)
}

// save makes a commit of files and moves a branch to it.
func (w *world) save(branch string, all files) plumbing.Hash {
	w.Helper()
	s := w.session()
	before, err := s.Branch(branch)
	var parents []plumbing.Hash
	if err == nil {
		parents = append(parents, before.Commit)
	}
	commit := w.commit(s, fmt.Sprint("change of ", branch), all, parents...)
	if err := s.Save([]Move{{branch, before.Commit, commit}}, nil, nil); err != nil {
		w.Fatal(err)
	}
	return commit
}

// remove deletes a branch.
func (w *world) remove(branch string) {
	w.Helper()
	s := w.session()
	if err := s.Save([]Move{{branch, try(s.Branch(branch))(w).Commit, zero}}, nil, nil); err != nil {
		w.Fatal(err)
	}
}

// read returns the files of a branch as another process reads them.
func (w *world) read(branch string) files {
	w.Helper()
	s := w.session()
	all := files{}
	for _, f := range try(modeltree.Files(s, try(s.Branch(branch))(w).Commit, ""))(w) {
		all[f.Path] = string(try(modeltree.Content(s, f.Hash))(w))
	}
	return all
}

// try returns a function that ends the test on an error.
func try[T any](value T, err error) func(w *world) T {
	return func(w *world) T {
		w.Helper()
		if err != nil {
			w.Fatal(err)
		}
		return value
	}
}

func (w *world) number(query string, args ...any) (n int64) {
	w.Helper()
	if err := w.store.Reader().QueryRowContext(w.Context(), query, args...).Scan(&n); err != nil {
		w.Fatal(err)
	}
	return n
}

// check checks the counters, and that each object to which a branch or another object refers is stored.
func (w *world) check() {
	w.Helper()
	for _, column := range []struct{ counter, query string }{
		{"objects", "SELECT COUNT(*) FROM git_object"}, {"branches", "SELECT COUNT(*) FROM git_branch"}, {"bytes", "SELECT COALESCE(SUM(length(data)), 0) FROM git_object"},
	} {
		counted := w.number("SELECT CAST(COALESCE(SUM(" + column.counter + "), 0) AS BIGINT) FROM git_repository")
		if want := w.number(column.query); counted != want {
			w.Errorf("%d %s are counted, there are %d", counted, column.counter, want)
		}
	}
	s := w.session()
	for _, b := range try(s.Branches())(w) {
		if _, err := s.EncodedObject(plumbing.CommitObject, b.Commit); err != nil {
			w.Fatalf("branch %s: %v", b.Name, err)
		}
	}
	iterator := try(s.IterEncodedObjects(plumbing.AnyObject))(w)
	err := iterator.ForEach(func(in plumbing.EncodedObject) error {
		data, err := readAll(in)
		if err != nil {
			return err
		}
		references, err := modeltree.References(in.Type(), data)
		for _, r := range references {
			if err := s.HasEncodedObject(r.Hash); err != nil {
				return fmt.Errorf("%s %s refers to %s %s: %w", in.Type(), in.Hash(), r.Type, r.Hash, err)
			}
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
}

// has reports whether an object is stored.
func (w *world) has(hash plumbing.Hash) bool { return w.session().HasEncodedObject(hash) == nil }
