package upload

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/store"
)

// testConcurrentFiles adds files of several uploads at once, some of which are rejected: each request has
// the outcome that it has alone.
func testConcurrentFiles(w *world) {
	first, second, finished := w.start(), w.start(), w.start()
	if _, err := w.finish(finished, w.upload2(finished)); err != nil {
		w.Fatal(err)
	}
	want := [2]model{{}, {}}
	var wait sync.WaitGroup
	for i := range 60 {
		path, text := fmt.Sprintf("model/%d.yml", i%20), fmt.Sprint(i%20) // some are added again
		id := []string{first, second}[i%2]
		want[i%2][path] = text
		wait.Go(func() {
			if err := w.add(id, path, text); err != nil {
				w.Error(err)
			}
		})
		if i%10 == 0 {
			wait.Go(func() { contenttest.Rejects(w, w.add(finished, path, text), content.Conflict, "is finished") })
			wait.Go(func() { contenttest.Rejects(w, w.add("unknown", path, text), content.NotFound, "transaction") })
		}
	}
	wait.Wait()
	for i, id := range []string{first, second} {
		if _, err := w.finish(id, want[i]); err != nil {
			w.Error(err)
		}
		w.has(want[i])
	}
	w.waitForWorkers()
}

// testAlone: with PostgreSQL, a file that is new needs one statement; others are left to the statements that say why.
func testAlone(w *world) {
	if w.store.Dialect() != store.PostgreSQL {
		return
	}
	id := w.start()
	alone := func(want bool, by, id, path, text string) {
		w.Helper()
		blob, err := repository.NewBlob([]byte(text))
		if err != nil {
			w.Fatal(err)
		}
		a := &addition{by: by, id: id, file: file{path: path, sha1: sha1Of([]byte(text)), size: blob.Size, blob: blob.Hash}}
		err = w.store.TxAsync(w.Context(), func(tx *store.Tx) error {
			done, err := w.repositories.StoreBlobAlone(w.Context(), tx, demo, blob, w.uploads.alone(a))
			if done != want {
				w.Errorf("%s of upload %s by %s: %t", path, id, by, done)
			}
			return err
		})
		if err != nil {
			w.Error(err)
		}
	}
	alone(false, by, id, "a", "a") // the repository is new
	if err := w.add(id, "a", "a"); err != nil {
		w.Fatal(err)
	}
	alone(true, by, id, "b", "b")
	alone(false, by, id, "b", "c")        // the path is not new
	alone(false, by, id, "c", "a")        // the blob is not new
	alone(false, by, "unknown", "c", "c") // no such upload
	alone(false, "ApiKey:k2", id, "c", "c")
	if _, err := w.finish(id, model{"a": "a", "b": "b"}); err != nil {
		w.Fatal(err)
	}
	w.has(model{"a": "a", "b": "b"})
	alone(false, by, id, "c", "c") // the upload is finished
	w.isCounted(demo.Account, 0, 0)
}

// testReplicas adds files with several replicas at once, each one file after the other, until a limit is reached:
// as many are added as it allows, and all are counted.
func testReplicas(w *world) {
	const allowed, replicas, files = 10, 4, 6
	data := noise(1000)
	blob, err := repository.NewBlob(data)
	if err != nil {
		w.Fatal(err)
	}
	room := int64(len(blob.Data)) * allowed
	sales, shop := scope("a1", "d1"), scope("a1", "d2")
	for i, c := range []struct {
		set   string
		value int64
		quota repository.Quota
		want  string
	}{
		{set: "files", value: MaxFiles - allowed, want: "allowed: 10000"},
		{set: "bytes", value: MaxBytes - 1000*allowed, want: "bytes together"},
		{quota: repository.Quota{MaxObjects: allowed}, want: "objects in the repository of the deployment"},
		{quota: repository.Quota{DeploymentBytes: room}, want: "bytes in the repository of the deployment"},
		{quota: repository.Quota{AccountBytes: room}, want: "bytes in all repositories of the account"},
	} {
		for _, s := range []*content.Scope{&sales, &shop} {
			s.Account.UID, s.Deployment.UID = fmt.Sprint("limit", i), fmt.Sprint(s.Deployment.UID, i)
		}
		ids := map[content.Scope]string{}
		for _, s := range []content.Scope{sales, shop} {
			if ids[s], err = w.uploads.Start(w.Context(), s, by, "main"); err != nil {
				w.Fatal(err)
			}
		}
		if c.set != "" {
			w.set(c.set, c.value)
		}
		var added, rejected atomic.Int64
		var wait sync.WaitGroup
		for replica := range replicas {
			s := sales
			if c.quota.AccountBytes > 0 && replica%2 == 1 {
				s = shop
			}
			uploads := &Uploads{DB: w.store, Record: record, Now: w.now}
			repositories := &repository.Repositories{DB: w.store, Record: record, Quota: c.quota}
			wait.Go(func() {
				for file := range files {
					text := slices.Concat(data[8:], fmt.Appendf(nil, "%03d %04d", replica, file))
					err := uploads.Add(w.Context(), s, by, ids[s], fmt.Sprintf("%d/%d.yml", replica, file), text, repositories)
					if err == nil {
						added.Add(1)
						continue
					}
					contenttest.Rejects(w, err, content.Conflict, c.want)
					rejected.Add(1)
				}
			})
		}
		wait.Wait()
		if added.Load() != allowed || rejected.Load() != replicas*files-allowed {
			w.Errorf("%s: %d files were added and %d were rejected, want %d to be added", c.want, added.Load(), rejected.Load(), allowed)
		}
		began := map[string]int64{c.set: 2 * c.value} // two uploads
		w.isCounted(sales.Account, began["files"], began["bytes"])
	}
}

// isCounted checks what is counted of the uploads and the repositories of an account, whose counts of files and bytes
// began with the given ones.
func (w *world) isCounted(a store.Account, files, bytes int64) {
	w.Helper()
	for _, c := range []struct {
		table, count, rows, size string
		files, bytes             int64
	}{
		{"upload", "files", "upload_file", "size", files, bytes},
		{"git_repository", "objects", "git_object", "LENGTH(data)", 0, 0},
	} {
		query := fmt.Sprintf(`SELECT SUM(%[1]s) - (SELECT COUNT(*) FROM %[2]s WHERE account_uid = $1),
			SUM(bytes) - (SELECT SUM(%[3]s) FROM %[2]s WHERE account_uid = $1) FROM %[4]s WHERE account_uid = $1`,
			c.count, c.rows, c.size, c.table)
		var gotFiles, gotBytes int64
		if err := w.store.Reader().QueryRowContext(w.Context(), query, a.UID).Scan(&gotFiles, &gotBytes); err != nil || gotFiles != c.files || gotBytes != c.bytes {
			w.Errorf("%s counts %d and %d bytes more than there are, want %d and %d, %v", c.table, gotFiles, gotBytes, c.files, c.bytes, err)
		}
	}
}

// noise returns bytes that compression does not make smaller.
func noise(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.Read(data) // never fails
	return data
}

// upload2 adds files to an upload, and returns them.
func (w *world) upload2(id string) model {
	w.Helper()
	for path, text := range second {
		if err := w.add(id, path, text); err != nil {
			w.Fatal(err)
		}
	}
	return second
}

// testPanic: after a panic while a file is added, which ends its request, others are added.
func testPanic(w *world) {
	id := w.start()
	func() {
		defer func() {
			if recover() == nil {
				w.Error("there is no panic")
			}
		}()
		_ = w.uploads.Add(w.Context(), demo, by, id, "a", []byte("a"), nil)
	}()
	for _, path := range []string{"a", "b"} {
		if err := w.add(id, path, path); err != nil {
			w.Error(err)
		}
	}
	w.waitForWorkers()
}

// waitForWorkers waits until no worker runs: it ends shortly after its last file.
func (w *world) waitForWorkers() {
	w.Helper()
	for range 500 {
		w.uploads.additions.mu.Lock()
		running := len(w.uploads.additions.waiting)
		w.uploads.additions.mu.Unlock()
		if running == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.Error("a worker runs although no file waits")
}

// TestCanceledRequests: a request whose client has gone ends when nothing holds its file, and not before: until then it has one of
// the places for large bodies of its account, without which the files that wait for a slow database had no limit.
func TestCanceledRequests(t *testing.T) {
	u := &Uploads{}
	u.additions.add(demo, &addition{}) // its worker is busy with another file
	u.additions.take(demo)
	begin := func() (cancel func(), ended chan error) {
		ctx, cancel := context.WithCancel(t.Context())
		ended = make(chan error, 1)
		go func() { ended <- u.Add(ctx, demo, by, "1", "model/a.yml", []byte("a"), nil) }()
		for u.additions.count(demo) == 0 {
			time.Sleep(time.Millisecond)
		}
		return cancel, ended
	}
	cancel, ended := begin()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || u.additions.count(demo) != 0 {
		t.Errorf("a file that waits: %v, and %d files still wait", err, u.additions.count(demo))
	}
	cancel, ended = begin()
	taken := u.additions.take(demo)
	cancel()
	select {
	case err := <-ended:
		t.Errorf("the request has ended while its file is added: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	taken[0].done <- nil
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a file that was added: %v", err)
	}
}

// count returns the number of files of a deployment that wait.
func (q *additions) count(s content.Scope) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting[s])
}
