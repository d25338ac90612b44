package chat

import (
	"fmt"

	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
)

// testDeletedUser deletes the threads of a user in small batches; one has a run in progress.
func testDeletedUser(w *world) {
	_, lease := w.begin("c1", "m1")
	for _, text := range []string{"one", "two", "three"} {
		w.must(w.threads.Append(w.Context(), lease, bodies(text)...))
	}
	other := message("c2", "m1")
	other.Owner = "user:bob"
	_, _, kept, err := w.threads.Begin(w.Context(), demo, other, "replica-1")
	w.must(err)
	w.must(w.threads.Append(w.Context(), kept, bodies("one")...))
	counts := map[string]int{}
	for more := true; more; {
		more = false
		w.must(w.db.Tx(w.Context(), func(tx *store.Tx) error {
			for _, part := range OfUsers {
				n, err := part.Do(w.Context(), tx, demo.Account.UID, "user:ada", "Account:demo", 2)
				if err != nil {
					return err
				}
				counts[part.Name] += n
				if n == 2 {
					more = true
					return nil
				}
			}
			return nil
		}))
	}
	if got := fmt.Sprint(counts); got != "map[chatLines:3 chatRuns:1 chatRunsInProgress:1 chats:1]" {
		w.Error(got)
	}
	w.is(w.threads.Append(w.Context(), lease, bodies("four")...), ErrLost)
	for table, want := range map[string]int{"chat_thread": 1, "chat_run": 1, "chat_line": 1} {
		if n := contenttest.Count(w, w.db, table); n != want {
			w.Errorf("%s has %d rows, want %d", table, n, want)
		}
	}
	w.must(w.threads.Append(w.Context(), kept, bodies("two")...))
}
