package scim_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/test/internal/scimtest"

	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// listByCursor lists all pages by cursor, calls between after each page, and returns the ids.
func listByCursor(t *testing.T, a scimtest.Caller, endpoint string, between func(page int), pairs ...string) []string {
	t.Helper()
	var all []string
	cursor := ""
	for page := 1; page < 100; page++ {
		got := a.Call(t, "GET", endpoint+scimtest.Query(append([]string{"cursor", cursor}, pairs...)...), nil).WantStatus(200)
		all = append(all, got.IDs()...)
		if cursor = got.Text("nextCursor"); cursor == "" {
			return all
		}
		between(page)
	}
	t.Fatal("too many pages")
	return nil
}

func nothing(int) {}

// seven creates seven users and returns a filter for them.
func seven(t *testing.T, admin scimtest.Caller) (filter string) {
	t.Helper()
	var people [][2]string
	for i := range 7 {
		people = append(people, [2]string{fmt.Sprintf("p%d", i), `"title":"` + string("bab"[i%3]) + `"`})
	}
	return sortedPeople(t, admin, people...)
}

func TestRFC9865Section2_CursorPagination(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	filter := seven(t, admin)
	t.Run("an empty cursor is the first page, and the last one has no nextCursor", func(t *testing.T) {
		first := admin.Find(t, "/Users", filter, "cursor", "", "count", "4").WantStatus(200).Want("schemas.0", scimtest.ListURN).Want("totalResults", 7).Want("itemsPerPage", 4).Want("startIndex", nil)
		next := first.Text("nextCursor")
		if next == "" || len(next) > 1000 {
			t.Fatalf("nextCursor %q", next)
		}
		second := admin.Find(t, "/Users", filter, "cursor", next, "count", "4").WantStatus(200).Want("totalResults", 7).Want("itemsPerPage", 3).Want("nextCursor", nil)
		whole := admin.Find(t, "/Users", filter).WantStatus(200).Want("nextCursor", nil).IDs()
		if !slices.Equal(append(first.IDs(), second.IDs()...), whole) {
			t.Errorf("pages %v %v, whole %v", first.IDs(), second.IDs(), whole)
		}
		again := admin.Find(t, "/Users", filter, "cursor", next, "count", "4").WantStatus(200)
		if !slices.Equal(again.IDs(), second.IDs()) {
			t.Error("a cursor is good more than once")
		}
	})
	t.Run("a full last page has no nextCursor", func(t *testing.T) {
		admin.Find(t, "/Users", filter, "cursor", "", "count", "7").WantStatus(200).Want("itemsPerPage", 7).Want("nextCursor", nil)
	})
	t.Run("count may change from page to page", func(t *testing.T) {
		first := admin.Find(t, "/Users", filter, "cursor", "", "count", "1").WantStatus(200)
		admin.Find(t, "/Users", filter, "cursor", first.Text("nextCursor"), "count", "6").WantStatus(200).Want("itemsPerPage", 6).Want("nextCursor", nil)
	})
	t.Run("count=0 returns only the total", func(t *testing.T) {
		admin.Find(t, "/Users", filter, "cursor", "", "count", "0").WantStatus(200).Want("totalResults", 7).Want("itemsPerPage", 0).Want("nextCursor", nil)
	})
	t.Run("without a cursor parameter there is no nextCursor", func(t *testing.T) {
		admin.Find(t, "/Users", filter, "count", "2").WantStatus(200).Want("nextCursor", nil).Want("startIndex", 1)
	})
}

func TestRFC9865Section2_CursorsAreBoundToTheirList(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	filter := seven(t, admin)
	t.Run("sorted lists with equal values", func(t *testing.T) {
		for _, order := range []string{"ascending", "descending"} {
			for _, by := range []string{"title", "nickName", "userName", "emails"} {
				whole := admin.Find(t, "/Users", filter, "sortBy", by, "sortOrder", order).WantStatus(200).IDs()
				if paged := listByCursor(t, admin, "/Users", nothing, "filter", filter, "sortBy", by, "sortOrder", order, "count", "2"); !slices.Equal(whole, paged) || len(paged) != 7 {
					t.Errorf("by %s %s: whole %v, in pages %v", by, order, whole, paged)
				}
			}
		}
	})
	t.Run("from one replica to the other", func(t *testing.T) {
		first := admin.Find(t, "/Users", filter, "cursor", "", "count", "4").WantStatus(200)
		apiclient.Soon(t, func() error {
			second := admin.OnReplica(1).Find(t, "/Users", filter, "cursor", first.Text("nextCursor"), "count", "4").WantStatus(200)
			if len(append(first.IDs(), second.IDs()...)) != 7 {
				return fmt.Errorf("pages %v %v", first.IDs(), second.IDs())
			}
			return nil
		})
	})
	t.Run("with POST .search", func(t *testing.T) {
		members := `"filter":` + scimtest.Quote(filter) + `,"count":5,"cursor":`
		first := admin.Search(t, "/Users", members+`""`).WantStatus(200).Want("itemsPerPage", 5).Want("startIndex", nil)
		second := admin.Search(t, "/Users", members+scimtest.Quote(first.Text("nextCursor"))).WantStatus(200).Want("itemsPerPage", 2).Want("nextCursor", nil)
		if len(second.IDs()) != 2 || slices.Contains(first.IDs(), second.IDs()[0]) {
			t.Errorf("%v %v", first.IDs(), second.IDs())
		}
	})
	t.Run("over all types", func(t *testing.T) {
		mark := scimtest.UniqueName("root")
		want := []string{admin.CreateUser(t, scimtest.UniqueName("u"), `"externalId":`+scimtest.Quote(mark)), admin.Create(t, "/Groups", `{"displayName":`+scimtest.Quote(scimtest.UniqueName("g"))+`,"externalId":`+scimtest.Quote(mark)+`}`)}
		if got := listByCursor(t, admin, "", nothing, "filter", "externalId eq "+scimtest.Quote(mark), "count", "1"); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestRFC9865Section2_WritesDuringPagination(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	for _, sort := range []string{"", "userName"} {
		t.Run("sorted by "+sort, func(t *testing.T) {
			mark := scimtest.UniqueName("w")
			var there []string
			create := func(name string) string { return admin.CreateUser(t, name+mark, `"userType":`+scimtest.Quote(mark)) }
			for i := range 10 {
				there = append(there, create(fmt.Sprintf("m%d-", i)))
			}
			gone := there[0]
			got := listByCursor(t, admin, "/Users", func(page int) {
				create(fmt.Sprintf("a%d-", page)) // before and after the current page
				create(fmt.Sprintf("z%d-", page))
				if page == 1 {
					admin.Call(t, "DELETE", "/Users/"+gone, nil).WantStatus(204)
				}
				if page > 20 {
					t.Fatal("too many pages")
				}
			}, "filter", `userType eq `+scimtest.Quote(mark)+` and not (userName sw "z")`, "sortBy", sort, "count", "3")
			seen := map[string]int{}
			for _, id := range got {
				seen[id]++
			}
			for _, id := range there {
				if seen[id] != 1 {
					t.Errorf("%s is returned %d times", id, seen[id])
				}
			}
			for id, n := range seen {
				if n > 1 {
					t.Errorf("%s is returned %d times", id, n)
				}
			}
		})
	}
}

// forge returns a cursor with one member changed.
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
	return base64.RawURLEncoding.EncodeToString([]byte(scimtest.FormatJSON(members)))
}

func TestRFC9865Section2_1_Errors(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	filter := sortedPeople(t, admin, [2]string{"a", ""}, [2]string{"b", ""}, [2]string{"c", ""})
	list := func(pairs ...string) *scimtest.Response {
		t.Helper()
		return admin.Find(t, "/Users", filter, pairs...)
	}
	cursor := list("cursor", "", "count", "1").WantStatus(200).Text("nextCursor")
	list("cursor", cursor).WantStatus(200)
	t.Run("an unknown cursor is an invalidCursor", func(t *testing.T) {
		for _, bad := range []string{"x", "!!!", cursor[:len(cursor)/2], cursor + "x", base64.RawURLEncoding.EncodeToString([]byte(`{}`)), base64.RawURLEncoding.EncodeToString([]byte(`[]`)), forge(t, cursor, "q", "AAAA"), forge(t, cursor, "p", map[string]any{}), forge(t, cursor, "y", "Device")} {
			list("cursor", bad).WantError(400, "invalidCursor", "cursor")
			admin.Search(t, "/Users", `"filter":`+scimtest.Quote(filter)+`,"cursor":`+scimtest.Quote(bad)).WantError(400, "invalidCursor", "cursor")
		}
	})
	t.Run("a cursor of another list is an invalidCursor", func(t *testing.T) {
		admin.Find(t, "/Users", `userName pr`, "cursor", cursor).WantError(400, "invalidCursor")
		admin.Call(t, "GET", "/Users"+scimtest.Query("cursor", cursor), nil).WantError(400, "invalidCursor")
		admin.Find(t, "", filter, "cursor", cursor).WantError(400, "invalidCursor")
		admin.Call(t, "GET", "/Groups"+scimtest.Query("cursor", cursor), nil).WantError(400, "invalidCursor")
		list("cursor", cursor, "sortBy", "userName").WantError(400, "invalidCursor")
		sorted := list("cursor", "", "count", "1", "sortBy", "userName").WantStatus(200).Text("nextCursor")
		list("cursor", sorted, "sortBy", "userName", "sortOrder", "descending").WantError(400, "invalidCursor")
		globex.WithToken(globex.RFC).Find(t, "/Users", filter, "cursor", cursor).WantError(400, "invalidCursor")
	})
	t.Run("a cursor expires after cursorTimeout", func(t *testing.T) {
		timeout, _ := admin.Call(t, "GET", "/ServiceProviderConfig", nil).WantStatus(200).Value("pagination.cursorTimeout").(float64)
		if timeout < 60 {
			t.Fatalf("cursorTimeout is %v", timeout)
		}
		age := func(seconds float64) string { return forge(t, cursor, "a", time.Now().Unix()-int64(seconds)) }
		list("cursor", age(timeout-30)).WantStatus(200)
		list("cursor", age(timeout+30)).WantError(400, "expiredCursor", "cursor")
		list("cursor", forge(t, cursor, "a", time.Now().Add(24*time.Hour).Unix())).WantError(400, "expiredCursor")
	})
	t.Run("a count out of range is an invalidCount", func(t *testing.T) {
		for _, count := range []string{"-1", "1001", "1000000"} {
			list("cursor", "", "count", count).WantError(400, "invalidCount", "count")
			list("cursor", cursor, "count", count).WantError(400, "invalidCount", "count")
		}
		list("cursor", "", "count", "1000").WantStatus(200)
		admin.Search(t, "/Users", `"cursor":"","count":-1`).WantError(400, "invalidCount", "count")
	})
	t.Run("cursor and startIndex are mutually exclusive", func(t *testing.T) {
		list("cursor", "", "startIndex", "1").WantError(400, "invalidValue", "startIndex", "cursor")
		list("cursor", cursor, "startIndex", "2").WantError(400, "invalidValue", "startIndex", "cursor")
		admin.Search(t, "/Users", `"cursor":"","startIndex":1`).WantError(400, "invalidValue", "startIndex")
	})
}
