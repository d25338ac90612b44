package scim_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/test/contract/internal/apiclient"
)

// byCursors goes through a list by its cursors, and calls between after each page. It returns the ids.
func (a as) byCursors(t *testing.T, endpoint string, between func(page int), pairs ...string) []string {
	t.Helper()
	var all []string
	cursor := ""
	for page := 1; page < 100; page++ {
		got := a.call(t, "GET", endpoint+query(append([]string{"cursor", cursor}, pairs...)...), nil).is(200)
		all = append(all, got.ids()...)
		if cursor = got.text("nextCursor"); cursor == "" {
			return all
		}
		between(page)
	}
	t.Fatal("the list does not end")
	return nil
}

func nothing(int) {}

// seven creates as many people as a filter then finds.
func seven(t *testing.T, admin as) (filter string) {
	t.Helper()
	var people [][2]string
	for i := range 7 {
		people = append(people, [2]string{fmt.Sprintf("p%d", i), `"title":"` + string("bab"[i%3]) + `"`})
	}
	return sortedPeople(t, admin, people...)
}

func TestRFC9865Section2_CursorPagination(t *testing.T) {
	admin := acme.as(acme.rfc)
	filter := seven(t, admin)
	t.Run("an empty cursor is the first page, and the last one has no nextCursor", func(t *testing.T) {
		first := admin.find(t, "/Users", filter, "cursor", "", "count", "4").is(200).want("schemas.0", listURN).want("totalResults", 7).want("itemsPerPage", 4).want("startIndex", nil)
		next := first.text("nextCursor")
		if next == "" || len(next) > 1000 {
			t.Fatalf("nextCursor %q", next)
		}
		second := admin.find(t, "/Users", filter, "cursor", next, "count", "4").is(200).want("totalResults", 7).want("itemsPerPage", 3).want("nextCursor", nil)
		whole := admin.find(t, "/Users", filter).is(200).want("nextCursor", nil).ids()
		if !slices.Equal(append(first.ids(), second.ids()...), whole) {
			t.Errorf("pages %v %v, whole %v", first.ids(), second.ids(), whole)
		}
		again := admin.find(t, "/Users", filter, "cursor", next, "count", "4").is(200)
		if !slices.Equal(again.ids(), second.ids()) {
			t.Error("a cursor is good more than once")
		}
	})
	t.Run("a page that is just full and the last has no nextCursor", func(t *testing.T) {
		admin.find(t, "/Users", filter, "cursor", "", "count", "7").is(200).want("itemsPerPage", 7).want("nextCursor", nil)
	})
	t.Run("count may change from page to page", func(t *testing.T) {
		first := admin.find(t, "/Users", filter, "cursor", "", "count", "1").is(200)
		admin.find(t, "/Users", filter, "cursor", first.text("nextCursor"), "count", "6").is(200).want("itemsPerPage", 6).want("nextCursor", nil)
	})
	t.Run("count=0 tells the total alone", func(t *testing.T) {
		admin.find(t, "/Users", filter, "cursor", "", "count", "0").is(200).want("totalResults", 7).want("itemsPerPage", 0).want("nextCursor", nil)
	})
	t.Run("without a cursor in the request there is none in the answer", func(t *testing.T) {
		admin.find(t, "/Users", filter, "count", "2").is(200).want("nextCursor", nil).want("startIndex", 1)
	})
}

func TestRFC9865Section2_CursorsOfOtherLists(t *testing.T) {
	admin := acme.as(acme.rfc)
	filter := seven(t, admin)
	t.Run("sorted lists too, equal values included", func(t *testing.T) {
		for _, order := range []string{"ascending", "descending"} {
			for _, by := range []string{"title", "nickName", "userName", "emails"} {
				whole := admin.find(t, "/Users", filter, "sortBy", by, "sortOrder", order).is(200).ids()
				if paged := admin.byCursors(t, "/Users", nothing, "filter", filter, "sortBy", by, "sortOrder", order, "count", "2"); !slices.Equal(whole, paged) || len(paged) != 7 {
					t.Errorf("by %s %s: whole %v, in pages %v", by, order, whole, paged)
				}
			}
		}
	})
	t.Run("from one replica to the other", func(t *testing.T) {
		first := admin.find(t, "/Users", filter, "cursor", "", "count", "4").is(200)
		apiclient.Soon(t, func() error {
			second := admin.at(1).find(t, "/Users", filter, "cursor", first.text("nextCursor"), "count", "4").is(200)
			if len(append(first.ids(), second.ids()...)) != 7 {
				return fmt.Errorf("pages %v %v", first.ids(), second.ids())
			}
			return nil
		})
	})
	t.Run("with POST .search", func(t *testing.T) {
		members := `"filter":` + quote(filter) + `,"count":5,"cursor":`
		first := admin.search(t, "/Users", members+`""`).is(200).want("itemsPerPage", 5).want("startIndex", nil)
		second := admin.search(t, "/Users", members+quote(first.text("nextCursor"))).is(200).want("itemsPerPage", 2).want("nextCursor", nil)
		if len(second.ids()) != 2 || slices.Contains(first.ids(), second.ids()[0]) {
			t.Errorf("%v %v", first.ids(), second.ids())
		}
	})
	t.Run("over all types", func(t *testing.T) {
		mark := unique("root")
		want := []string{admin.user(t, unique("u"), `"externalId":`+quote(mark)), admin.created(t, "/Groups", `{"displayName":`+quote(unique("g"))+`,"externalId":`+quote(mark)+`}`)}
		if got := admin.byCursors(t, "", nothing, "filter", "externalId eq "+quote(mark), "count", "1"); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestRFC9865Section2_WritesDuringPagingLoseAndRepeatNothing(t *testing.T) {
	admin := acme.as(acme.rfc)
	for _, sort := range []string{"", "userName"} {
		t.Run("sorted by "+sort, func(t *testing.T) {
			mark := unique("w")
			var there []string
			create := func(name string) string { return admin.user(t, name+mark, `"userType":`+quote(mark)) }
			for i := range 10 {
				there = append(there, create(fmt.Sprintf("m%d-", i)))
			}
			gone := there[0]
			got := admin.byCursors(t, "/Users", func(page int) {
				create(fmt.Sprintf("a%d-", page)) // before and behind what was seen
				create(fmt.Sprintf("z%d-", page))
				if page == 1 {
					admin.call(t, "DELETE", "/Users/"+gone, nil).is(204)
				}
				if page > 20 {
					t.Fatal("the list does not end")
				}
			}, "filter", `userType eq `+quote(mark)+` and not (userName sw "z")`, "sortBy", sort, "count", "3")
			seen := map[string]int{}
			for _, id := range got {
				seen[id]++
			}
			for _, id := range there {
				if seen[id] != 1 {
					t.Errorf("%s is there %d times", id, seen[id])
				}
			}
			for id, n := range seen {
				if n > 1 {
					t.Errorf("%s is there %d times", id, n)
				}
			}
		})
	}
}

// forge is a cursor with one of its members changed.
func forge(t *testing.T, cursor, member string, value any) string {
	t.Helper()
	var members map[string]any
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(data, &members)
	}
	if err != nil {
		t.Fatalf("cursor %q: %v", cursor, err)
	}
	members[member] = value
	return base64.RawURLEncoding.EncodeToString([]byte(asJSON(members)))
}

func TestRFC9865Section2_1_Refusals(t *testing.T) {
	admin := acme.as(acme.rfc)
	filter := sortedPeople(t, admin, [2]string{"a", ""}, [2]string{"b", ""}, [2]string{"c", ""})
	list := func(pairs ...string) *answer {
		t.Helper()
		return admin.find(t, "/Users", filter, pairs...)
	}
	cursor := list("cursor", "", "count", "1").is(200).text("nextCursor")
	list("cursor", cursor).is(200)
	t.Run("a cursor that was not given out is an invalidCursor", func(t *testing.T) {
		for _, bad := range []string{"x", "!!!", cursor[:len(cursor)/2], cursor + "x", base64.RawURLEncoding.EncodeToString([]byte(`{}`)), base64.RawURLEncoding.EncodeToString([]byte(`[]`)), forge(t, cursor, "q", "AAAA"), forge(t, cursor, "p", map[string]any{}), forge(t, cursor, "y", "Device")} {
			list("cursor", bad).refused(400, "invalidCursor", "cursor")
			admin.search(t, "/Users", `"filter":`+quote(filter)+`,"cursor":`+quote(bad)).refused(400, "invalidCursor", "cursor")
		}
	})
	t.Run("a cursor of another list is an invalidCursor", func(t *testing.T) {
		admin.find(t, "/Users", `userName pr`, "cursor", cursor).refused(400, "invalidCursor")
		admin.call(t, "GET", "/Users"+query("cursor", cursor), nil).refused(400, "invalidCursor")
		admin.find(t, "", filter, "cursor", cursor).refused(400, "invalidCursor")
		admin.call(t, "GET", "/Groups"+query("cursor", cursor), nil).refused(400, "invalidCursor")
		list("cursor", cursor, "sortBy", "userName").refused(400, "invalidCursor")
		sorted := list("cursor", "", "count", "1", "sortBy", "userName").is(200).text("nextCursor")
		list("cursor", sorted, "sortBy", "userName", "sortOrder", "descending").refused(400, "invalidCursor")
		globex.as(globex.rfc).find(t, "/Users", filter, "cursor", cursor).refused(400, "invalidCursor")
	})
	t.Run("a cursor is good for as long as discovery says, then it is an expiredCursor", func(t *testing.T) {
		timeout, _ := admin.call(t, "GET", "/ServiceProviderConfig", nil).is(200).at("pagination.cursorTimeout").(float64)
		if timeout < 60 {
			t.Fatalf("cursorTimeout is %v", timeout)
		}
		age := func(seconds float64) string { return forge(t, cursor, "a", time.Now().Unix()-int64(seconds)) }
		list("cursor", age(timeout-30)).is(200)
		list("cursor", age(timeout+30)).refused(400, "expiredCursor", "cursor")
		list("cursor", forge(t, cursor, "a", time.Now().Add(24*time.Hour).Unix())).refused(400, "expiredCursor")
	})
	t.Run("a count out of bounds is an invalidCount", func(t *testing.T) {
		for _, count := range []string{"-1", "1001", "1000000"} {
			list("cursor", "", "count", count).refused(400, "invalidCount", "count")
			list("cursor", cursor, "count", count).refused(400, "invalidCount", "count")
		}
		list("cursor", "", "count", "1000").is(200)
		admin.search(t, "/Users", `"cursor":"","count":-1`).refused(400, "invalidCount", "count")
	})
	t.Run("cursor and startIndex exclude each other", func(t *testing.T) {
		list("cursor", "", "startIndex", "1").refused(400, "invalidValue", "startIndex", "cursor")
		list("cursor", cursor, "startIndex", "2").refused(400, "invalidValue", "startIndex", "cursor")
		admin.search(t, "/Users", `"cursor":"","startIndex":1`).refused(400, "invalidValue", "startIndex")
	})
}
