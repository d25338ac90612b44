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
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// childURL makes the test binary a process that uploads second and stops at a point. Its value is the
// number of the point and the URL of the database.
const childURL = "QUOIN_UPLOAD_CHILD_URL"

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]func(arguments string) error{childURL: uploadAndStop})
}

// stepping is a database that stops at a point: each transaction has one before its commit, and one
// after it.
type stepping struct {
	content.Database
	stop, points int
}

func (d *stepping) Tx(ctx context.Context, work func(tx *store.Tx) error) error {
	err := d.Database.Tx(ctx, func(tx *store.Tx) error {
		if err := work(tx); err != nil {
			return err
		}
		d.point()
		return nil
	})
	d.point()
	return err
}

func (d *stepping) point() {
	if d.points++; d.points == d.stop {
		fmt.Println("stopped")
		time.Sleep(time.Hour) // until it is killed
	}
}

// uploadAll uploads second as a client does, and writes the id of the upload to standard output.
func uploadAll(ctx context.Context, d *stepping) error {
	uploads, repositories := &Uploads{DB: d, Record: record}, &repository.Repositories{DB: d, Record: record}
	id, err := uploads.Start(ctx, demo, by, "main")
	if err != nil {
		return err
	}
	if d.stop > 0 {
		fmt.Println(id)
	}
	for _, path := range slices.Sorted(maps.Keys(added)) {
		if err := uploads.Add(demo, by, id, path, []byte(added[path]), repositories.Session(ctx, demo)); err != nil {
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
	number, url, _ := strings.Cut(arguments, " ")
	d := &stepping{}
	if _, err := fmt.Sscan(number, &d.stop); err != nil {
		return err
	}
	st, err := store.Open(context.Background(), url, nil, owners...)
	if err != nil {
		return err
	}
	d.Database = st
	return uploadAll(context.Background(), d)
}

// TestUploadIsKilled kills the server at each point of an upload: the branch has the old model or the
// new one, and the client can continue where the answer was lost. Then there is one commit.
func TestUploadIsKilled(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		w := openWorld(t, newDatabase(t))
		w.uploads.Now = nil
		w.upload(first, first)
		counted := &stepping{Database: w.store}
		if err := uploadAll(t.Context(), counted); err != nil || counted.points < 10 {
			t.Fatalf("%d points, %v", counted.points, err)
		}
		for point := 1; point <= counted.points; point++ {
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
	storetest.KillChild(t, childURL, fmt.Sprint(point, " ", url), func(line string) bool {
		if line != "stopped" {
			id = line
		}
		return line == "stopped"
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
