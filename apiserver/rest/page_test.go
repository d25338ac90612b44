package rest

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func identity(n int) int { return n }

func set[T any](v T) Optional[T] { return Optional[T]{Value: v, IsSet: true} }

// inList returns the context of a request for a list.
func inList(list listID) context.Context {
	return context.WithValue(context.Background(), scopeKey{}, &Scope{list: list})
}

func cursorOf(t *testing.T, list listID, key any) string {
	t.Helper()
	c, err := encodeCursor(list, key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPaginate(t *testing.T) {
	all := []int{2, 3, 5, 7, 11}
	for name, c := range map[string]struct {
		page           Page
		want           []int
		next, previous bool
		offset, limit  int
	}{
		"no parameters":           {Page{}, all, false, false, 0, 20},
		"limit":                   {Page{Limit: set(2)}, []int{2, 3}, true, false, 0, 2},
		"offset":                  {Page{Offset: set(3)}, []int{7, 11}, false, true, 3, 20},
		"offset beyond the end":   {Page{Offset: set(9)}, []int{}, false, true, 9, 20},
		"largest offset":          {Page{Offset: set(1 << 62), Limit: set(1000)}, []int{}, false, true, 1 << 62, 1000},
		"limit of zero":           {Page{Limit: set(0)}, []int{}, true, false, 0, 0},
		"first":                   {Page{CursorPage: CursorPage{First: set(3)}}, []int{2, 3, 5}, true, false, 0, 3},
		"after":                   {Page{CursorPage: CursorPage{After: set(cursorOf(t, "l", 5))}}, []int{7, 11}, false, true, 3, 20},
		"after a removed item":    {Page{CursorPage: CursorPage{First: set(1), After: set(cursorOf(t, "l", 4))}}, []int{5}, true, true, 2, 1},
		"after the last item":     {Page{CursorPage: CursorPage{After: set(cursorOf(t, "l", 11))}}, []int{}, false, true, 5, 20},
		"after a later one, gone": {Page{CursorPage: CursorPage{After: set(cursorOf(t, "l", 12))}}, []int{}, false, true, 5, 20},
	} {
		t.Run(name, func(t *testing.T) {
			got, info, pagination, err := Paginate(inList("l"), c.page, all, identity)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, c.want) || info.HasNextPage != c.next || info.HasPreviousPage != c.previous {
				t.Errorf("got %v %+v", got, info)
			}
			if want := (Pagination{c.offset, c.limit, len(all)}); pagination != want {
				t.Errorf("got %+v, want %+v", pagination, want)
			}
		})
	}
	if _, _, _, err := Paginate(inList("l"), Page{Offset: set(0), CursorPage: CursorPage{First: set(1)}}, all, identity); err == nil {
		t.Error("both styles of paging are accepted in one request")
	}
}

// TestPaginateStored pages through a list that is stored in order of a composite key.
func TestPaginateStored(t *testing.T) {
	type key struct {
		Name string `json:"n"`
		ID   int    `json:"i"`
	}
	stored := []key{{"a", 1}, {"a", 2}, {"b", 1}, {"c", 3}, {"c", 4}}
	fetch := func(_ context.Context, after *key, limit int) (StoredPage[key], error) {
		from := 0
		if after != nil {
			from = slices.Index(stored, *after) + 1
		}
		to := min(len(stored), from+limit)
		return StoredPage[key]{stored[from:to], to < len(stored), from > 0}, nil
	}
	var got []key
	page := CursorPage{First: set(2)}
	for pages := 1; ; pages++ {
		out, err := PaginateStored(inList("l"), page, fetch, func(k key) key { return k })
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, out.Body.Items...)
		if out.Body.PageInfo.HasPreviousPage != (pages > 1) {
			t.Errorf("page %d: hasPreviousPage is %v", pages, out.Body.PageInfo.HasPreviousPage)
		}
		if !out.Body.PageInfo.HasNextPage {
			break
		}
		page.After = set(*out.Body.PageInfo.EndCursor)
	}
	if !slices.Equal(got, stored) {
		t.Errorf("got %v", got)
	}
	page.After = set(cursorOf(t, "l", "a"))
	if _, err := PaginateStored(inList("l"), page, fetch, func(k key) key { return k }); !isBadRequest(err) {
		t.Errorf("a cursor with a key of another type: %v", err)
	}
	empty := func(context.Context, *key, int) (StoredPage[key], error) { return StoredPage[key]{}, nil }
	out, err := PaginateStored(inList("l"), CursorPage{}, empty, func(k key) key { return k })
	if err != nil || out.Body.Items == nil || out.Body.PageInfo != (PageInfo{}) {
		t.Errorf("an empty list: %+v, %v", out, err)
	}
}

func isBadRequest(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.GetStatus() == http.StatusBadRequest
}

// TestCursorIsBoundToItsList: a cursor is rejected in another list, whatever makes it another one.
func TestCursorIsBoundToItsList(t *testing.T) {
	list := newListID("listBranches", "uid-1", "/d/1/branches", url.Values{"sort": {"name"}, "first": {"2"}})
	c := cursorOf(t, list, "k")
	same := newListID("listBranches", "uid-1", "/d/1/branches", url.Values{"sort": {"name"}, "first": {"7"}, "after": {c}})
	if got, err := decodeCursor[string](same, c); err != nil || got != "k" {
		t.Errorf("another page of the same list: %q, %v", got, err)
	}
	if numbered := newListID("listBranches", "uid-1", "/d/1/branches", url.Values{"sort": {"name"}, "limit": {"2"}, "page": {"1"}}); numbered != list {
		t.Error("a page by number is of another list")
	}
	for name, other := range map[string]listID{
		"operation":  newListID("listEnvironments", "uid-1", "/d/1/branches", url.Values{"sort": {"name"}}),
		"account":    newListID("listBranches", "uid-2", "/d/1/branches", url.Values{"sort": {"name"}}),
		"deployment": newListID("listBranches", "uid-1", "/d/2/branches", url.Values{"sort": {"name"}}),
		"order":      newListID("listBranches", "uid-1", "/d/1/branches", url.Values{"sort": {"-name"}}),
		"filter":     newListID("listBranches", "uid-1", "/d/1/branches", url.Values{"sort": {"name"}, "role": {"shared"}}),
	} {
		if _, err := decodeCursor[string](other, c); !isBadRequest(err) {
			t.Errorf("another %s: got %v, want 400", name, err)
		}
	}
	if _, err := decodeCursor[int](list, c); !isBadRequest(err) {
		t.Errorf("a key of another type: got %v, want 400", err)
	}
}

// TestCursorOfALongName: a cursor with the longest name is accepted by the parameter after.
func TestCursorOfALongName(t *testing.T) {
	field, _ := reflect.TypeFor[CursorPage]().FieldByName("After")
	most, err := strconv.Atoi(field.Tag.Get("maxLength"))
	if err != nil {
		t.Fatal(err)
	}
	list := newListID("workspaceObjects", "uid-1", "/api/v1/deployments/1/workspace", nil)
	for _, char := range []string{"&", `"`, `\`, "日", "😀"} {
		key := struct {
			Type string `json:"y"`
			Name string `json:"n"`
			ID   int64  `json:"i"`
		}{"WORKBOOK", strings.Repeat(char, 255), 1<<53 - 1}
		if n := len(cursorOf(t, list, key)); n > most {
			t.Errorf("the cursor of a name of 255 %s has %d characters; allowed: %d", char, n, most)
		}
	}
}

// FuzzCursor: a cursor of the caller is rejected with 400 or is a position in the list, and a cursor
// that was issued leads back to its key.
func FuzzCursor(f *testing.F) {
	issued, _ := encodeCursor("l", 7)
	for _, seed := range []string{"", "MQ", "Ig", "eyJhIjoxfQ", "!!", issued, issued + "A", issued + "="} {
		f.Add(seed)
	}
	all := []int{2, 3, 5, 7, 11}
	f.Fuzz(func(t *testing.T, text string) {
		i, err := indexAfter(inList("l"), set(text), all, identity)
		if err == nil && (i < 0 || i > len(all)) || err != nil && !isBadRequest(err) {
			t.Errorf("%q is index %d, %v", text, i, err)
		}
		if err == nil {
			if _, err := indexAfter(inList("m"), set(text), all, identity); err == nil {
				t.Errorf("%q is a cursor of two lists", text)
			}
		}
		c, err := encodeCursor("l", text)
		if err != nil {
			t.Fatal(err)
		}
		if key, err := decodeCursor[string]("l", c); utf8.ValidString(text) && (err != nil || key != text) {
			t.Errorf("%q comes back as %q: %v", text, key, err)
		}
	})
}
