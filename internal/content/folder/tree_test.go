package folder

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
)

// row is a folder as it is stored.
type row struct {
	id, parent int64
	name       string
}

// testTree makes random changes and checks the rules of the tree after each.
func testTree(w *world) {
	random := rand.New(rand.NewPCG(5, 6))
	const steps = 400
	accepted := 0
	var highest int64
	for step := range steps {
		id, parent := int64(random.IntN(step/4+2)), int64(random.IntN(step/4+2))
		name := fmt.Sprint("n", random.IntN(4))
		var err error
		switch random.IntN(6) {
		case 0, 1, 2:
			var path []Folder
			if path, err = w.folders.Create(w.Context(), demo, by, New{Name: name, ParentID: parent}); err == nil {
				if last(path).ID <= highest {
					w.Fatalf("id %d was issued after %d", last(path).ID, highest)
				}
				highest = last(path).ID
			}
		case 3:
			_, err = w.folders.Move(w.Context(), demo, by, id, parent)
		case 4:
			_, err = w.folders.Update(w.Context(), demo, by, id, rename(name))
		case 5:
			err = w.folders.Delete(w.Context(), demo, by, id)
		}
		var rejected *content.Error
		if err == nil {
			accepted++
		} else if !errors.As(err, &rejected) {
			w.Fatal(err)
		}
		w.checkTree()
	}
	if accepted < steps/10 {
		w.Errorf("only %d of %d changes were accepted", accepted, steps)
	}
}

// checkTree checks that each folder is reachable from the root, within the depth, under a name that
// no sibling has.
func (w *world) checkTree() {
	w.Helper()
	all, names := map[int64]row{}, map[string]bool{}
	rows, err := w.store.Reader().QueryContext(w.Context(), "SELECT id, parent_id, name FROM folder")
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.id, &r.parent, &r.name); err != nil {
			w.Fatal(err)
		}
		all[r.id] = r
		key := fmt.Sprint(r.parent, " ", strings.ToLower(r.name))
		if names[key] {
			w.Fatalf("two folders have the name %q in %d", r.name, r.parent)
		}
		names[key] = true
	}
	for id := range all {
		depth := 0
		for at := id; at != Root; at = all[at].parent {
			if _, exists := all[at]; !exists {
				w.Fatalf("folder %d is below %d, which does not exist", id, at)
			}
			if depth++; depth > MaxDepth {
				w.Fatalf("folder %d is in a cycle, or too deep", id)
			}
		}
	}
}

// testPlan checks that a page in the middle of many siblings is read by the index, without a sort.
func testPlan(w *world) {
	s := siblings(access.Within(demo, by.Access, access.None), Root)
	query := "SELECT " + s.Columns + " FROM " + s.From + " AND (position, id) > ($4, $5) ORDER BY position ASC, id ASC LIMIT $6"
	if w.store.Dialect() == store.PostgreSQL {
		contenttest.Exec(w, w.store, "INSERT INTO account (uid, name, first_seen, last_seen) VALUES ('a1', 'demo', 0, 0)")
		contenttest.Exec(w, w.store, "INSERT INTO deployment (uid, account_uid, namespace, name, first_seen, last_seen) VALUES ('d1', 'a1', 'demo', 'sales', 0, 0)")
		contenttest.Exec(w, w.store, "INSERT INTO folder SELECT 'a1', 'd1', n, 0, 'f' || n, 'f' || n, n, 0, '', 0, '', '' FROM generate_series(1, 20000) AS n")
	}
	plan := contenttest.Plan(w, w.store, query, demo.Account.UID, demo.Deployment.UID, Root, 500, 500, 20)
	if !strings.Contains(plan, "folder_siblings") || strings.Contains(strings.ToUpper(plan), "SORT") || strings.Contains(plan, "TEMP B-TREE") {
		w.Error(plan)
	}
}
