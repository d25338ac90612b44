package folder

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// world is a database with the tables of folders and of the audit log, empty at first.
type world struct {
	*testing.T
	url     string
	store   *store.Store
	folders *Folders
	// failing is returned instead of recording an event.
	failing error
	clock   time.Time
}

// cases run on both databases.
var cases = []struct {
	name string
	run  func(w *world)
}{
	{"create, list, update, delete", testLifecycle},
	{"names", testNames},
	{"positions", testPositions},
	{"depth", testDepth},
	{"moves", testMove},
	{"folders in a full one", testFull},
	{"only empty folders are deleted", testDelete},
	{"pages", testPages},
	{"another account or deployment sees nothing", testTenants},
	{"access: lists, counts and changes", testAccess},
	{"a change and its event are one transaction", testEvents},
	{"concurrent changes keep the rules", testConcurrent},
	{"random changes keep the tree", testTree},
	{"a purge deletes folders of a deleted deployment only", testPurge},
	{"pages are read by an index", testPlan},
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
	s := contenttest.Open(t, url, audit.Owner, access.Owner, workspace.Owner, Owner)
	w := &world{T: t, url: url, store: s, clock: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	w.folders = &Folders{DB: s, Record: w.record, Now: func() time.Time { w.clock = w.clock.Add(time.Second); return w.clock }}
	return w
}

func (w *world) record(ctx context.Context, tx *store.Tx, e audit.Event) error {
	if w.failing != nil {
		return w.failing
	}
	e.Account, e.Source, e.Actor = "demo", audit.SourceREST, audit.Actor{Kind: audit.ActorKey, ID: "k1"}
	return audit.RecordTx(ctx, tx, e)
}

// scope returns a deployment of an account, by their UIDs.
func scope(account, deployment string) content.Scope {
	return content.Scope{Account: store.Account{UID: account, Name: "demo"}, Deployment: store.Deployment{UID: deployment, Namespace: "demo", Name: "sales"}}
}

var demo = scope("a1", "d1")

// by is a program that makes changes.
var by = access.Caller{Principal: "ApiKey:k1", Owner: "ApiKey:k1", Access: access.Everything}

func (w *world) create(name string, parent int64) *Folder {
	w.Helper()
	path, err := w.folders.Create(w.Context(), demo, by, New{Name: name, ParentID: parent})
	if err != nil {
		w.Fatal(err)
	}
	return last(path)
}

// last returns the folder at the end of a path.
func last(path []Folder) *Folder { return &path[len(path)-1] }

// createPath creates a folder at each of a number of levels, and returns the last one.
func (w *world) createPath(name string, levels int) *Folder {
	w.Helper()
	f := w.create(name, Root)
	for i := 1; i < levels; i++ {
		f = w.create(fmt.Sprintf("%s %d", name, i), f.ID)
	}
	return f
}

// names returns the names of the folders in a folder, in order.
func (w *world) names(s content.Scope, parent int64) string {
	w.Helper()
	level, err := w.folders.List(w.Context(), s, by, parent, store.PageRequest{Limit: MaxChildren})
	if err != nil {
		w.Fatal(err)
	}
	names := []string{}
	for _, f := range level.Items {
		names = append(names, f.Name)
	}
	if level.Total != len(names) {
		w.Errorf("total is %d, want %d", level.Total, len(names))
	}
	return strings.Join(names, " ")
}

func rename(name string) Update        { return Update{Name: ptr.To(name)} }
func reposition(position int64) Update { return Update{Position: ptr.To(position)} }
