package dbtsync

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/store"
)

// pushed is a webhook of a push.
func pushed(delivery, commit string) New {
	in := ofGit("dbt-sync/" + delivery)
	in.Delivery, in.Push = delivery, &Push{Branch: "main", Commit: commit}
	return in
}

func (w *world) push(in New) (s Sync, started bool) {
	w.Helper()
	s, started, err := w.syncs.StartPushed(w.Context(), demo, "GitHook:dbt-hook/sales", in)
	w.must(err)
	return s, started
}

// waits returns the syncs of Pending that wait for the end of another one.
func (w *world) waits() string {
	w.Helper()
	all, err := w.syncs.Pending(w.Context(), nil, 100)
	w.must(err)
	queue, waiting := Queue{}, []string{}
	for i := range all {
		if queue.Waits(&all[i]) {
			waiting = append(waiting, all[i].ID)
		}
	}
	return strings.Join(waiting, " ")
}

// testPushes: a repeated webhook is answered with the first sync, also after its end and in another process. Of
// the syncs of pushes one runs, and one waits, which covers all further pushes.
func testPushes(w *world) {
	first, started := w.push(pushed("1", "c1"))
	if !started || first.Trigger != TriggerWebhook || first.Push.Commit != "c1" || w.waits() != "" {
		w.Errorf("%t %+v, waiting %q", started, first, w.waits())
	}
	if again, started := w.push(pushed("1", "c1")); started || again.ID != first.ID {
		w.Errorf("%t %+v", started, again)
	}
	w.must(w.syncs.Created(w.Context(), w.pending(), "u1"))
	second, started := w.push(pushed("2", "c2"))
	if !started || second.ID == first.ID || w.waits() != second.ID {
		w.Errorf("%t %+v, waiting %q", started, second, w.waits())
	}
	for range 2 {
		if third, started := w.push(pushed("3", "c3")); started || third.ID != second.ID {
			w.Errorf("%t %+v", started, third)
		}
	}
	if got := w.get(second.ID); got.Push.Commit != "c3" || got.Push.Branch != "main" {
		w.Errorf("the push of the sync that waits: %+v", got.Push)
	}
	changed := pushed("4", "c4")
	changed.Git.Ref = "next"
	other, started := w.push(changed)
	if !started || w.waits() != second.ID+" "+other.ID {
		w.Errorf("the project has changed: %t %+v, waiting %q", started, other, w.waits())
	}
	api := w.start(ofGit("dbt-sync/api")) // does not wait for those of pushes
	if strings.Contains(w.waits(), api.ID) {
		w.Error("a sync that is started over REST waits")
	}
	w.must(w.syncs.Cancel(w.Context(), demo, first.ID))
	if w.waits() != other.ID {
		w.Errorf("waiting %q after the end of the first", w.waits())
	}
	w.syncs = &Syncs{DB: w.store, Record: w.record, Now: w.syncs.Now}
	for delivery, want := range map[string]string{"1": first.ID, "2": second.ID, "3": second.ID, "4": other.ID} {
		if s, started := w.push(pushed(delivery, "c")); started || s.ID != want {
			w.Errorf("webhook %s: %t %s, want %s", delivery, started, s.ID, want)
		}
	}
	if s, started, err := w.syncs.StartPushed(w.Context(), scope("a1", "d2"), "x", pushed("1", "c")); err != nil || !started || s.ID == first.ID {
		w.Errorf("a webhook of another deployment: %v, %+v", err, s)
	}
}

// testRepeatedWebhooks: a host repeats a webhook at several replicas at once.
func testRepeatedWebhooks(w *world) {
	const many = 12
	var all sync.WaitGroup
	ids, starts := make([]string, many), make([]bool, many)
	record := w.record
	var mu sync.Mutex
	for i := range many {
		all.Go(func() {
			replica := &Syncs{DB: w.store, Record: func(ctx context.Context, tx *store.Tx, e audit.Event) error {
				mu.Lock()
				defer mu.Unlock()
				return record(ctx, tx, e)
			}}
			s, started, err := replica.StartPushed(w.Context(), demo, "GitHook:dbt-hook/sales", pushed("same", "c"))
			if err != nil {
				w.Error(err)
			}
			ids[i], starts[i] = s.ID, started
		})
	}
	all.Wait()
	count := 0
	for i := range many {
		if ids[i] != ids[0] {
			w.Errorf("%s and %s", ids[i], ids[0])
		}
		if starts[i] {
			count++
		}
	}
	if count != 1 || len(w.events) != 1 {
		w.Errorf("%d were started, events %q", count, w.events)
	}
}

// testManyWebhooks: the newest ones are remembered.
func testManyWebhooks(w *world) {
	first, _ := w.push(pushed("0", "c"))
	for i := range MaxDeliveries {
		if s, started := w.push(pushed(fmt.Sprint(i+1), "c")); started || s.ID != first.ID {
			w.Fatalf("webhook %d: %t", i+1, started)
		}
	}
	var kept int
	var oldest string
	w.must(w.store.Reader().QueryRowContext(w.Context(), "SELECT COUNT(*) FROM dbt_sync_delivery").Scan(&kept))
	w.must(w.store.Reader().QueryRowContext(w.Context(), "SELECT delivery FROM dbt_sync_delivery ORDER BY id LIMIT 1").Scan(&oldest))
	if kept != MaxDeliveries || oldest != "1" {
		w.Errorf("%d are kept, the oldest is %s", kept, oldest)
	}
}
