package store

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// place is a row of the list of the tests, ordered by position and id.
type place struct{ position, id int64 }

func places(descending bool) List[place] {
	return List[place]{
		Columns: "position, id", From: "place WHERE list = $1", Args: []any{"a"}, Order: []string{"position", "id"}, Descending: descending,
		Scan: func(row *sql.Rows, p *place) error { return row.Scan(&p.position, &p.id) },
		Key:  func(p *place) []any { return []any{p.position, p.id} },
	}
}

func openPlaces(t *testing.T, fresh string, n int) (*Store, []place) {
	s := mustOpen(t, fresh, owner("CREATE TABLE place (list TEXT, position BIGINT, id BIGINT, PRIMARY KEY (list, position, id))"))
	random := rand.New(rand.NewPCG(1, 2))
	var all []place
	for i := range n {
		p := place{int64(random.IntN(5)), int64(i)}
		all = append(all, p)
		execute(t, s, "INSERT INTO place VALUES ('a', $1, $2), ('b', $1, $2)", p.position, p.id)
	}
	slices.SortFunc(all, func(a, b place) int {
		return slices.Compare([]int64{a.position, a.id}, []int64{b.position, b.id})
	})
	return s, all
}

func testPages(t *testing.T, fresh string) {
	s, ascending := openPlaces(t, fresh, 23)
	descending := slices.Clone(ascending)
	slices.Reverse(descending)
	for _, limit := range []int{1, 5, 22, 23, 100} {
		for i, all := range [][]place{ascending, descending} {
			list := places(i == 1)
			var forward, backward []place
			page := mustPage(t, s, list, PageRequest{Limit: limit})
			for {
				if page.HasPrevious != (len(forward) > 0) {
					t.Fatalf("page at %d: HasPrevious is %v", len(forward), page.HasPrevious)
				}
				forward = append(forward, page.Items...)
				if !page.HasNext {
					break
				}
				page = mustPage(t, s, list, PageRequest{After: page.Last, Limit: limit})
			}
			if diff := cmp.Diff(all, forward, cmp.AllowUnexported(place{})); diff != "" {
				t.Errorf("forward by %d: %s", limit, diff)
			}
			last := all[len(all)-1]
			for page = mustPage(t, s, list, PageRequest{Before: list.Key(&last), Limit: limit}); len(page.Items) > 0; page = mustPage(t, s, list, PageRequest{Before: page.First, Limit: limit}) {
				backward = append(slices.Clone(page.Items), backward...)
				if !page.HasNext || page.HasPrevious != (len(backward) < len(all)-1) {
					t.Fatalf("backward: %+v", page)
				}
			}
			if diff := cmp.Diff(all[:len(all)-1], backward, cmp.AllowUnexported(place{})); diff != "" {
				t.Errorf("backward by %d: %s", limit, diff)
			}
		}
	}
	empty := places(false)
	empty.Args = []any{"c"}
	if page := mustPage(t, s, empty, PageRequest{Limit: 10}); page.Items == nil || len(page.Items) > 0 || page.HasNext || page.HasPrevious || page.First != nil {
		t.Errorf("%+v", page)
	}
}

func testChangingList(t *testing.T, fresh string) {
	s, all := openPlaces(t, fresh, 10)
	page := mustPage(t, s, places(false), PageRequest{Limit: 4})
	// The item of the cursor and one before it go, one before it comes.
	execute(t, s, "DELETE FROM place WHERE id IN ($1, $2)", all[3].id, all[0].id)
	execute(t, s, "INSERT INTO place VALUES ('a', -1, 99)")
	next := mustPage(t, s, places(false), PageRequest{After: page.Last, Limit: 4})
	if fmt.Sprint(next.Items) != fmt.Sprint(all[4:8]) || !next.HasPrevious {
		t.Errorf("%v, want %v", next.Items, all[4:8])
	}
	execute(t, s, "DELETE FROM place WHERE list = 'a'")
	if gone := mustPage(t, s, places(false), PageRequest{After: page.Last, Limit: 4}); gone.HasNext || gone.HasPrevious || len(gone.Items) > 0 {
		t.Errorf("%+v", gone)
	}
}

func mustPage(t *testing.T, s *Store, l List[place], r PageRequest) Page[place] {
	t.Helper()
	page, err := l.Read(t.Context(), s.Reader(), r)
	if err != nil {
		t.Fatal(err)
	}
	return page
}
