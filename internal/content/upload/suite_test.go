package upload

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
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

// world is a database with the tables of uploads, repositories and the audit log, empty at first.
type world struct {
	*testing.T
	store        *store.Store
	uploads      *Uploads
	repositories *repository.Repositories
	mu           sync.Mutex
	clock        time.Time // guarded by mu
	// root is the folder of uploads.
	root string
}

// cases run on both databases.
var cases = []struct {
	name string
	run  func(w *world)
}{
	{"the first and the second upload", testUpload},
	{"finishing is repeated", testRepeat},
	{"finishing concurrently makes one commit", testConcurrent},
	{"files are added concurrently", testConcurrentFiles},
	{"a file is added with one statement", testAlone},
	{"a panic while a file is added", testPanic},
	{"limits hold while several replicas add files", testReplicas},
	{"a live preview is no upload of the deployment", testLive},
	{"unchanged files make no commit", testUnchanged},
	{"files that are not listed are deleted or kept", testKeep},
	{"hashes are compared with what was uploaded", testHashes},
	{"invalid lists of files", testInvalid},
	{"an upload belongs to its creator, deployment and account", testOwner},
	{"uploads expire", testExpiry},
	{"limits", testLimits},
	{"open uploads are bounded", testOpen},
	{"the branch moves while an upload is finished", testMoved},
	{"a folder of the repository", testRoot},
	{"the hashes of files are stored", testStoredHashes},
	{"content of deleted deployments is purged", testPurge},
	{"events", testEvents},
}

func TestDatabases(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { c.run(openWorld(t, newDatabase(t))) })
		}
	})
}

var owners = []store.Owner{audit.Owner, repository.Owner, Owner}

func openWorld(t *testing.T, url string) *world {
	t.Helper()
	st := contenttest.Open(t, url, owners...)
	w := &world{T: t, store: st, clock: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	w.uploads = &Uploads{DB: st, Record: record, Now: w.now}
	w.repositories = &repository.Repositories{DB: st, Record: record}
	return w
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(time.Millisecond)
	return w.clock
}

func record(ctx context.Context, tx *store.Tx, e audit.Event) error {
	e.Account, e.Source, e.Actor = "demo", audit.SourceREST, audit.Actor{Kind: audit.ActorKey, ID: "k1"}
	return audit.RecordTx(ctx, tx, e)
}

// scope returns a deployment of an account, by their UIDs.
func scope(account, deployment string) content.Scope {
	return content.Scope{Account: store.Account{UID: account, Name: "demo"}, Deployment: store.Deployment{UID: deployment, Namespace: "demo", Name: "sales"}}
}

var demo = scope("a1", "d1")

const by = "ApiKey:k1"

// model is a data model: contents by path.
type model map[string]string

// hashes returns what clients list.
func (m model) hashes() map[string]string {
	all := map[string]string{}
	for path, text := range m {
		all[path] = sha1Of([]byte(text))
	}
	return all
}

func (w *world) start() string {
	w.Helper()
	id, err := w.uploads.Start(w.Context(), demo, by, "main")
	if err != nil {
		w.Fatal(err)
	}
	return id
}

func (w *world) add(id, path, text string) error {
	return w.addAs(demo, by, id, path, text)
}

func (w *world) addAs(s content.Scope, by, id, path, text string) error {
	return w.uploads.Add(w.Context(), s, by, id, path, []byte(text), w.repositories)
}

// target returns the branch main.
func (w *world) target(ctx context.Context) (*Target, error) {
	session := w.repositories.Session(ctx, demo)
	t := &Target{Session: session, Branch: "main", Root: w.root}
	branch, err := session.Branch("main")
	var rejected *content.Error
	if errors.As(err, &rejected) && rejected.Reason == content.NotFound {
		return t, nil
	}
	t.Commit = branch.Commit
	return t, err
}

func (w *world) finish(id string, m model) (Result, error) {
	return w.uploads.Finish(w.Context(), demo, by, Finish{ID: id, Files: m.hashes(), AuthorName: "Ada", AuthorEmail: "ada@example.com"}, w.target)
}

// upload uploads files and finishes with a model.
func (w *world) upload(files, m model) Result {
	w.Helper()
	id := w.start()
	for path, text := range files {
		if err := w.add(id, path, text); err != nil {
			w.Fatal(err)
		}
	}
	result, err := w.finish(id, m)
	if err != nil {
		w.Fatal(err)
	}
	return result
}

// branch returns the commit and the model of the branch main.
func (w *world) branch() (commit plumbing.Hash, m model) {
	w.Helper()
	t, err := w.target(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	if t.Commit.IsZero() {
		return t.Commit, model{}
	}
	return t.Commit, modelAt(w, t.Commit)
}

func modelAt(w *world, commit plumbing.Hash) model {
	w.Helper()
	session := w.repositories.Session(w.Context(), demo)
	files, err := modeltree.Files(session, commit, "")
	if err != nil {
		w.Fatal(err)
	}
	m := model{}
	for _, f := range files {
		data, err := modeltree.Content(session, f.Hash)
		if err != nil {
			w.Fatal(err)
		}
		m[f.Path] = string(data)
	}
	return m
}

// commits returns the number of commits of the branch main.
func (w *world) commits() (n int) {
	w.Helper()
	if err := w.store.Reader().QueryRowContext(w.Context(), "SELECT COUNT(*) FROM git_object WHERE type = 1").Scan(&n); err != nil {
		w.Fatal(err)
	}
	return n
}

func (w *world) has(want model) {
	w.Helper()
	if _, got := w.branch(); !maps.Equal(got, want) {
		w.Errorf("the branch has %v, want %v", got, want)
	}
}

// names returns the names of the recorded events, the first one first.
func (w *world) names() string {
	w.Helper()
	l := audit.NewLog(w.store, audit.Options{})
	defer l.Close()
	events, err := l.Query(w.Context(), audit.Filter{Account: "demo"})
	if err != nil {
		w.Fatal(err)
	}
	var all []string
	for e, err := range events {
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, e.Name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
