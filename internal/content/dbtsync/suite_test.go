package dbtsync

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// world is a database with a repository whose branch main has a README.
type world struct {
	*testing.T
	store        *store.Store
	repositories *repository.Repositories
	syncs        *Syncs
	clock        time.Time
	events       []string
	moved        int
}

var cases = []struct {
	name string
	run  func(w *world)
}{
	{"a sync to a new branch", testBranch},
	{"a sync to a branch that exists", testExistingBranch},
	{"a sync to files", testFiles},
	{"a manifest without models", testFailure},
	{"one sync a branch", testOneABranch},
	{"cancelled at each step", testCancelled},
	{"killed at each step", testKilled},
	{"taken over at each step", testTakenOver},
	{"a sync that ends the process is given up", testPoison},
	{"a sync waits for a Git server that does not answer", testTemporary},
	{"the branch moves meanwhile", testMoved},
	{"a sync of a Git repository", testGit},
	{"syncs of a Git repository that fail", testGitFailure},
	{"a sync of a Git repository, killed at each step", testGitKilled},
	{"pages of syncs that have an object", testPendingPages},
	{"pushes to the dbt repository", testPushes},
	{"webhooks that are repeated at once", testRepeatedWebhooks},
	{"webhooks that are remembered", testManyWebhooks},
	{"options", testOptions},
	{"a selector", testSelector},
	{"types from the catalog", testCatalog},
	{"turns of accounts", testTurns},
	{"pages and filters", testPages},
	{"another account or deployment sees nothing", testTenants},
	{"old syncs, manifests and files are deleted", testExpiry},
}

func TestDatabases(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { c.run(openWorld(t, newDatabase(t))) })
		}
	})
}

func openWorld(t *testing.T, url string) *world {
	t.Helper()
	s := contenttest.Open(t, url, audit.Owner, repository.Owner, Owner)
	w := newWorld(t, s)
	w.commit("main", map[string]string{"README.md": "hello"})
	w.events = nil
	return w
}

// newWorld returns the world of a database.
func newWorld(t *testing.T, s *store.Store) *world {
	w := &world{T: t, store: s, clock: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	now := func() time.Time { w.clock = w.clock.Add(time.Millisecond); return w.clock }
	w.repositories = &repository.Repositories{DB: s, Record: w.record, Now: now}
	w.syncs = &Syncs{DB: s, Record: w.record, Now: now}
	return w
}

// head returns the commit of a branch.
func (w *world) head(branch string) plumbing.Hash {
	w.Helper()
	b, err := w.repositories.Session(w.Context(), demo).Branch(branch)
	w.must(err)
	return b.Commit
}

// record remembers an event: its name and the status in its details.
func (w *world) record(_ context.Context, _ *store.Tx, e audit.Event) error {
	var details map[string]any
	_ = json.Unmarshal(e.Changes, &details)
	w.events = append(w.events, strings.TrimSpace(fmt.Sprintf("%s %v", e.Name, details["status"])))
	return nil
}

func scope(account, deployment string) content.Scope {
	return content.Scope{Account: store.Account{UID: account, Name: "demo"}, Deployment: store.Deployment{UID: deployment, Namespace: "demo", Name: "sales"}}
}

var demo = scope("a1", "d1")

// worker returns a worker of another process.
func (w *world) worker() *Worker {
	return &Worker{
		Store: w.store, Repositories: w.repositories, Record: w.record, Log: slog.New(slog.DiscardHandler), Now: w.syncs.Now,
		Moved: func(context.Context, content.Scope) error { w.moved++; return nil },
	}
}

// commit commits files to a branch.
func (w *world) commit(branch string, files map[string]string) {
	w.Helper()
	session := w.repositories.Session(w.Context(), demo)
	from, _ := session.Branch(branch)
	var edits []modeltree.Edit
	for name, text := range files {
		blob, err := modeltree.AddBlob(session, []byte(text))
		w.must(err)
		edits = append(edits, modeltree.Edit{Path: name, Blob: blob})
	}
	tree, err := modeltree.Apply(session, from.Commit, edits)
	w.must(err)
	c := modeltree.Commit{Tree: tree, AuthorName: "a", AuthorEmail: "a@example.com", Message: "m", When: w.clock}
	if !from.Commit.IsZero() {
		c.Parents = append(c.Parents, from.Commit)
	}
	to, err := modeltree.AddCommit(session, c)
	w.must(err)
	w.must(session.Save([]repository.Move{{Branch: branch, From: from.Commit, To: to}}, nil, nil))
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// filesOf returns the paths of a branch; "none" if it does not exist.
func (w *world) filesOf(branch string) string {
	w.Helper()
	session := w.repositories.Session(w.Context(), demo)
	head, err := session.Branch(branch)
	var missing *content.Error
	if errors.As(err, &missing) && missing.Reason == content.NotFound {
		return "none"
	}
	w.must(err)
	files, err := modeltree.Files(session, head.Commit, "")
	w.must(err)
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	return strings.Join(paths, " ")
}

// branches returns the names of all branches.
func (w *world) branches() string {
	w.Helper()
	all, err := w.repositories.Session(w.Context(), demo).Branches()
	w.must(err)
	var names []string
	for _, b := range all {
		names = append(names, b.Name)
	}
	return strings.Join(names, " ")
}

// manifest returns the body of a request with models.
func manifest(models ...string) []byte { return packed(`"source":"manifest"`, models...) }

// packed returns a body with a manifest and other fields before it.
func packed(fields string, models ...string) []byte {
	nodes := []string{}
	for _, name := range models {
		nodes = append(nodes, fmt.Sprintf(`"model.shop.%[1]s":{"resource_type":"model","name":"%[1]s","schema":"analytics","columns":{"id":{"name":"id"}}}`, name))
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	fmt.Fprintf(z, `{%s,"manifest":{"metadata":{"dbt_schema_version":"https://schemas.getdbt.com/dbt/manifest/v12.json","dbt_version":"1.10.2","adapter_type":"postgres"},"nodes":{%s},"macros":{"a":1}}}`,
		fields, strings.Join(nodes, ","))
	_ = z.Close()
	return out.Bytes()
}

func toBranch(branch string, models ...string) New {
	return New{DeploymentNumber: "7", Trigger: "api", Output: ToBranch, Branch: branch, Base: "main", AuthorName: "a", AuthorEmail: "a@example.com", Manifest: manifest(models...)}
}

func toFiles(models ...string) New {
	return New{DeploymentNumber: "7", Trigger: "api", Output: ToFiles, Manifest: manifest(models...)}
}

func (w *world) start(in New) Sync {
	w.Helper()
	s, err := w.syncs.Start(w.Context(), demo, "key:k1", in)
	w.must(err)
	return s
}

func (w *world) get(id string) Sync {
	w.Helper()
	s, err := w.syncs.Get(w.Context(), demo, id)
	w.must(err)
	return s
}

// step has a worker work on one sync.
func (w *world) step(worker *Worker) {
	w.Helper()
	if found, err := worker.Step(w.Context()); err != nil || !found {
		w.Fatalf("%v %v", found, err)
	}
}

// data returns the kinds of data that are stored.
func (w *world) data() string {
	w.Helper()
	var kinds []string
	rows, err := w.store.Reader().QueryContext(w.Context(), "SELECT kind FROM dbt_sync_data ORDER BY id, kind")
	w.must(err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var kind string
		w.must(rows.Scan(&kind))
		kinds = append(kinds, kind)
	}
	w.must(rows.Err())
	return strings.Join(kinds, " ")
}

// reason returns the reason of a rejection.
func reason(err error) content.Reason {
	var rejected *content.Error
	if errors.As(err, &rejected) {
		return rejected.Reason
	}
	return ""
}
