package dbtsync

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/store"
)

const generated = "README.md model/cubes/dbt/customers.yml model/cubes/dbt/orders.yml"

func testBranch(w *world) {
	s := w.start(toBranch("dbt-sync/x", "orders", "customers"))
	if s.Status != Running || s.Stage != Initializing || w.data() != manifestData {
		w.Errorf("%+v, data %q", s, w.data())
	}
	w.step(w.worker())
	s = w.get(s.ID)
	if s.Status != Completed || s.Stage != Ended || s.CompletedAt.IsZero() || s.Cubes != 2 || s.Stats.Models != 2 || s.Stats.Macros != 1 || len(s.Phases) != 3 {
		w.Errorf("%+v", s)
	}
	if got := w.filesOf("dbt-sync/x"); got != generated || w.filesOf("main") != "README.md" || w.moved != 1 {
		w.Errorf("%q, moved %d times", got, w.moved)
	}
	if w.data() != "" {
		w.Errorf("data %q is kept", w.data())
	}
	if got := strings.Join(w.events, ", "); got != "Started dbt sync <nil>, Finished dbt sync COMPLETED" {
		w.Error(got)
	}
	log, err := w.syncs.Log(w.Context(), demo, s.ID)
	if err != nil || len(log) != 4 || log[3].Phase != phaseWrite || log[3].Message != "Wrote 2 files to branch dbt-sync/x and removed 0" || log[3].Failure {
		w.Errorf("%v %+v", err, log)
	}
	_, paths, err := w.syncs.Paths(w.Context(), demo, s.ID)
	if err != nil || strings.Join(paths, " ") != "model/cubes/dbt/customers.yml model/cubes/dbt/orders.yml" {
		w.Errorf("%v %q", err, paths)
	}
	if _, err := w.syncs.Files(w.Context(), demo, s.ID); reason(err) != content.NotFound || !strings.Contains(err.Error(), "dbt-sync/x") {
		w.Errorf("%v", err)
	}
	if found, err := w.worker().Step(w.Context()); found || err != nil {
		w.Errorf("%v %v", found, err)
	}
}

func testExistingBranch(w *world) {
	w.step2(toBranch("review", "orders", "customers", "gone"))
	w.step2(toBranch("review", "orders", "customers"))
	if got := w.filesOf("review"); got != generated {
		w.Error(got)
	}
	head := func() string {
		b, err := w.repositories.Session(w.Context(), demo).Branch("review")
		w.must(err)
		return b.Commit.String()
	}
	before := head()
	if s := w.step2(toBranch("review", "orders", "customers")); s.Status != Completed || head() != before {
		w.Errorf("%+v: a sync without a change has committed", s)
	}
	in := toBranch("rooted", "orders")
	in.Root = "project"
	w.step2(in)
	if got := w.filesOf("rooted"); got != "README.md project/model/cubes/dbt/orders.yml" {
		w.Error(got)
	}
	in.Branch, in.Base, in.Root = "first", "nothing", ""
	w.step2(in)
	if got := w.filesOf("first"); got != "model/cubes/dbt/orders.yml" {
		w.Error(got)
	}
}

// step2 starts a sync and has it worked on.
func (w *world) step2(in New) Sync {
	w.Helper()
	s := w.start(in)
	w.step(w.worker())
	return w.get(s.ID)
}

func testFiles(w *world) {
	s := w.start(toFiles("orders"))
	if _, err := w.syncs.Files(w.Context(), demo, s.ID); reason(err) != content.NotFound {
		w.Errorf("%v", err)
	}
	w.step(w.worker())
	files, err := w.syncs.Files(w.Context(), demo, s.ID)
	if err != nil || len(files) != 1 || files[0].Path != "model/cubes/dbt/orders.yml" || !strings.Contains(files[0].Content, "dbt_orders") {
		w.Errorf("%v %v", err, files)
	}
	if w.branches() != "main" || w.data() != filesData || w.get(s.ID).Branch != "" {
		w.Errorf("branches %q, data %q", w.branches(), w.data())
	}
	w.clock = w.clock.Add(FilesKept)
	if _, err := w.syncs.Files(w.Context(), demo, s.ID); reason(err) != content.NotFound || !strings.Contains(err.Error(), "1h") {
		w.Errorf("%v", err)
	}
}

func testFailure(w *world) {
	s := w.step2(toBranch("dbt-sync/x"))
	if s.Status != Failed || s.Stage != ProcessingManifest || s.Error != "no dbt models matched: of the 0 models of the manifest none can be converted" || len(s.Phases) != 2 || s.Phases[1].OK {
		w.Errorf("%+v", s)
	}
	if w.branches() != "main" || w.data() != "" || w.events[1] != "Finished dbt sync FAILED" {
		w.Errorf("branches %q, data %q, events %q", w.branches(), w.data(), w.events)
	}
	log, err := w.syncs.Log(w.Context(), demo, s.ID)
	if last := log[len(log)-1]; err != nil || !last.Failure || last.Phase != phaseGenerate || last.Message != s.Error {
		w.Errorf("%v %+v", err, log)
	}
	in := toBranch("dbt-sync/y", "orders")
	in.Manifest = in.Manifest[:len(in.Manifest)/2]
	if s = w.step2(in); s.Status != Failed || !strings.Contains(s.Error, "not valid JSON") || s.Phases[0].OK {
		w.Errorf("%+v", s)
	}
	s = w.start(toBranch("dbt-sync/z", "orders"))
	w.must(Expire(w.Context(), w.store, w.clock.Add(manifestKept)))
	w.step(w.worker())
	if s = w.get(s.ID); s.Status != Failed || !strings.Contains(s.Error, "kept for 24h") {
		w.Errorf("%+v", s)
	}
}

func testOneABranch(w *world) {
	first := w.start(toBranch("review", "orders"))
	if _, err := w.syncs.Start(w.Context(), demo, "key:k1", toBranch("review", "orders")); reason(err) != content.Conflict || !strings.Contains(err.Error(), `"review" is running`) {
		w.Errorf("%v", err)
	}
	for i := 1; i < MaxRunning; i++ {
		w.start(toBranch(fmt.Sprint("b", i), "orders"))
	}
	if _, err := w.syncs.Start(w.Context(), demo, "key:k1", toFiles("orders")); reason(err) != content.Conflict {
		w.Errorf("%v", err)
	}
	w.must(w.syncs.Cancel(w.Context(), demo, first.ID))
	w.start(toBranch("review", "orders"))
}

// stages are the stages at which a worker stores its progress.
var stages = []Stage{ProcessingManifest, WritingFiles, Finalizing}

var errKilled = errors.New("killed")

// killedAt returns a worker that ends at a stage, as if its process were killed.
func (w *world) killedAt(stage Stage, meanwhile func()) *Worker {
	worker := w.worker()
	worker.interrupt = func(step string) error {
		if step != string(stage) {
			return nil
		}
		if meanwhile != nil {
			meanwhile()
			return nil
		}
		return errKilled
	}
	return worker
}

func testCancelled(w *world) {
	for i, stage := range stages {
		s := w.start(toBranch(fmt.Sprint("b", i), "orders"))
		w.events = nil
		w.step(w.killedAt(stage, func() { w.must(w.syncs.Cancel(w.Context(), demo, s.ID)) }))
		if s = w.get(s.ID); s.Status != Cancelled || s.CompletedAt.IsZero() || w.branches() != "main" || w.data() != "" {
			w.Errorf("%s: %+v, branches %q, data %q", stage, s, w.branches(), w.data())
		}
		w.must(w.syncs.Cancel(w.Context(), demo, s.ID))
		if got := strings.Join(w.events, ", "); got != "Finished dbt sync CANCELLED" {
			w.Errorf("%s: %s", stage, got)
		}
	}
	s := w.step2(toFiles("orders"))
	if err := w.syncs.Cancel(w.Context(), demo, s.ID); reason(err) != content.Conflict {
		w.Errorf("%v", err)
	}
	if err := w.syncs.Cancel(w.Context(), demo, "nothing"); reason(err) != content.NotFound {
		w.Errorf("%v", err)
	}
}

func testKilled(w *world) {
	for i, stage := range stages {
		branch := fmt.Sprint("b", i)
		s := w.start(toBranch(branch, "orders", "customers"))
		w.events = nil
		if _, err := w.killedAt(stage, nil).Step(w.Context()); !errors.Is(err, errKilled) {
			w.Errorf("%s: %v", stage, err)
		}
		if found, err := w.worker().Step(w.Context()); found || err != nil {
			w.Errorf("%s: the lease is not kept: %v %v", stage, found, err)
		}
		if w.filesOf(branch) != "none" {
			w.Errorf("%s: the branch exists", stage)
		}
		w.clock = w.clock.Add(lease)
		w.step(w.worker())
		if s = w.get(s.ID); s.Status != Completed || len(s.Phases) != 3 || w.filesOf(branch) != generated || strings.Join(w.events, ", ") != "Finished dbt sync COMPLETED" {
			w.Errorf("%s: %+v, %q, %q", stage, s, w.filesOf(branch), w.events)
		}
	}
}

// testTakenOver: the lease of a worker expires, and another one completes the sync. The first one writes
// nothing any more.
func testTakenOver(w *world) {
	for i, stage := range stages {
		branch := fmt.Sprint("b", i)
		s := w.start(toBranch(branch, "orders"))
		w.events, w.moved = nil, 0
		w.step(w.killedAt(stage, func() {
			w.clock = w.clock.Add(lease)
			w.step(w.worker())
		}))
		if s = w.get(s.ID); s.Status != Completed || w.moved != 1 || strings.Join(w.events, ", ") != "Finished dbt sync COMPLETED" {
			w.Errorf("%s: %+v, moved %d times, %q", stage, s, w.moved, w.events)
		}
	}
}

func testPoison(w *world) {
	s := w.start(toBranch("review", "orders"))
	for range maxTries {
		if _, err := w.killedAt(ProcessingManifest, nil).Step(w.Context()); !errors.Is(err, errKilled) {
			w.Errorf("%v", err)
		}
		w.clock = w.clock.Add(lease)
	}
	w.step(w.worker())
	if s = w.get(s.ID); s.Status != Failed || !strings.Contains(s.Error, "5 times") {
		w.Errorf("%+v", s)
	}
}

// testTemporary: a sync waits for a Git server that does not answer, and fails with its error if it never does. Other errors of it are
// final.
func testTemporary(w *world) {
	for i, tc := range []struct {
		reason content.Reason
		// cause is that of the error; may be nil.
		cause error
		// failures is how often the server does not answer, and tries how often it is asked.
		failures, tries int
		want            Status
	}{
		{content.Unavailable, nil, 2, 3, Completed},
		{content.BadGateway, git.ErrUnreachable, maxTries, maxTries, Failed},
		{content.BadGateway, git.ErrUntrusted, 1, 1, Failed},
		{content.Conflict, nil, 1, 1, Failed},
	} {
		s := w.start(toBranch(fmt.Sprint("temporary-", i), "orders"))
		tries := 0
		worker := w.worker()
		worker.Open = func(ctx context.Context, s content.Scope) (*repository.Session, string, error) {
			if tries++; tries <= tc.failures {
				return nil, "", errors.Join(content.Errorf(tc.reason, "the server is away"), tc.cause)
			}
			return worker.Repositories.Session(ctx, s), "", nil
		}
		for range tc.tries {
			if found := w.get(s.ID); found.Status != Running {
				w.Errorf("%s: %s after %d tries", tc.reason, found.Status, tries)
			}
			_, _ = worker.Step(w.Context())
			w.clock = w.clock.Add(lease)
		}
		found := w.get(s.ID)
		if found.Status != tc.want || (found.Error == "the server is away") != (tc.want == Failed) || found.Status == Failed && tries != tc.tries {
			w.Errorf("%s: %s %q after %d tries", tc.reason, found.Status, found.Error, tries)
		}
	}
}

func testMoved(w *world) {
	w.commit("review", map[string]string{"a": "1"})
	s := w.start(toBranch("review", "orders"))
	moves := 0
	w.step(w.killedAt(Finalizing, func() {
		if moves++; moves < 3 {
			w.commit("review", map[string]string{"b": fmt.Sprint(moves)})
		}
	}))
	if s = w.get(s.ID); s.Status != Completed || len(s.Phases) != 3 || w.filesOf("review") != "a b model/cubes/dbt/orders.yml" {
		w.Errorf("%+v: %q", s, w.filesOf("review"))
	}
	s = w.start(toBranch("review", "customers"))
	w.step(w.killedAt(Finalizing, func() { moves++; w.commit("review", map[string]string{"b": fmt.Sprint(moves)}) }))
	if s = w.get(s.ID); s.Status != Failed || s.Error == "" || strings.Contains(w.filesOf("review"), "customers") {
		w.Errorf("%+v: %q", s, w.filesOf("review"))
	}
}

func testPages(w *world) {
	for range 3 {
		w.step2(toFiles("orders"))
	}
	w.start(toFiles("orders"))
	list := func(f Filter, r store.PageRequest) string {
		page, err := w.syncs.List(w.Context(), demo, f, r)
		w.must(err)
		text := ""
		for _, s := range page.Items {
			text += fmt.Sprintf("%d %s ", s.Number, s.Status)
		}
		return fmt.Sprint(text, page.HasNext)
	}
	for got, want := range map[string]string{
		list(Filter{}, store.PageRequest{Limit: 2}):                                  "4 RUNNING 3 COMPLETED true",
		list(Filter{}, store.PageRequest{Limit: 2, After: []any{int64(3)}}):          "2 COMPLETED 1 COMPLETED false",
		list(Filter{Status: Completed, Trigger: "api"}, store.PageRequest{Limit: 9}): "3 COMPLETED 2 COMPLETED 1 COMPLETED false",
		list(Filter{Trigger: "webhook"}, store.PageRequest{Limit: 9}):                "false",
	} {
		if got != want {
			w.Errorf("%q, want %q", got, want)
		}
	}
}

func testTenants(w *world) {
	s := w.step2(toFiles("orders"))
	for _, other := range []content.Scope{scope("a1", "d2"), scope("a2", "d1")} {
		if _, err := w.syncs.Get(w.Context(), other, s.ID); reason(err) != content.NotFound {
			w.Errorf("%v", err)
		}
		if _, err := w.syncs.Files(w.Context(), other, s.ID); reason(err) != content.NotFound {
			w.Errorf("%v", err)
		}
		if _, err := w.syncs.Log(w.Context(), other, s.ID); reason(err) != content.NotFound {
			w.Errorf("%v", err)
		}
		if page, err := w.syncs.List(w.Context(), other, Filter{}, store.PageRequest{Limit: 9}); err != nil || len(page.Items) != 0 {
			w.Errorf("%v %v", err, page)
		}
	}
	if err := w.syncs.Cancel(w.Context(), scope("a1", "d2"), s.ID); reason(err) != content.NotFound {
		w.Errorf("%v", err)
	}
	w.must(w.store.Tx(w.Context(), func(tx *store.Tx) error {
		for {
			more, err := Owner.Purge(w.Context(), tx, store.Deleted{AccountUID: "a1", DeploymentUID: "d1"}, 1)
			if err != nil || !more {
				return err
			}
		}
	}))
	if _, err := w.syncs.Get(w.Context(), demo, s.ID); reason(err) != content.NotFound || w.data() != "" {
		w.Errorf("after a purge: %v, data %q", err, w.data())
	}
}

func testExpiry(w *world) {
	w.step2(toFiles("orders"))
	w.start(toFiles("orders"))
	w.must(Expire(w.Context(), w.store, w.clock.Add(FilesKept-time.Minute)))
	if got := w.data(); got != "files manifest" {
		w.Error(got)
	}
	w.must(Expire(w.Context(), w.store, w.clock.Add(FilesKept)))
	if got := w.data(); got != "manifest" {
		w.Error(got)
	}
	w.must(Expire(w.Context(), w.store, w.clock.Add(manifestKept)))
	if got := w.data(); got != "" {
		w.Error(got)
	}
}
