package rest

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func identity(n int) int { return n }

func set[T any](v T) given[T] { return given[T]{Value: v, IsSet: true} }

func TestPage(t *testing.T) {
	all := []int{2, 3, 5, 7, 11}
	for name, c := range map[string]struct {
		page           AnyPage
		want           []int
		next, previous bool
		offset, limit  int
	}{
		"nothing said":     {AnyPage{}, all, false, false, 0, 20},
		"limit":            {AnyPage{Limit: set(2)}, []int{2, 3}, true, false, 0, 2},
		"offset":           {AnyPage{Offset: set(3)}, []int{7, 11}, false, true, 3, 20},
		"beyond the end":   {AnyPage{Offset: set(9)}, []int{}, false, true, 9, 20},
		"very far":         {AnyPage{Offset: set(1 << 62), Limit: set(1000)}, []int{}, false, true, 1 << 62, 1000},
		"none at all":      {AnyPage{Limit: set(0)}, []int{}, true, false, 0, 0},
		"first":            {AnyPage{CursorPage: CursorPage{First: set(3)}}, []int{2, 3, 5}, true, false, 0, 3},
		"after":            {AnyPage{CursorPage: CursorPage{After: set(*toCursor(5))}}, []int{7, 11}, false, true, 3, 20},
		"after a gone one": {AnyPage{CursorPage: CursorPage{First: set(1), After: set(*toCursor(4))}}, []int{5}, true, true, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, info, pagination, err := page(c.page, all, identity)
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
	if _, _, _, err := page(AnyPage{Offset: set(0), CursorPage: CursorPage{First: set(1)}}, all, identity); err == nil {
		t.Error("both styles at once are taken")
	}
}

// Whatever a caller sends as a cursor, it is refused or means a place in the list; one that
// was given out leads to the item after it.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"", "MQ", "Ig", "eyJhIjoxfQ", "!!", *toCursor(7), *toCursor("x")} {
		f.Add(seed)
	}
	all := []int{2, 3, 5, 7, 11}
	f.Fuzz(func(t *testing.T, cursor string) {
		if i, err := start(set(cursor), all, identity); err == nil && (i < 0 || i > len(all)) {
			t.Errorf("%q is place %d", cursor, i)
		}
		if key, err := fromCursor[string](*toCursor(cursor)); utf8.ValidString(cursor) && (err != nil || key != cursor) {
			t.Errorf("%q comes back as %q: %v", cursor, key, err)
		}
	})
}

// The name of an object becomes a host name.
func FuzzObjectName(f *testing.F) {
	for _, seed := range []string{"Sales", "", "-", "2026", "ÄÖ", strings.Repeat("a-", 40), "a" + strings.Repeat(" ", 31) + "b"} {
		f.Add(seed)
	}
	valid := regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?-?$`)
	f.Fuzz(func(t *testing.T, shown string) {
		if name := objectName(shown); !valid.MatchString(name) || len(name) > maxObjectName {
			t.Errorf("%q becomes %q", shown, name)
		}
	})
}
