package folder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
)

func testLifecycle(w *world) {
	begin := w.clock
	got := w.create("Reports", Root)
	want := &Folder{
		ID: 1, Name: "Reports", CreatedAt: begin.Add(time.Second), UpdatedAt: begin.Add(time.Second), Owner: by.Owner, CreatedBy: by.Principal, UpdatedBy: by.Principal,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Error(diff)
	}
	child := w.create("2026", got.ID)
	other := access.Caller{Principal: "User:u1", Owner: access.User("u1"), Access: access.Everything}
	updated, err := w.folders.Update(w.Context(), demo, other, child.ID, Update{Name: ptr.To("2027"), Position: ptr.To(int64(7))})
	if err != nil {
		w.Fatal(err)
	}
	child.Name, child.Position, child.UpdatedBy, child.UpdatedAt = "2027", 7, other.Principal, begin.Add(3*time.Second)
	if diff := cmp.Diff([]Folder{*got, *child}, updated); diff != "" {
		w.Error(diff)
	}
	path, err := w.folders.Ancestors(w.Context(), demo, by, child.ID)
	if diff := cmp.Diff([]Folder{*got, *child}, path); diff != "" || err != nil {
		w.Error(diff, err)
	}
	level, err := w.folders.List(w.Context(), demo, by, got.ID, store.PageRequest{Limit: 10})
	if diff := cmp.Diff([]Folder{*child}, level.Items); diff != "" || err != nil || level.Total != 1 || len(level.Path) != 1 || level.Path[0].ID != got.ID {
		w.Errorf("%s %v %+v", diff, err, level)
	}
	if err := w.folders.Delete(w.Context(), demo, by, child.ID); err != nil {
		w.Error(err)
	}
	if names := w.names(demo, got.ID); names != "" {
		w.Error(names)
	}
	if next := w.create("2028", got.ID); next.ID != child.ID+1 {
		w.Errorf("the id is %d, want %d", next.ID, child.ID+1)
	}
	for _, err := range []error{
		w.folders.Delete(w.Context(), demo, by, child.ID),
		errorOf(w.folders.Update(w.Context(), demo, by, child.ID, Update{})),
		errorOf(w.folders.Ancestors(w.Context(), demo, by, child.ID)),
		errorOf(w.folders.Move(w.Context(), demo, by, child.ID, Root)),
		errorOf(w.folders.List(w.Context(), demo, by, child.ID, store.PageRequest{Limit: 10})),
		errorOf(w.folders.Create(w.Context(), demo, by, New{Name: "x", ParentID: child.ID})),
	} {
		contenttest.Rejects(w, err, content.NotFound, "folder 2 does not exist")
	}
}

func errorOf[T any](_ T, err error) error { return err }

func testNames(w *world) {
	first := w.create("Straße", Root)
	second := w.create("b", Root)
	for name, part := range map[string]string{
		"": "1 to 255", strings.Repeat("é", 256): "it has 256 characters", " a": "white space", "a\u00a0": "white space", "a\nb": "control", "a\x00": "control", "\xff": "control",
	} {
		contenttest.Rejects(w, errorOf(w.folders.Create(w.Context(), demo, by, New{Name: name})), content.Invalid, part)
		contenttest.Rejects(w, errorOf(w.folders.Update(w.Context(), demo, by, first.ID, rename(name))), content.Invalid, "name: ")
	}
	contenttest.Rejects(w, errorOf(w.folders.Create(w.Context(), demo, by, New{Name: "STRAßE"})), content.Conflict, "another folder")
	contenttest.Rejects(w, errorOf(w.folders.Update(w.Context(), demo, by, second.ID, rename("straße"))), content.Conflict, `name: "straße"`)
	if f, err := w.folders.Update(w.Context(), demo, by, first.ID, rename("STRAßE")); err != nil || last(f).Name != "STRAßE" {
		w.Error("the case of a name cannot be changed:", err)
	}
	w.create("straße", second.ID) // in another folder
	long := strings.Repeat("\U0001F600", MaxName)
	w.create(long, Root)
}

func testPositions(w *world) {
	for _, name := range []string{"a", "b", "c"} {
		w.create(name, Root)
	}
	if _, err := w.folders.Create(w.Context(), demo, by, New{Name: "d", Position: ptr.To(int64(1))}); err != nil {
		w.Fatal(err)
	}
	if got := w.names(demo, Root); got != "a b d c" {
		w.Error(got)
	}
	if _, err := w.folders.Update(w.Context(), demo, by, 1, reposition(MaxPosition)); err != nil {
		w.Fatal(err)
	}
	w.create("e", Root)
	if got := w.names(demo, Root); got != "b d c a e" {
		w.Error(got)
	}
	for _, position := range []int64{-1, MaxPosition + 1} {
		contenttest.Rejects(w, errorOf(w.folders.Create(w.Context(), demo, by, New{Name: "x", Position: &position})), content.Invalid, "position: ")
		contenttest.Rejects(w, errorOf(w.folders.Update(w.Context(), demo, by, 1, reposition(position))), content.Invalid, "allowed: 0 to 2147483647")
	}
}

func testDepth(w *world) {
	lowest := w.createPath("a", MaxDepth)
	contenttest.Rejects(w, errorOf(w.folders.Create(w.Context(), demo, by, New{Name: "x", ParentID: lowest.ID})), content.Invalid, "11 folders; allowed: 10")
	other := w.createPath("b", 2)
	path, err := w.folders.Ancestors(w.Context(), demo, by, lowest.ID)
	if err != nil || len(path) != MaxDepth {
		w.Fatal(err, len(path))
	}
	// The tree that is moved has two levels.
	contenttest.Rejects(w, errorOf(w.folders.Move(w.Context(), demo, by, other.ParentID, path[8].ID)), content.Invalid, "11 folders; allowed: 10")
	if _, err := w.folders.Move(w.Context(), demo, by, other.ParentID, path[7].ID); err != nil {
		w.Error(err)
	}
}

func testMove(w *world) {
	lowest := w.createPath("a", 3)
	top, err := w.folders.Ancestors(w.Context(), demo, by, lowest.ID)
	if err != nil {
		w.Fatal(err)
	}
	for _, into := range top {
		contenttest.Rejects(w, errorOf(w.folders.Move(w.Context(), demo, by, top[0].ID, into.ID)), content.Invalid, "outside it")
	}
	contenttest.Rejects(w, errorOf(w.folders.Move(w.Context(), demo, by, lowest.ID, 99)), content.NotFound, "folderId: folder 99 does not exist")
	w.create("a 2", Root)
	contenttest.Rejects(w, errorOf(w.folders.Move(w.Context(), demo, by, lowest.ID, Root)), content.Conflict, "another folder")
	moved, err := w.folders.Move(w.Context(), demo, by, top[1].ID, Root)
	if err != nil || len(moved) != 1 || moved[0].ParentID != Root || moved[0].Position != 2 {
		w.Errorf("%+v, %v", moved, err)
	}
	if got := w.names(demo, Root); got != "a a 2 a 1" {
		w.Error(got)
	}
	if again, err := w.folders.Move(w.Context(), demo, by, top[1].ID, Root); err != nil || *last(again) != moved[0] {
		w.Errorf("a move to the same place changes %+v, %v", again, err)
	}
}

// testFull: a folder in a full one can be changed, and no other one can be put there.
func testFull(w *world) {
	f := w.create("first", Root)
	inside := w.create("inside", f.ID)
	contenttest.Exec(w, w.store, fmt.Sprintf(`INSERT INTO folder (account_uid, deployment_uid, id, parent_id, owner, name, name_key, position, created_at, created_by, updated_at, updated_by)
		WITH RECURSIVE n (i) AS (SELECT 1001 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		SELECT 'a1', 'd1', i, 0, '', 'n' || i, 'n' || i, i, 0, '', 0, '' FROM n`, 1000+MaxChildren-1))
	if path, err := w.folders.Update(w.Context(), demo, by, f.ID, rename("renamed")); err != nil || last(path).Name != "renamed" {
		w.Errorf("%+v, %v", path, err)
	}
	contenttest.Rejects(w, errorOf(w.folders.Move(w.Context(), demo, by, inside.ID, Root)), content.Conflict, "there are 10000 folders already")
	contenttest.Rejects(w, errorOf(w.folders.Create(w.Context(), demo, by, New{Name: "x"})), content.Conflict, "there are 10000 folders already")
}

func testDelete(w *world) {
	child := w.createPath("a", 2)
	contenttest.Rejects(w, w.folders.Delete(w.Context(), demo, by, child.ParentID), content.Invalid, "contains 1 folders")
	for _, id := range []int64{child.ID, child.ParentID} {
		if err := w.folders.Delete(w.Context(), demo, by, id); err != nil {
			w.Error(err)
		}
	}
	if n := contenttest.Count(w, w.store, "folder"); n != 0 {
		w.Errorf("%d folders are left", n)
	}
}

func testPages(w *world) {
	for i := range 5 {
		w.create(fmt.Sprint("f", i), Root)
	}
	var all []string
	page := store.PageRequest{Limit: 2}
	for {
		level, err := w.folders.List(w.Context(), demo, by, Root, page)
		if err != nil {
			w.Fatal(err)
		}
		for _, f := range level.Items {
			all = append(all, f.Name)
		}
		if level.Total != 5 || level.HasPrevious != (page.After != nil) {
			w.Errorf("%+v", level)
		}
		if !level.HasNext {
			break
		}
		page.After = level.Last
	}
	if got := strings.Join(all, " "); got != "f0 f1 f2 f3 f4" {
		w.Error(got)
	}
}

func testTenants(w *world) {
	mine := w.createPath("a", 2)
	for _, other := range []content.Scope{scope("a1", "d2"), scope("a2", "d1"), scope("a2", "d3")} {
		if got := w.names(other, Root); got != "" {
			w.Errorf("%+v lists %q", other, got)
		}
		for _, err := range []error{
			w.folders.Delete(w.Context(), other, by, mine.ID),
			errorOf(w.folders.Update(w.Context(), other, by, mine.ID, rename("x"))),
			errorOf(w.folders.Ancestors(w.Context(), other, by, mine.ID)),
			errorOf(w.folders.Move(w.Context(), other, by, mine.ID, Root)),
			errorOf(w.folders.List(w.Context(), other, by, mine.ID, store.PageRequest{Limit: 10})),
			errorOf(w.folders.Create(w.Context(), other, by, New{Name: "x", ParentID: mine.ID})),
		} {
			contenttest.Rejects(w, err, content.NotFound, "does not exist")
		}
	}
	// An account that is created again with the same name has another UID, and ids of its own.
	again := scope("a9", "d9")
	path, err := w.folders.Create(w.Context(), again, by, New{Name: "a"})
	if err != nil || path[0].ID != 1 {
		w.Errorf("%+v, %v", path, err)
	}
	if got := w.names(demo, Root) + "," + w.names(again, Root); got != "a,a" {
		w.Error(got)
	}
}

func testEvents(w *world) {
	f := w.create("a", Root)
	if _, err := w.folders.Update(w.Context(), demo, by, f.ID, rename("b")); err != nil {
		w.Fatal(err)
	}
	if _, err := w.folders.Update(w.Context(), demo, by, f.ID, rename("b")); err != nil { // changes nothing
		w.Fatal(err)
	}
	if err := w.folders.Delete(w.Context(), demo, by, f.ID); err != nil {
		w.Fatal(err)
	}
	l := audit.NewLog(w.store, audit.Options{})
	defer l.Close()
	events, err := l.Query(w.Context(), audit.Filter{Account: "demo"})
	if err != nil {
		w.Fatal(err)
	}
	var got []string
	for e, err := range events {
		if err != nil {
			w.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s %s", e.Name, e.Outcome, e.Object, e.Object.ID, e.Changes))
	}
	want := []string{
		`Created folder succeeded Folder/a 1 {"name":{"after":"a"},"parentId":{"after":0},"position":{"after":0}}`,
		`Updated folder succeeded Folder/b 1 {"name":{"after":"b","before":"a"}}`,
		`Deleted folder succeeded Folder/b 1 {"name":{"before":"b"},"parentId":{"before":0},"position":{"before":0}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Error(diff)
	}
	f = w.create("c", Root)
	w.failing = errors.New("the event cannot be stored")
	for _, err := range []error{
		w.folders.Delete(w.Context(), demo, by, f.ID),
		errorOf(w.folders.Update(w.Context(), demo, by, f.ID, rename("x"))),
		errorOf(w.folders.Create(w.Context(), demo, by, New{Name: "d"})),
	} {
		if !errors.Is(err, w.failing) {
			w.Error(err)
		}
	}
	if got := w.names(demo, Root); got != "c" {
		w.Errorf("without an event the folders became %q", got)
	}
}

// testConcurrent creates the same name, and deletes a folder while one is created in it.
func testConcurrent(w *world) {
	w.folders.Now = nil
	for round := range 5 {
		parent := w.create(fmt.Sprint("parent ", round), Root)
		results := make(chan error, 5)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				results <- errorOf(w.folders.Create(context.Background(), demo, by, New{Name: "same", ParentID: parent.ID}))
			})
		}
		all.Go(func() { _ = w.folders.Delete(context.Background(), demo, by, parent.ID) })
		all.Wait()
		close(results)
		created := 0
		for err := range results {
			var rejected *content.Error
			if err == nil {
				created++
			} else if !errors.As(err, &rejected) {
				w.Error(err)
			}
		}
		level, err := w.folders.List(w.Context(), demo, by, parent.ID, store.PageRequest{Limit: 10})
		if created > 1 || created == 1 && (err != nil || level.Total != 1) || created == 0 && err == nil {
			w.Errorf("%d folders were created, there are %d, %v", created, level.Total, err)
		}
	}
}

// purgedCluster has no deployment d2 and no account a2.
type purgedCluster struct{}

func (purgedCluster) AccountExists(_ context.Context, a store.Account) (bool, error) {
	return a.UID != "a2", nil
}

func (purgedCluster) DeploymentExists(_ context.Context, d store.Deployment) (bool, error) {
	return d.UID != "d2", nil
}

func testPurge(w *world) {
	for _, s := range []content.Scope{demo, scope("a1", "d2"), scope("a2", "d3")} {
		for i := range 3 {
			if _, err := w.folders.Create(w.Context(), s, by, New{Name: fmt.Sprint("f", i)}); err != nil {
				w.Fatal(err)
			}
		}
	}
	if err := newPurger(w.store).Scan(w.Context()); err != nil {
		w.Error(err)
	}
	if got := w.names(demo, Root); got != "f0 f1 f2" || contenttest.Count(w, w.store, "folder") != 3 || contenttest.Count(w, w.store, "deployment") != 1 || contenttest.Count(w, w.store, "account") != 1 {
		w.Errorf("%q is left, %d folders", got, contenttest.Count(w, w.store, "folder"))
	}
	if f := w.create("x", Root); f.ID != 7 {
		w.Errorf("the id is %d, want 7", f.ID)
	}
}
