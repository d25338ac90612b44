package chat

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// childURL makes the test binary a process that answers a message and stops at a point. Its value is the number of the point and
// the URL of the database.
const childURL = "QUOIN_CHAT_CHILD_URL"

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]func(arguments string) error{childURL: answerAndStop})
}

func answerAndStop(arguments string) error {
	db, _, err := contenttest.OpenChild(arguments, Owner)
	if err != nil {
		return err
	}
	ctx := context.Background()
	t := &Threads{DB: db}
	_, _, l, err := t.Begin(ctx, demo, message("c1", "1-message"), "killed")
	if err != nil {
		return err
	}
	if err := t.Append(ctx, l, bodies("a", "b")...); err != nil {
		return err
	}
	return t.End(ctx, l, Done, bodies("c")...)
}

// TestKilled kills the replica before and after each commit. The same message begins the run again, is taken over, or is answered
// from the log; no line is there twice.
func TestKilled(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for stop, want := range map[int]string{
			1: "",                     // the run has not begun
			2: "1:taken over",         // it has
			3: "1:taken over",         // lines are not stored
			4: "1:a 2:b 3:taken over", // they are
			5: "1:a 2:b 3:taken over", // the end is not
			6: "1:a 2:b 3:c",          // it is
		} {
			t.Run(fmt.Sprint("point ", stop), func(t *testing.T) {
				url := newDatabase(t)
				storetest.KillChild(t, childURL, contenttest.Arguments(stop, url), func(line string) bool { return line == contenttest.Stopped })
				w := open(t, url)
				w.clock = time.Now().Add(Lease)
				leases, err := w.threads.TakeOver(t.Context(), 10, "replica-2")
				w.must(err)
				for _, l := range leases {
					w.must(w.threads.End(t.Context(), l, Failed, bodies("taken over")...))
				}
				thread, run, lease, err := w.threads.Begin(t.Context(), demo, message("c1", "1-message"), "replica-2")
				w.must(err)
				if begun := lease != nil; begun != (want == "") || begun != (run.State == Running) {
					t.Errorf("the message again has the run %+v, lease %+v", run, lease)
				}
				w.logIs(thread.ID, 0, want)
			})
		}
	})
}
