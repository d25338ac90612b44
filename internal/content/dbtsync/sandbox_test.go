package dbtsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/dbt"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
)

// ofGit is a request for a sync of a Git repository to a branch.
func ofGit(branch string) New {
	in := toBranch(branch)
	in.Manifest, in.Git = nil, &v1alpha1.DbtGitSource{URL: "https://git.example.com/dbt.git", Ref: "main"}
	return in
}

// pending returns the only sync that has an object.
func (w *world) pending() *Pending {
	w.Helper()
	all, err := w.syncs.Pending(w.Context(), nil, 10)
	w.must(err)
	if len(all) != 1 {
		w.Fatalf("%d pending syncs", len(all))
	}
	return &all[0]
}

var podPhases = []Phase{
	{Name: "repo-clone", OK: true, Sandbox: true, Start: time.Second, Duration: time.Second},
	{Name: "dbt-compile", OK: true, Sandbox: true, Start: 2 * time.Second, Duration: 3 * time.Second},
}

// idle checks that no worker has anything to do.
func (w *world) idle() {
	w.Helper()
	if found, err := w.worker().Step(w.Context()); found || err != nil {
		w.Errorf("a worker works on a sync that waits for its pod: %v %v", found, err)
	}
}

// testGit: the pod delivers the manifest, and its phases are before those of the conversion.
func testGit(w *world) {
	s := w.start(ofGit("dbt-sync/x"))
	w.idle()
	p := w.pending()
	if p.ID != s.ID || !p.Waits || p.Source != SourceGit || p.ObjectName != "dbt-sync-"+s.ID || p.ObjectUID != "" || p.Git.Ref != "main" || p.Scope != demo {
		w.Errorf("%+v", p)
	}
	w.must(w.syncs.Created(w.Context(), p, "u1"))
	if found, err := w.syncs.OfObject(w.Context(), demo, p.ObjectName, "u1"); err != nil || found == nil || found.ID != s.ID {
		w.Errorf("%+v %v", found, err)
	}
	if found, err := w.syncs.OfObject(w.Context(), demo, p.ObjectName, "u2"); err != nil || found != nil {
		w.Errorf("the sync of an object that was deleted: %+v %v", found, err)
	}
	w.must(w.syncs.Progress(w.Context(), w.pending(), v1alpha1.DbtStageCompiling, podPhases[:1]))
	if s = w.get(s.ID); s.Stage != v1alpha1.DbtStageCompiling || len(s.Phases) != 1 {
		w.Errorf("%+v", s)
	}
	for range 2 { // the pod has no answer and sends it again
		w.must(w.syncs.Deliver(w.Context(), w.pending(), manifest("orders", "customers")))
	}
	w.idle()
	w.must(w.syncs.Release(w.Context(), w.pending(), podPhases))
	w.step(w.worker())
	s = w.get(s.ID)
	if s.Status != Completed || len(s.Phases) != 5 || s.Phases[0].Name != "repo-clone" || s.Phases[2].Name != phaseManifest || w.filesOf("dbt-sync/x") != generated || w.data() != "" {
		w.Errorf("%+v, files %q, data %q", s, w.filesOf("dbt-sync/x"), w.data())
	}
	log, err := w.syncs.Log(w.Context(), demo, s.ID)
	if err != nil || len(log) != 6 || log[0].Message != "Started a sync of a Git repository" || log[1].Phase != "repo-clone" || log[1].Duration != time.Second {
		w.Errorf("%v %+v", err, log)
	}
	if got := strings.Join(w.events, ", "); got != "Started dbt sync <nil>, Finished dbt sync COMPLETED" {
		w.Error(got)
	}
}

// testGitFailure: a sync whose pod fails, delivers nothing or is cancelled writes nothing, and its branch is
// free.
func testGitFailure(w *world) {
	for name, end := range map[string]func(p *Pending) error{
		"FAILED dbt-deps: no such package": func(p *Pending) error {
			return w.syncs.Fail(w.Context(), p, v1alpha1.DbtStageDeps, []Phase{{Name: "dbt-deps", Sandbox: true, Message: "no such package"}}, "dbt-deps: no such package")
		},
		"FAILED the pod has ended without delivering the manifest": func(p *Pending) error { return w.syncs.Release(w.Context(), p, podPhases) },
		"CANCELLED the sync was cancelled":                         func(p *Pending) error { return w.syncs.Cancel(w.Context(), demo, p.ID) },
	} {
		s := w.start(ofGit("review"))
		if _, err := w.syncs.Start(w.Context(), demo, "key:k1", toBranch("review", "orders")); reason(err) != content.Conflict {
			w.Errorf("%s: %v", name, err)
		}
		p := w.pending()
		w.events = nil
		for range 2 { // several replicas notice it
			w.must(end(p))
		}
		w.idle()
		s = w.get(s.ID)
		if got := fmt.Sprintf("%s %s", s.Status, s.Error); got != name || s.CompletedAt.IsZero() || len(w.events) != 1 || w.branches() != "main" {
			w.Errorf("%q, want %q: %+v, events %q, branches %q", got, name, s, w.events, w.branches())
		}
		if err := w.syncs.Deliver(w.Context(), p, manifest("orders")); reason(err) != content.Conflict {
			w.Errorf("%s: a manifest is accepted after the end: %v", name, err)
		}
		if log, err := w.syncs.Log(w.Context(), demo, s.ID); s.Status == Failed && (err != nil || !log[len(log)-1].Failure || !strings.Contains(s.Error, log[len(log)-1].Message)) {
			w.Errorf("%s: %+v", name, log)
		}
	}
}

// testPendingPages: the syncs of an account with many of them are not the only ones that are worked on.
func testPendingPages(w *world) {
	var want, got []string
	for i := range 3 {
		want = append(want, w.start(ofGit(fmt.Sprint("p", i))).ID)
	}
	of := scope("a2", "d2")
	of.Account.Name, of.Deployment.Namespace = "other", "other"
	other, err := w.syncs.Start(w.Context(), of, "key:k1", ofGit("p0"))
	w.must(err)
	want = append(want, other.ID)
	for last := (*Pending)(nil); ; {
		page, err := w.syncs.Pending(w.Context(), last, 2)
		w.must(err)
		if len(page) == 0 {
			break
		}
		for i := range page {
			got = append(got, page[i].ID)
		}
		last = &page[len(page)-1]
	}
	if !slices.Equal(got, want) {
		w.Errorf("%q, want %q", got, want)
	}
}

// testGitKilled: the worker is killed at each step of the conversion. The phases of the pod are there once.
func testGitKilled(w *world) {
	for i, stage := range stages {
		branch := fmt.Sprint("g", i)
		s := w.start(ofGit(branch))
		p := w.pending()
		w.must(w.syncs.Deliver(w.Context(), p, manifest("orders", "customers")))
		w.must(w.syncs.Release(w.Context(), p, podPhases))
		w.must(w.syncs.Release(w.Context(), p, podPhases))
		if _, err := w.killedAt(stage, nil).Step(w.Context()); !errors.Is(err, errKilled) {
			w.Errorf("%s: %v", stage, err)
		}
		w.must(w.syncs.Progress(w.Context(), p, v1alpha1.DbtStageDeps, nil)) // of a replica that is late
		w.clock = w.clock.Add(lease)
		w.step(w.worker())
		if s = w.get(s.ID); s.Status != Completed || len(s.Phases) != 5 || w.filesOf(branch) != generated {
			w.Errorf("%s: %+v, %q", stage, s, w.filesOf(branch))
		}
	}
}

// testOptions: the options of a request, and the selected models of a delivery.
func testOptions(w *world) {
	in := toBranch("options", "orders")
	prefix := "shop_"
	in.Options = v1alpha1.DbtOptions{OutputPath: "model/generated", NamePrefix: &prefix}
	w.step2(in)
	if got := w.filesOf("options"); got != "README.md model/generated/orders.yml" {
		w.Error(got)
	}
}

// testSelector: a delivery with fewer models keeps the files of those that the project has, and removes others.
func testSelector(w *world) {
	w.step2(toBranch("dbt-sync/x", "orders", "customers", "gone"))
	w.start(ofGit("dbt-sync/x"))
	w.must(w.syncs.Created(w.Context(), w.pending(), "u1"))
	w.must(w.syncs.Deliver(w.Context(), w.pending(), packed(`"selected":["model.shop.orders"]`, "orders", "customers")))
	w.must(w.syncs.Release(w.Context(), w.pending(), podPhases))
	w.step(w.worker())
	if got := w.filesOf("dbt-sync/x"); got != generated {
		w.Error(got)
	}
}

// testCatalog: a sync with typesFromCatalog needs the catalog of the delivery.
func testCatalog(w *world) {
	const catalog = `"catalog":{"metadata":{"dbt_schema_version":"https://schemas.getdbt.com/dbt/catalog/v1.json"},
		"nodes":{"model.shop.orders":{"columns":{"id":{"type":"timestamp without time zone"}}}}}`
	for fields, want := range map[string]string{catalog: "", `"selected":["model.shop.orders"]`: "catalog: it is absent, and options.typesFromCatalog is true"} {
		in := ofGit("dbt-sync/x")
		in.Options.TypesFromCatalog = ptr.To(true)
		s := w.start(in)
		w.must(w.syncs.Created(w.Context(), w.pending(), "u1"))
		w.must(w.syncs.Deliver(w.Context(), w.pending(), packed(fields, "orders")))
		w.must(w.syncs.Release(w.Context(), w.pending(), podPhases))
		w.step(w.worker())
		s = w.get(s.ID)
		if s.Error != want || (s.Status == Completed) != (want == "") {
			w.Errorf("%s: %+v", fields, s)
		}
	}
	session := w.repositories.Session(w.Context(), demo)
	head, err := session.Branch("dbt-sync/x")
	w.must(err)
	files, err := modeltree.Files(session, head.Commit, "model/cubes/dbt")
	w.must(err)
	text, err := modeltree.Content(session, files[0].Hash)
	if err != nil || !strings.Contains(string(text), "type: time\n") {
		w.Errorf("%v: %s", err, text)
	}
}

// testTurns: a worker takes turns between accounts, and the syncs of an account are in order.
func testTurns(w *world) {
	named := func(name string) content.Scope {
		of := scope(name, "d-"+name)
		of.Account.Name, of.Deployment.Namespace = name, name
		return of
	}
	many, one, last := named("many"), named("one"), named("zero")
	var order []string
	start := func(of content.Scope) {
		_, err := w.syncs.Start(w.Context(), of, "key:k1", toFiles("orders"))
		w.must(err)
		w.clock = w.clock.Add(time.Second)
	}
	worker := w.worker()
	worker.Record = func(_ context.Context, _ *store.Tx, e audit.Event) error {
		order = append(order, e.Account)
		return nil
	}
	for range 4 {
		start(many)
	}
	start(one)
	start(last)
	w.step(worker)
	start(one)
	for range 6 {
		w.step(worker)
	}
	if got := strings.Join(order, " "); got != "many one zero many one many many" {
		w.Error(got)
	}
	page, err := w.syncs.List(w.Context(), many, Filter{}, store.PageRequest{Limit: 10})
	w.must(err)
	for i := 1; i < len(page.Items); i++ {
		if page.Items[i].CompletedAt.After(page.Items[i-1].CompletedAt) {
			w.Errorf("sync %d has ended before an older one", page.Items[i].Number)
		}
	}
}

func TestReadOptions(t *testing.T) {
	r, err := ReadRequest(strings.NewReader(`{"source":"git","options":{"namePrefix":"","joins":false}}`))
	if err != nil || r.Options == nil || *r.Options.NamePrefix != "" || *r.Options.Joins {
		t.Errorf("%+v, %v", r, err)
	}
	for body, want := range map[string]string{
		`{"options":{"prefix":"x"}}`:                                   "options: ",
		`{"options":{"joins":"yes"}}`:                                  "options.joins: a string ",
		`{"options":{"outputPath":"../x"}}`:                            "options.outputPath: ",
		`{"options":{"namePrefix":"` + strings.Repeat("x", 65) + `"}}`: "options.namePrefix: ",
		`{"selected":["model.shop.orders"]}`:                           "selected: unknown field",
	} {
		if _, err := ReadRequest(strings.NewReader(body)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
	r, err = ReadDelivery(strings.NewReader(`{"selected":["model.shop.orders"],"manifest":null}`))
	if err != nil || !r.Selected["model.shop.orders"] || r.Manifest != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestMuchWhiteSpace: white space between tokens is limited, so that the time of reading a body is linear; that in
// strings is not.
func TestMuchWhiteSpace(t *testing.T) {
	much := strings.Repeat(" ", maxSpaces)
	for body, allowed := range map[string]bool{
		much + `{` + much + `"ref"` + much + `:` + much + `"main"` + much + `}` + much: true,
		`{"ref":"a\\\"` + much + much + `"}`:                                           true,
		`{"ref":"\\"` + much + ` }`:                                                    false,
		` ` + much + `{}`:                                                              false,
		`{"ref":` + much + ` "main"}`:                                                  false,
		`{}` + much + ` `:                                                              false,
	} {
		_, err := ReadRequest(iotest.HalfReader(strings.NewReader(body)))
		var invalid *dbt.Error
		if allowed != (err == nil) || !allowed && (!errors.As(err, &invalid) || !strings.Contains(invalid.Message, "white space")) {
			t.Errorf("%.20q: %v", strings.ReplaceAll(body, much, "…"), err)
		}
	}
}
