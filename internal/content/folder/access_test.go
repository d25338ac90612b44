package folder

import (
	"fmt"
	"strings"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
)

func testAccess(w *world) {
	eve := access.Caller{Principal: "ApiKey:eve", Owner: access.User("eve"), Access: access.Subject{Max: access.Manage, Owner: access.User("eve")}}
	top, other := w.create("top", Root), w.create("other", Root)
	way, hidden := w.create("way", top.ID), w.create("hidden", top.ID)
	shared := w.create("shared", way.ID)
	inside := w.create("inside", shared.ID)
	grant := func(id int64, level access.Level) {
		err := w.store.Tx(w.Context(), func(tx *store.Tx) error {
			_, err := access.Set(w.Context(), tx, demo, access.Grant{Object: access.Object{Kind: access.Folder, ID: id}, Subject: eve.Owner, Level: level})
			return err
		})
		if err != nil {
			w.Fatal(err)
		}
	}
	list := func(parent int64) string {
		var names []string
		for page := (store.PageRequest{Limit: 1}); ; { // pages of one, to compare keys and counts
			level, err := w.folders.List(w.Context(), demo, eve, parent, page)
			if err != nil {
				return err.Error()
			}
			for _, f := range level.Items {
				names = append(names, fmt.Sprint(f.Name, "/", level.Total))
			}
			if page.After = level.Last; !level.HasNext {
				return strings.Join(names, " ")
			}
		}
	}
	if got := list(Root); got != "" {
		w.Error(got)
	}
	grant(shared.ID, access.Edit)
	grant(other.ID, access.View)
	for id, want := range map[int64]string{
		Root: "top/2 other/2", top.ID: "way/1", way.ID: "shared/1", shared.ID: "inside/1", inside.ID: "",
		hidden.ID: fmt.Sprintf("parentId: folder %d does not exist", hidden.ID),
	} {
		if got := list(id); got != want {
			w.Errorf("folder %d: %s, want %s", id, got, want)
		}
	}
	if path, err := w.folders.Ancestors(w.Context(), demo, eve, inside.ID); err != nil || len(path) != 4 {
		w.Error(path, err)
	}
	update := func(id int64) error { return errorOf(w.folders.Update(w.Context(), demo, eve, id, rename("x"))) }
	move := func(id, to int64) error { return errorOf(w.folders.Move(w.Context(), demo, eve, id, to)) }
	contenttest.Rejects(w, update(hidden.ID), content.NotFound, "does not exist")
	contenttest.Rejects(w, update(way.ID), content.Forbidden, "the level edit is needed; the caller has none")
	contenttest.Rejects(w, update(other.ID), content.Forbidden, "the level edit is needed; the caller has view")
	contenttest.Rejects(w, errorOf(w.folders.Update(w.Context(), demo, eve, other.ID, rename(""))), content.Forbidden, "") // before the input is judged
	contenttest.Rejects(w, w.folders.Delete(w.Context(), demo, eve, inside.ID), content.Forbidden, "the level manage is needed; the caller has edit")
	contenttest.Rejects(w, errorOf(w.folders.Create(w.Context(), demo, eve, New{Name: "x", ParentID: way.ID})), content.Forbidden, "parentId: ")
	contenttest.Rejects(w, errorOf(w.folders.Create(w.Context(), demo, eve, New{Name: "x", ParentID: hidden.ID})), content.NotFound, "parentId: ")
	contenttest.Rejects(w, move(inside.ID, Root), content.Forbidden, "the level manage")
	own, err := w.folders.Create(w.Context(), demo, eve, New{Name: "own", ParentID: shared.ID})
	if err != nil || last(own).Owner != eve.Owner {
		w.Fatal(own, err)
	}
	contenttest.Rejects(w, move(last(own).ID, other.ID), content.Forbidden, "folderId: ")
	contenttest.Rejects(w, move(last(own).ID, hidden.ID), content.NotFound, fmt.Sprintf("folder %d does not exist", hidden.ID))
	if err := move(last(own).ID, Root); err != nil {
		w.Error(err)
	}
	grant(last(own).ID, access.View)
	if err := w.folders.Delete(w.Context(), demo, eve, last(own).ID); err != nil {
		w.Error(err)
	}
	if n := contenttest.Count(w, w.store, "access_grant"); n != 2 {
		w.Errorf("%d grants are left", n)
	}
}
