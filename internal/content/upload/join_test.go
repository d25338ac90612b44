package upload

import (
	"fmt"
	"sync"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
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
