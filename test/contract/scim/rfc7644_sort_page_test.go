package scim_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// sortedPeople creates users and returns a filter for them. Each is the prefix of the userName and the
// members of the body.
func sortedPeople(t *testing.T, admin scimtest.Caller, people ...[2]string) (filter string) {
	t.Helper()
	mark := scimtest.UniqueName("sorted")
	for _, p := range people {
		body := `"userType":` + scimtest.Quote(mark)
		if p[1] != "" {
			body += "," + p[1]
		}
		admin.CreateUser(t, p[0]+"@"+mark, body)
	}
	return `userType eq ` + scimtest.Quote(mark)
}

func TestRFC7644Section3_4_2_3_Sorting(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	extension := func(members string) string { return `"` + scimtest.AttributesURN + `":{` + members + `}` }
	filter := sortedPeople(t, admin,
		[2]string{"Bea", `"title":"b","externalId":"b","emails":[{"value":"z@x"},{"value":"a@x","primary":true}],"active":false,` + extension(`"level":10,"since":"2020-01-01T00:00:00Z","score":1.5,"badge":"a"`)},
		[2]string{"adam", `"title":"A","externalId":"a","emails":[{"value":"C@x"}],"name":{"familyName":"Z"},"active":true,` + extension(`"level":9,"since":"2020-01-01T00:30:00+01:00","score":-2,"badge":"B"`)},
		[2]string{"Émile", `"externalId":"A","emails":[{"value":"b@x"},{"value":"a@x"}],"active":true`},
		[2]string{"caro", `"title":"B","externalId":"B","name":{"familyName":"y"},"active":true,` + extension(`"level":-1,"score":1.25,"badge":"b"`)},
	)
	for _, tc := range []struct{ by, order, want string }{
		{"userName", "", "adam Bea caro Émile"}, {"userName", "ascending", "adam Bea caro Émile"}, {"userName", "descending", "Émile caro Bea adam"}, {"USERNAME", "Descending", "Émile caro Bea adam"},
		{scimtest.UserURN + ":userName", "", "adam Bea caro Émile"},
		// Ignoring case, b and B are equal: the order of creation decides.
		{"title", "ascending", "adam Bea caro Émile"},
		{"title", "descending", "Émile Bea caro adam"},
		// Case-exact: upper case before lower case.
		{"externalId", "", "Émile caro adam Bea"}, {scimtest.AttributesURN + ":badge", "", "adam Bea caro Émile"},
		// Of several values the primary one is compared, or else the first.
		{"emails", "", "Bea Émile adam caro"}, {"emails.value", "descending", "caro adam Émile Bea"},
		// No value is last, or first if descending.
		{"name.familyName", "", "caro adam Bea Émile"}, {"name.familyName", "descending", "Bea Émile adam caro"},
		{"active", "", "Bea adam Émile caro"},
		{scimtest.AttributesURN + ":level", "", "caro adam Bea Émile"}, {scimtest.AttributesURN + ":level", "descending", "Émile Bea adam caro"}, {scimtest.AttributesURN + ":score", "", "adam caro Bea Émile"},
		{scimtest.AttributesURN + ":since", "", "adam Bea Émile caro"}, {scimtest.AttributesURN + ":nothing-but-case", "", ""},
		{"nickName", "", "Bea adam Émile caro"}, {"nickName", "descending", "Bea adam Émile caro"}, {"meta.resourceType", "", "Bea adam Émile caro"},
	} {
		t.Run(tc.by+" "+tc.order, func(t *testing.T) {
			got := admin.Find(t, "/Users", filter, "sortBy", tc.by, "sortOrder", tc.order)
			if tc.want == "" {
				got.WantError(400, "invalidValue", "sortBy", "nothing-but-case")
				return
			}
			// Equal values are in the order of creation, which may have a resolution of seconds.
			ties := tc.by == "title" || tc.by == "active" || tc.by == "nickName" || tc.by == "meta.resourceType" || strings.Contains(tc.by, ".familyName") || tc.by == scimtest.AttributesURN+":since" || tc.by == "emails.value" || tc.by == "emails"
			if names := got.WantStatus(200).Column("userName"); names != tc.want && (!ties || scimtest.InMemory) {
				t.Errorf("got %q, want %q", names, tc.want)
			}
			body := fmt.Sprintf(`"filter":%s,"sortBy":%q,"sortOrder":%q`, scimtest.Quote(filter), tc.by, tc.order)
			if searched := admin.Search(t, "/Users", body).WantStatus(200); !slices.Equal(searched.IDs(), got.IDs()) {
				t.Errorf(".search: order %q, want %q", searched.Column("userName"), got.Column("userName"))
			}
		})
	}
	t.Run("unsupported sort attributes", func(t *testing.T) {
		for _, by := range []string{"nothing", "name.nothing", "urn:nobody:1.0:X:a", `emails[type eq "work"]`, "user name", "a.b.c", "."} {
			admin.Call(t, "GET", "/Users"+scimtest.Query("sortBy", by), nil).WantError(400, "invalidValue", "sortBy")
		}
		for _, by := range []string{"name", "meta", "addresses", scimtest.EnterpriseURN} {
			admin.Call(t, "GET", "/Users"+scimtest.Query("sortBy", by), nil).WantError(400, "invalidPath", by)
		}
		admin.Call(t, "GET", "/Groups?sortBy=members", nil).WantError(400, "invalidPath", "members")
		admin.Call(t, "GET", "/Groups?sortBy=userName", nil).WantError(400, "invalidValue", "sortBy")
		admin.Call(t, "GET", "/Users?sortBy=userName&sortOrder=up", nil).WantError(400, "invalidValue", "sortOrder")
		admin.Call(t, "GET", "?sortBy=nothing", nil).WantError(400, "invalidValue", "sortBy")
	})
}

func TestRFC7644Section3_4_2_4_Pagination(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	var people [][2]string
	for i := range 7 {
		people = append(people, [2]string{fmt.Sprintf("p%d", i), ""})
	}
	filter := sortedPeople(t, admin, people...)
	page := func(pairs ...string) *scimtest.Response {
		t.Helper()
		return admin.Find(t, "/Users", filter, append([]string{"sortBy", "userName"}, pairs...)...)
	}
	for _, tc := range []struct {
		start, count, want string
		startIndex         int
	}{
		{"", "", "p0 p1 p2 p3 p4 p5 p6", 1}, {"1", "3", "p0 p1 p2", 1}, {"3", "2", "p2 p3", 3}, {"6", "5", "p5 p6", 6}, {"7", "", "p6", 7}, {"8", "5", "", 8}, {"1000000", "5", "", 1000000},
		{"0", "2", "p0 p1", 1}, {"-5", "2", "p0 p1", 1}, {"1", "0", "", 1}, {"1", "-3", "", 1}, {"1", "1000000", "p0 p1 p2 p3 p4 p5 p6", 1},
	} {
		t.Run("startIndex="+tc.start+" count="+tc.count, func(t *testing.T) {
			got := page("startIndex", tc.start, "count", tc.count).WantStatus(200)
			got.Want("schemas.0", scimtest.ListURN).Want("totalResults", 7).Want("startIndex", tc.startIndex).Want("itemsPerPage", len(strings.Fields(tc.want)))
			if names := got.Column("userName"); names != tc.want {
				t.Errorf("got %q, want %q", names, tc.want)
			}
			if _, list := got.Value("Resources").([]any); !list {
				t.Errorf("Resources is not a list: %s", got.Raw)
			}
			if tc.start == "" || tc.count == "" {
				return
			}
			members := fmt.Sprintf(`"filter":%s,"sortBy":"userName","startIndex":%s,"count":%s`, scimtest.Quote(filter), tc.start, tc.count)
			admin.Search(t, "/Users", members).WantStatus(200).Want("totalResults", 7).Want("startIndex", tc.startIndex).Want("itemsPerPage", len(strings.Fields(tc.want)))
		})
	}
	t.Run("invalid integers are rejected", func(t *testing.T) {
		for _, bad := range []string{"x", "1.5", "1e3", "99999999999999999999"} {
			page("startIndex", bad).WantError(400, "invalidValue", "startIndex")
			page("count", bad).WantError(400, "invalidValue", "count")
		}
		admin.Search(t, "/Users", `"count":"5"`).WantError(400, "invalidValue", "count")
		admin.Search(t, "/Users", `"startIndex":1.5`).WantError(400, "invalidValue", "startIndex")
	})
	t.Run("the order is total and stable, with or without sorting", func(t *testing.T) {
		for _, sort := range []string{"", "userType", "nickName", "userName"} {
			var whole, paged []string
			whole = admin.Find(t, "/Users", filter, "sortBy", sort).WantStatus(200).IDs()
			for start := 1; start <= 7; start += 2 {
				paged = append(paged, admin.Find(t, "/Users", filter, "sortBy", sort, "startIndex", fmt.Sprint(start), "count", "2").WantStatus(200).IDs()...)
			}
			if !slices.Equal(whole, paged) || len(whole) != 7 {
				t.Errorf("sorted by %q: whole %v, in pages %v", sort, whole, paged)
			}
		}
	})
}

func TestRFC7644Section3_4_2_4_PaginationDuringWrites(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	var people [][2]string
	for i := range 20 {
		people = append(people, [2]string{fmt.Sprintf("p%02d", i), `"title":"tie"`})
	}
	filter := sortedPeople(t, admin, people...)
	want := admin.Find(t, "/Users", filter, "sortBy", "title").WantStatus(200).IDs()
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for i, id := range want[:2] {
		writers.Add(1)
		go func() {
			defer writers.Done()
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				// Neither affects the filter or the order of the list.
				if got, err := admin.Try(t.Context(), "PATCH", "/Users/"+id, scimtest.PatchBody(fmt.Sprintf(`{"op":"replace","path":"nickName","value":"n%d-%d"}`, i, n))); err != nil || got.Status != 200 {
					t.Errorf("%v %v", got, err)
					return
				}
			}
		}()
	}
	for range 5 {
		var got []string
		for start := 1; start <= 20; start += 3 {
			got = append(got, admin.Find(t, "/Users", filter, "sortBy", "title", "startIndex", fmt.Sprint(start), "count", "3").WantStatus(200).IDs()...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	close(stop)
	writers.Wait()
}

func TestRFC7644Section3_4_3_SearchByPOST(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	filter := sortedPeople(t, admin, [2]string{"ada", ""}, [2]string{"bob", ""})
	t.Run("returns 200 with a ListResponse", func(t *testing.T) {
		got := admin.Search(t, "/Users", `"filter":`+scimtest.Quote(filter)+`,"sortBy":"userName","sortOrder":"descending","attributes":["userName"]`).WantStatus(200)
		if got.Want("schemas.0", scimtest.ListURN).Want("totalResults", 2).Column("userName") != "bob ada" || got.Value("Resources.0.userType") != nil {
			t.Errorf("%s", got.Raw)
		}
	})
	t.Run("an empty search lists all", func(t *testing.T) {
		got := admin.Call(t, "POST", "/Users/.search", `{"schemas":["`+scimtest.SearchURN+`"]}`).WantStatus(200)
		if total, _ := got.Value("totalResults").(float64); total < 2 {
			t.Errorf("%s", got.Raw)
		}
	})
	t.Run("a body that is not a search is rejected", func(t *testing.T) {
		for body, word := range map[string]string{
			`{"schemas":["` + scimtest.ListURN + `"]}`: "schemas", `{"schemas":"` + scimtest.SearchURN + `"}`: "schemas", `{"schemas":["` + scimtest.SearchURN + `"],"filters":"x"}`: "filters",
		} {
			admin.Call(t, "POST", "/Users/.search", body).WantError(400, "invalidSyntax", word)
		}
		for body, word := range map[string]string{`"attributes":"userName"`: "attributes", `"sortBy":1`: "sortBy", `"excludedAttributes":[1]`: "excludedAttributes", `"cursor":1`: "cursor"} {
			admin.Search(t, "/Users", body).WantError(400, "invalidValue", word)
		}
	})
	t.Run("an unknown type is a 404", func(t *testing.T) {
		admin.Search(t, "/Devices", `"count":1`).WantError(404, "")
	})
}

func TestRFC7644Section3_4_2_1_ListsOverAllTypes(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	mark := scimtest.UniqueName("root")
	user := admin.CreateUser(t, mark, `"externalId":`+scimtest.Quote(mark)+`,"displayName":"Z"`)
	group := admin.Create(t, "/Groups", `{"displayName":`+scimtest.Quote(mark)+`,"externalId":`+scimtest.Quote(mark)+`,"members":[{"value":`+scimtest.Quote(user)+`}]}`)
	both := `externalId eq ` + scimtest.Quote(mark)
	for _, tc := range []struct {
		filter string
		want   []string
	}{
		{both, []string{user, group}}, {both + ` and meta.resourceType eq "Group"`, []string{group}}, {both + ` and userName pr`, []string{user}}, {`userName eq ` + scimtest.Quote(mark), []string{user}},
		{`displayName eq ` + scimtest.Quote(mark), []string{group}}, {`members.value eq ` + scimtest.Quote(user), []string{group}}, {both + ` and not (id eq ` + scimtest.Quote(user) + `)`, []string{group}},
	} {
		t.Run(tc.filter, func(t *testing.T) {
			for _, got := range []*scimtest.Response{admin.Find(t, "", tc.filter), admin.Search(t, "", `"filter":`+scimtest.Quote(tc.filter))} {
				if ids := got.WantStatus(200).Want("totalResults", len(tc.want)).IDs(); !slices.Equal(ids, tc.want) {
					t.Errorf("%s: got %v, want %v", got.Request, ids, tc.want)
				}
			}
		})
	}
	t.Run("a page spans types", func(t *testing.T) {
		first := admin.Find(t, "", both, "count", "1").WantStatus(200).Want("totalResults", 2).Want("itemsPerPage", 1)
		second := admin.Find(t, "", both, "count", "1", "startIndex", "2").WantStatus(200).Want("totalResults", 2).Want("startIndex", 2)
		if !slices.Equal(append(first.IDs(), second.IDs()...), []string{user, group}) {
			t.Errorf("%v %v", first.IDs(), second.IDs())
		}
		admin.Find(t, "", both, "count", "0").WantStatus(200).Want("totalResults", 2).Want("Resources.0", nil)
	})
	t.Run("attributes of one type", func(t *testing.T) {
		got := admin.Find(t, "", both, "attributes", "userName,members").WantStatus(200)
		got.Want("Resources.0.userName", mark).Want("Resources.0.displayName", nil).Want("Resources.1.members.0.value", user).Want("Resources.1.displayName", nil)
		admin.Find(t, "", both, "attributes", "nothing").WantError(400, "invalidValue", "nothing")
	})
	t.Run("without a filter", func(t *testing.T) {
		all := admin.Call(t, "GET", "?count=1000", nil).WantStatus(200).IDs()
		if !slices.Contains(all, user) || !slices.Contains(all, group) {
			t.Errorf("%v", all)
		}
	})
}
