package evaluation

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/agent/grading"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// childURL makes the test binary a process that evaluates and stops at a point. Its value is the number of the point and the URL of
// the database.
const childURL = "QUOIN_EVALUATION_CHILD_URL"

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]func(arguments string) error{childURL: evaluateAndStop})
}

func evaluateAndStop(arguments string) error {
	db, _, err := contenttest.OpenChild(arguments, Owner)
	if err != nil {
		return err
	}
	ctx := context.Background()
	e := &Evaluations{DB: db, Record: func(context.Context, *store.Tx, audit.Event) error { return nil }}
	_, l, err := e.Start(ctx, demo, questions(2), "killed")
	if err != nil {
		return err
	}
	for n := range 2 {
		if err := e.Add(ctx, l, result(n+1, grading.Pass)); err != nil {
			return err
		}
	}
	return e.End(ctx, l, "")
}

// TestKilled kills the replica before and after each commit. The evaluation ends as failed with what was finished, or as it had
// ended; nothing is there twice.
func TestKilled(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for stop, want := range map[int]string{
			1: "",                               // it is not stored
			2: "failed {0 0 0 0} killed",        // it is
			3: "failed {0 0 0 0} killed",        // the result is not
			4: "failed {1 0 0 0} killed 1:pass", // it is
			5: "failed {1 0 0 0} killed 1:pass", // nor is the second one
			6: "failed {2 0 0 0} killed 1:pass 2:pass",
			7: "failed {2 0 0 0} killed 1:pass 2:pass", // the end is not stored
			8: "completed {2 0 0 0} 1:pass 2:pass",     // it is
		} {
			t.Run(fmt.Sprint("point ", stop), func(t *testing.T) {
				url := newDatabase(t)
				storetest.KillChild(t, childURL, contenttest.Arguments(stop, url), func(line string) bool { return line == contenttest.Stopped })
				w := open(t, url)
				w.clock = time.Now().Add(Lease)
				taken, err := w.evaluations.TakeOver(t.Context(), 10, "replica-2")
				w.must(err)
				for _, l := range taken {
					w.must(w.evaluations.End(t.Context(), l, "killed"))
				}
				got := ""
				page, err := w.evaluations.List(t.Context(), demo, 0, 10)
				w.must(err)
				for _, e := range page.Items {
					l := &RunLease{Scope: demo, ID: e.ID}
					got += w.find(l)
					if results := w.results(l, 0, 10); results != "" {
						got += " " + results
					}
				}
				w.equal(got, want)
			})
		}
	})
}
