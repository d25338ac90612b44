package upload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/postgrestest"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// childURL makes the test binary a process that uploads second and stops at a point. Its value is the
// number of the point and the URL of the database.
const childURL = "QUOIN_UPLOAD_CHILD_URL"

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]func(arguments string) error{childURL: uploadAndStop})
}

// uploadAll uploads second as a client does, and writes the id of the upload to standard output.
func uploadAll(ctx context.Context, d *contenttest.Stepping) error {
	uploads, repositories := &Uploads{DB: d, Record: record}, &repository.Repositories{DB: d, Record: record}
	id, err := uploads.Start(ctx, demo, by, "main")
	if err != nil {
		return err
	}
	if d.Stop > 0 {
		fmt.Println(id)
	}
	for _, path := range slices.Sorted(maps.Keys(added)) {
		if err := uploads.Add(ctx, demo, by, id, path, []byte(added[path]), repositories); err != nil {
			return err
		}
	}
	_, err = uploads.Finish(ctx, demo, by, Finish{ID: id, Files: second.hashes()}, func(ctx context.Context) (*Target, error) {
		session := repositories.Session(ctx, demo)
		branch, err := session.Branch("main")
		return &Target{Session: session, Branch: "main", Commit: branch.Commit}, err
	})
	if err != nil {
		return err
	}
	return uploads.Announced(ctx, demo, id)
}

func uploadAndStop(arguments string) error {
	stop, values, err := contenttest.ParseArguments(arguments)
	if err != nil {
		return err
	}
	st, err := store.Open(context.Background(), values[0], nil, owners...)
	if err != nil {
		return err
	}
	return uploadAll(context.Background(), &contenttest.Stepping{Database: st, Stop: stop})
}

// TestUploadIsKilled kills the server at each point of an upload: the branch has the old model or the
// new one, and the client can continue where the answer was lost. Then there is one commit.
func TestUploadIsKilled(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		w := openWorld(t, newDatabase(t))
		w.uploads.Now = nil
		w.upload(first, first)
		counted := &contenttest.Stepping{Database: w.store}
		if err := uploadAll(t.Context(), counted); err != nil || counted.Points < 10 {
			t.Fatalf("%d points, %v", counted.Points, err)
		}
		for point := 1; point <= counted.Points; point++ {
			t.Run(fmt.Sprint(point), func(t *testing.T) { testKill(t, newDatabase(t), point) })
		}
	})
}

func testKill(t *testing.T, url string, point int) {
	w := openWorld(t, url)
	w.uploads.Now = nil
	w.upload(first, first)
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	id := ""
	storetest.KillChild(t, childURL, contenttest.Arguments(point, url), func(line string) bool {
		if line != contenttest.Stopped {
			id = line
		}
		return line == contenttest.Stopped
	})
	w = openWorld(t, url)
	w.uploads.Now = nil
	_, after := w.branch()
	if n := w.commits(); !(n == 1 && maps.Equal(after, first)) && !(n == 2 && maps.Equal(after, second)) {
		t.Fatalf("after %d commits the branch has %v", n, after)
	}
	if id == "" {
		id = w.start() // the client has not received the id
	}
	for path, text := range added {
		err := w.add(id, path, text)
		var rejected *content.Error
		if err != nil && (!errors.As(err, &rejected) || rejected.Reason != content.Conflict || !maps.Equal(after, second)) {
			t.Fatal(err)
		}
	}
	result, err := w.finish(id, second)
	if err != nil {
		t.Fatal(err)
	}
	w.has(second)
	commit, _ := w.branch()
	if result.LastHash != commit.String() || w.commits() != 2 {
		t.Errorf("%+v, the branch is at %s after %d commits", result, commit, w.commits())
	}
}

// TestDatabaseIsKilledDuringAnUpload kills PostgreSQL, as a power failure does, after files were
// acknowledged. They are there, or the end names one that is missing and the branch is the old one: then the
// client sends them again. After the end was acknowledged, nothing is lost.
func TestDatabaseIsKilledDuringAnUpload(t *testing.T) {
	server := postgrestest.StartServer(t)
	for round := range 3 {
		w := openWorld(t, server.Database(t))
		w.uploads.Now = nil
		w.upload(first, first)
		id := w.start()
		w.addAll(id)
		time.Sleep(time.Duration(round*round) * 50 * time.Millisecond) // before and after the log is written
		server.Kill(t)
		server.Restart(t)
		w.awaitDatabase()
		result, err := w.finish(id, second)
		var rejected *content.Error
		if errors.As(err, &rejected) && rejected.Reason == content.Invalid && strings.Contains(rejected.Message, "not uploaded") {
			w.has(first)
			w.addAll(id)
			result, err = w.finish(id, second)
		}
		if err != nil {
			t.Fatal(err)
		}
		server.Kill(t)
		server.Restart(t)
		w.awaitDatabase()
		w.has(second)
		if commit, _ := w.branch(); commit.String() != result.LastHash || w.commits() != 2 {
			t.Errorf("the branch is at %s after %d commits, want %s", commit, w.commits(), result.LastHash)
		}
	}
}

func (w *world) addAll(id string) {
	w.Helper()
	for path, text := range added {
		if err := w.add(id, path, text); err != nil {
			w.Fatal(err)
		}
	}
}

// awaitDatabase waits until the database answers on all connections that are open.
func (w *world) awaitDatabase() {
	w.Helper()
	for range 600 {
		err := w.store.Tx(w.Context(), func(tx *store.Tx) error { return tx.LockAccount(w.Context(), demo.Account) })
		if err == nil {
			if _, err = w.target(w.Context()); err == nil {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.Fatal("the database does not answer")
}
