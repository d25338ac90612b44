package audit

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/postgrestest"
)

// world is one of the two databases, empty at first.
type world struct {
	url   string
	store *store.Store
}

// cases are run on both databases.
var cases = []struct {
	name string
	run  func(t *testing.T, w *world)
}{}

func TestSQLite(t *testing.T) {
	runCases(t, func(t *testing.T) string { return "sqlite://" + filepath.Join(t.TempDir(), "content.db") })
}

func TestPostgreSQL(t *testing.T) {
	server := postgrestest.StartServer(t)
	runCases(t, func(t *testing.T) string { return server.Database(t) })
}

func runCases(t *testing.T, fresh func(t *testing.T) string) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, openWorld(t, fresh(t))) })
	}
}

func openWorld(t testing.TB, url string) *world {
	t.Helper()
	s, err := store.Open(context.Background(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{url: url, store: s}
}
