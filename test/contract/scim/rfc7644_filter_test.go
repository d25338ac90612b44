package scim_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// The users of the filter tests. Their names are the part of userName before the @.
const filterDomain = "@filter.test"

// populate creates the users and returns their ids by name.
func populate(t *testing.T, admin scimtest.Caller) map[string]string {
	t.Helper()
	ids := map[string]string{}
	ids["ada"] = admin.CreateUser(t, "ada"+filterDomain, `"externalId":"X-1","title":"Countess","active":true,"profileUrl":"https://example.com/Ada",
		"name":{"givenName":"Ada","familyName":"Lovelace"},
		"emails":[{"value":"ada@work.test","type":"work","primary":true},{"value":"ada@home.test","type":"home"}],
		"roles":[{"value":"admin"},{"value":"editor"}],"x509Certificates":[{"value":"AAEC"}],
		"`+scimtest.EnterpriseURN+`":{"department":"Engines","employeeNumber":"1"},
		"`+scimtest.AttributesURN+`":{"team":"Blue","level":3,"tags":["red","green"],"badge":"Ab-1","since":"2020-01-01T00:00:00Z","score":1.5,"remote":true}`)
	ids["bob"] = admin.CreateUser(t, "bob"+filterDomain, `"externalId":"x-1","active":false,"name":{"familyName":"Moss"},"emails":[{"value":"bob@home.test","type":"home"}],
		"`+scimtest.EnterpriseURN+`":{"department":"Support","manager":{"value":"`+ids["ada"]+`"}},
		"`+scimtest.AttributesURN+`":{"team":"blue","level":10,"badge":"ab-1","since":"2020-01-01T01:00:00.5+02:00","score":2,"remote":false}`)
	ids["cyd"] = admin.CreateUser(t, "Cyd"+filterDomain, `"active":true,"displayName":"Cy \"D\" \\ Ö","nickName":"","emails":[{"value":"cyd@work.test","type":"work"}]`)
	return ids
}

// found returns the sorted names of the users in a list.
func found(list *scimtest.Response) string {
	var names []string
	for _, r := range list.WantStatus(200).List("Resources") {
		userName, _ := r["userName"].(string)
		if name, ok := strings.CutSuffix(strings.ToLower(userName), filterDomain); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// Filters and the users that match. {ada} is Ada's id.
var filters = []struct{ filter, want string }{
	// All operators on a case-insensitive string.
	{`userName eq "ADA@filter.test"`, "ada"}, {`userName ne "ada@filter.test"`, "bob cyd"}, {`userName co "B@FILTER"`, "bob"},
	{`userName sw "cY"`, "cyd"}, {`userName ew "D@Filter.Test"`, "cyd"}, {`userName gt "BOB@filter.test"`, "cyd"}, {`userName ge "BOB@filter.test"`, "bob cyd"},
	{`userName lt "BOB@filter.test"`, "ada"}, {`userName le "bob@filter.test"`, "ada bob"}, {`userName pr`, "ada bob cyd"}, {`title pr`, "ada"},
	// caseExact.
	{`externalId eq "X-1"`, "ada"}, {`externalId eq "x-1"`, "bob"}, {`externalId sw "X"`, "ada"}, {`externalId co "x-"`, "bob"}, {`externalId gt "X-1"`, "bob"}, {`externalId ne "x-1"`, "ada cyd"},
	{scimtest.AttributesURN + `:badge eq "Ab-1"`, "ada"}, {scimtest.AttributesURN + `:badge sw "ab"`, "bob"}, {scimtest.AttributesURN + `:team eq "BLUE"`, "ada bob"},
	{`id eq "{ada}"`, "ada"}, {`id eq "{ada}x"`, ""}, {`id pr`, "ada bob cyd"},
	// Boolean.
	{`active eq true`, "ada cyd"}, {`active eq false`, "bob"}, {`active ne true`, "bob"}, {`active eq TRUE`, "ada cyd"}, {`active pr`, "ada bob cyd"},
	{scimtest.AttributesURN + `:remote eq false`, "bob"}, {scimtest.AttributesURN + `:remote ne true`, "bob cyd"},
	// Integer and decimal.
	{scimtest.AttributesURN + `:level eq 3`, "ada"}, {scimtest.AttributesURN + `:level eq 3.0`, "ada"}, {scimtest.AttributesURN + `:level eq 3.5`, ""}, {scimtest.AttributesURN + `:level gt 3`, "bob"}, {scimtest.AttributesURN + `:level ge 3`, "ada bob"},
	{scimtest.AttributesURN + `:level lt 10`, "ada"}, {scimtest.AttributesURN + `:level le 9`, "ada"}, {scimtest.AttributesURN + `:level ne 3`, "bob cyd"}, {scimtest.AttributesURN + `:level gt -1e3`, "ada bob"},
	{scimtest.AttributesURN + `:score eq 1.5`, "ada"}, {scimtest.AttributesURN + `:score gt 1.5`, "bob"}, {scimtest.AttributesURN + `:score le 15e-1`, "ada"}, {scimtest.AttributesURN + `:score eq 2`, "bob"},
	// Times with time zones: Bob's is half a second after 23:00 UTC of the day before.
	{scimtest.AttributesURN + `:since eq "2020-01-01T00:00:00Z"`, "ada"}, {scimtest.AttributesURN + `:since eq "2020-01-01T02:00:00+02:00"`, "ada"}, {scimtest.AttributesURN + `:since eq "2019-12-31T23:00:00.500Z"`, "bob"},
	{scimtest.AttributesURN + `:since gt "2019-12-31T23:00:00.5Z"`, "ada"}, {scimtest.AttributesURN + `:since ge "2019-12-31T23:00:00.5Z"`, "ada bob"}, {scimtest.AttributesURN + `:since lt "2020-01-01T00:30:00+01:00"`, "bob"},
	{scimtest.AttributesURN + `:since le "2020-01-01T00:00:00"`, "ada bob"}, {scimtest.AttributesURN + `:since pr`, "ada bob"}, {`meta.created gt "2000-01-01T00:00:00Z"`, "ada bob cyd"}, {`meta.lastModified lt "2000-01-01T00:00:00Z"`, ""},
	{`meta.resourceType eq "User"`, "ada bob cyd"}, {`meta.resourceType eq "user"`, ""}, {`meta.created pr`, "ada bob cyd"},
	// Reference and binary.
	{`profileUrl eq "https://example.com/Ada"`, "ada"}, {`profileUrl eq "https://example.com/ada"`, ""}, {`profileUrl sw "https:"`, "ada"}, {`x509Certificates.value eq "AAEC"`, "ada"}, {`x509Certificates eq "aaec"`, ""},
	// Complex and multi-valued: one value is sufficient, and the name alone means value.
	{`name.familyName co "LOVE"`, "ada"}, {`name pr`, "ada bob"}, {`name.givenName pr`, "ada"}, {`emails eq "ADA@home.test"`, "ada"}, {`emails co "home.test"`, "ada bob"}, {`emails.value ew "work.test"`, "ada cyd"},
	{`emails.type eq "work"`, "ada cyd"}, {`roles eq "editor"`, "ada"}, {`roles.value ne "admin"`, "ada bob cyd"}, {`not (roles.value eq "admin")`, "bob cyd"}, {`roles pr`, "ada"},
	{scimtest.AttributesURN + `:tags eq "GREEN"`, "ada"}, {scimtest.AttributesURN + `:tags pr`, "ada"}, {`groups pr`, ""},
	// Value paths: all terms apply to the same element.
	{`emails[type eq "work" and value co "ada"]`, "ada"}, {`emails[type eq "home" and value ew "@work.test"]`, ""}, {`emails.type eq "home" and emails.value ew "@work.test"`, "ada"},
	{`emails[not (type eq "work")]`, "ada bob"}, {`emails[type eq "home" or primary eq true]`, "ada bob"}, {`emails[(type eq "work") and value pr]`, "ada cyd"}, {`EMAILS[TYPE EQ "home"]`, "ada bob"},
	{`emails[type eq "work"] and not (title pr)`, "cyd"}, {`emails[primary eq false]`, "ada bob cyd"}, {`not (emails[type eq "home"])`, "cyd"},
	// Precedence of and, or, not.
	{`userName sw "bob" or userName sw "ada" and active eq false`, "bob"}, {`(userName sw "bob" or userName sw "ada") and active eq true`, "ada"}, {`active eq false and userName sw "bob" or userName sw "ada"`, "ada bob"},
	{`not (userName sw "ada") and userName sw "bob"`, "bob"}, {`not (userName sw "ada" and userName sw "bob")`, "ada bob cyd"}, {`not (userName sw "ada" or userName sw "bob")`, "cyd"}, {`((userName sw "ada"))`, "ada"},
	{`not (not (userName sw "ada"))`, "ada"}, {`NOT (USERNAME SW "ada") AND Active Eq True`, "cyd"},
	// No value: ne matches, the other operators do not; null and empty are equivalent.
	{`title ne "Countess"`, "bob cyd"}, {`title co ""`, "ada"}, {`nickName pr`, ""}, {`title eq null`, "bob cyd"}, {`title ne null`, "ada"}, {`nickName eq null and displayName pr`, "cyd"},
	// URNs are case-insensitive.
	{scimtest.UserURN + `:userName eq "ada@filter.test"`, "ada"}, {scimtest.EnterpriseURN + `:department eq "engines"`, "ada"}, {strings.ToUpper(scimtest.EnterpriseURN) + `:DEPARTMENT pr`, "ada bob"}, {scimtest.UserURN + `:name.familyName eq "moss"`, "bob"},
	{scimtest.EnterpriseURN + `:manager.value eq "{ada}"`, "bob"}, {scimtest.EnterpriseURN + `:manager eq "{ada}"`, "bob"}, {`schemas eq "` + scimtest.EnterpriseURN + `"`, "ada bob"}, {scimtest.UserURN + `:emails[type eq "home"]`, "ada bob"},
	// Strings with escapes and non-ASCII letters.
	{`displayName eq "cy \"d\" \\ \u00d6"`, "cyd"}, {`displayName co "ö"`, "cyd"}, {`displayName co "\""`, "cyd"}, {`displayName ew "\\ Ö"`, "cyd"},
	// Client forms in addition to the grammar.
	{`emails[type eq "work"].value eq "ada@work.test"`, "ada"}, {`emails[type eq "home"].value sw "b"`, "bob"}, {`not title pr`, "bob cyd"}, {`emails[primary eq "True"].value pr`, "ada"},
	{`  userName   eq   "ada@filter.test"  `, "ada"}, {`id eq "{bob}" and manager eq "{ada}" or userName sw "zzz"`, "bob"},
}

func TestRFC7644Section3_4_2_2_Filtering(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	ids := populate(t, admin)
	for _, tc := range filters {
		t.Run(tc.filter, func(t *testing.T) {
			filter := strings.NewReplacer("{ada}", ids["ada"], "{bob}", ids["bob"]).Replace(tc.filter)
			got := admin.Find(t, "/Users", filter, "count", "1000")
			if names := found(got); names != tc.want {
				t.Errorf("found %q, want %q", names, tc.want)
			}
			if total, _ := got.Value("totalResults").(float64); int(total) != len(got.List("Resources")) {
				t.Errorf("totalResults is %v, got %d resources", total, len(got.List("Resources")))
			}
			searched := admin.Search(t, "/Users", `"filter":`+scimtest.Quote(filter)+`,"count":1000`)
			if names := found(searched); names != tc.want {
				t.Errorf(".search found %q, want %q", names, tc.want)
			}
		})
	}
	t.Run("meta.lastModified changes with the resource", func(t *testing.T) {
		now := admin.Call(t, "GET", "/Users/"+ids["cyd"], nil).Text("meta.lastModified")
		scimtest.NextSecond()
		admin.Call(t, "PATCH", "/Users/"+ids["cyd"], scimtest.PatchBody(`{"op":"add","path":"locale","value":"de"}`)).WantStatus(200)
		if names := found(admin.Find(t, "/Users", `meta.lastModified gt "`+now+`"`)); names != "cyd" {
			t.Errorf("%q", names)
		}
	})
	t.Run("groups of users and members of groups", func(t *testing.T) {
		g := admin.CreateGroup(t, scimtest.UniqueName("G"), ids["ada"], ids["bob"])
		if names := found(admin.Find(t, "/Users", `groups.value eq "`+g+`"`)); names != "ada bob" {
			t.Errorf("%q", names)
		}
		if names := found(admin.Find(t, "/Users", `groups pr`)); names != "ada bob" {
			t.Errorf("%q", names)
		}
		for filter, want := range map[string]int{`members eq "%s"`: 1, `members.value eq "%s"`: 1, `members[value eq "%s"]`: 1, `id eq "` + g + `" and members eq "%s"`: 1, `members.value eq "%sx"`: 0, `displayName pr and not (members eq "%s")`: 0} {
			admin.Find(t, "/Groups", `id eq "`+g+`" and (`+fmt.Sprintf(filter, ids["ada"])+`)`).WantStatus(200).Want("totalResults", want)
		}
		admin.Find(t, "/Groups", `displayName sw "g-" and members.value eq "`+ids["cyd"]+`"`).WantStatus(200).Want("totalResults", 0)
	})
}

// Invalid filters.
var malformed = []string{
	``, ` `, `userName`, `userName eq`, `userName eq `, `eq "x"`, `"x" eq userName`, `userName eq "x`, `userName eq 'x'`, `userName xx "x"`, `userName = "x"`, `userName == "x"`, `userName eq "x" "y"`,
	`(userName pr`, `userName pr)`, `()`, `(`, `)`, `userName pr and`, `userName pr or`, `and userName pr`, `userName pr userName pr`, `userName pr && active pr`, `userName pr and or active pr`, `not`, `not ()`, `not and`,
	`emails[type eq "work"`, `emails[]`, `emails[type eq "work"]]`, `emails type eq "work"]`, `emails[type eq "work"].`, `emails[type eq "work"].value`, `emails[type eq "work"].nothing pr`, `emails[emails[type pr] pr]`,
	`nothing eq "x"`, `name.nothing eq "x"`, `emails[nothing eq "x"]`, `urn:nobody:1.0:X:a eq "x"`, scimtest.UserURN + ` pr`, `urn: pr`, `members.value eq "x"`, `userName.value eq "x"`, `userName[value eq "x"]`, `user-name! pr`, `.userName pr`, `userName. pr`, `name..givenName pr`,
	`active eq 1`, `active eq "yes"`, `active gt true`, `active ge false`, `active co true`, `active sw "t"`, `x509Certificates.value gt "AA"`, `x509Certificates.value lt "AA"`, scimtest.AttributesURN + `:level eq "3"`, scimtest.AttributesURN + `:level co 3`, scimtest.AttributesURN + `:level eq 1e999`,
	scimtest.AttributesURN + `:since gt "yesterday"`, scimtest.AttributesURN + `:since eq 2020`, scimtest.AttributesURN + `:remote gt true`, `userName eq 5`, `userName eq true`, `userName gt null`, `userName co null`, `name eq "x"`, `name co "x"`, `addresses eq "x"`, `meta gt "x"`,
	`userName eq "\x"`, "userName eq \"a\nb\"", "userName eq \x00", "userName\x00 eq \"x\"", `userName eq "x"; drop`, `*`, `%`, `userName eq "x" #`, `userName eq {"a":1}`, `userName eq ["x"]`,
}

func TestRFC7644Section3_4_2_2_InvalidFiltersAreRejected(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	admin.CreateUser(t, scimtest.UniqueName("u"))
	for _, filter := range malformed {
		t.Run(filter, func(t *testing.T) {
			admin.Find(t, "/Users", filter).WantError(400, "invalidFilter", "at position ")
			admin.Search(t, "/Users", `"filter":`+scimtest.Quote(filter)).WantError(400, "invalidFilter", "at position ")
			admin.Find(t, "/Users", filter, "count", "0").WantError(400, "invalidFilter", "at position ")
		})
	}
	for at, filter := range map[string]string{"11": `userName  eeq "x"`, "13": `userName eq `, "19": `(userName pr) and `, "8": `emails[x eq "a"]`, "22": `active pr and active gt true`, "1": ``} {
		t.Run("the position is 1-based in bytes: "+filter, func(t *testing.T) {
			admin.Find(t, "/Users", filter).WantError(400, "invalidFilter", "at position "+at+":")
		})
	}
	t.Run("over all types", func(t *testing.T) {
		for _, filter := range []string{``, `userName eq`, `nothing eq "x"`, `(`} {
			admin.Find(t, "", filter).WantError(400, "invalidFilter", "position")
			admin.Search(t, "", `"filter":`+scimtest.Quote(filter)).WantError(400, "invalidFilter", "position")
		}
	})
	t.Run("a filter that is not a string", func(t *testing.T) {
		admin.Search(t, "/Users", `"filter":5`).WantError(400, "invalidValue", "filter")
		admin.Call(t, "GET", "/Users?filter=%zz", nil).WantError(400, "invalidSyntax")
	})
}

func TestRFC7644Section3_4_2_2_Limits(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	nested := func(n int) string { return strings.Repeat("(", n) + "userName pr" + strings.Repeat(")", n) }
	many := func(n int) string { return strings.TrimSuffix(strings.Repeat(`id eq "x" or `, n), " or ") }
	long := func(n int) string { return `userName eq "` + strings.Repeat("x", n-len(`userName eq ""`)) + `"` }
	for name, tc := range map[string]struct {
		filter string
		status int
	}{
		"8 KiB are read": {long(8192), 200}, "a byte more is not": {long(8193), 400},
		"32 levels are read": {nested(32), 200}, "33 are not": {nested(33), 400},
		"200 nodes are read": {many(100), 200}, "more are not": {many(101), 400},
		"not within not": {strings.Repeat("not (", 33) + "userName pr" + strings.Repeat(")", 33), 400},
	} {
		t.Run(name, func(t *testing.T) {
			get := admin.Find(t, "/Users", tc.filter, "count", "0")
			post := admin.Search(t, "/Users", `"count":0,"filter":`+scimtest.Quote(tc.filter))
			for _, got := range []*scimtest.Response{get, post} {
				if got.WantStatus(tc.status); tc.status == 400 {
					got.WantError(400, "invalidFilter")
				}
			}
		})
	}
	t.Run("1 MiB of ( is rejected early", func(t *testing.T) {
		begun := time.Now()
		open := strings.Repeat("(", 1<<20-300)
		admin.Search(t, "/Users", `"filter":`+scimtest.Quote(open)).WantError(400, "invalidFilter")
		admin.Search(t, "", `"filter":`+scimtest.Quote(open)).WantError(400, "invalidFilter")
		admin.Call(t, "PATCH", admin.CreateUserPath(t), scimtest.PatchBody(`{"op":"add","path":`+scimtest.Quote("emails["+open)+`,"value":"x"}`)).WantError(400, "invalidPath")
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
	})
	t.Run("no expansion into a disjunctive normal form", func(t *testing.T) {
		begun := time.Now()
		filter := strings.TrimSuffix(strings.Repeat(`(title eq "a" or title eq "b") and `, 50), " and ")
		admin.Find(t, "/Users", filter).WantStatus(200).Want("totalResults", 0)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestRFC7644Section7_5_SensitiveAttributesCannotBeFiltered(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	for _, filter := range []string{`password eq "x"`, `password pr`, `not (PASSWORD sw "a")`, scimtest.UserURN + `:password ge "a"`, `userName pr or password eq "x"`, `password eq null`} {
		admin.Find(t, "/Users", filter).WantError(403, "sensitive", "password")
		admin.Search(t, "/Users", `"filter":`+scimtest.Quote(filter)).WantError(403, "sensitive", "password")
		admin.Find(t, "", filter).WantError(403, "sensitive", "password")
	}
	admin.Call(t, "GET", "/Users?sortBy=password", nil).WantError(403, "sensitive", "password")
	admin.Call(t, "GET", "/Users?"+url.Values{"sortBy": {scimtest.UserURN + ":password"}}.Encode(), nil).WantError(403, "sensitive", "password")
}

func TestRFC7643Section3_3_DeclaredExtensions(t *testing.T) {
	t.Run("not in another account", func(t *testing.T) {
		other := globex.WithToken(globex.RFC)
		other.Post(t, "/Users", `{"userName":`+scimtest.Quote(scimtest.UniqueName("u"))+`,"`+scimtest.AttributesURN+`":{"team":"x"}}`).WantError(400, "invalidSyntax", scimtest.AttributesURN)
		other.Post(t, "/Users", `{"schemas":["`+scimtest.UserURN+`","`+scimtest.AttributesURN+`"],"userName":`+scimtest.Quote(scimtest.UniqueName("u"))+`}`).WantError(400, "invalidSyntax", "schemas[1]")
		other.Find(t, "/Users", scimtest.AttributesURN+`:team pr`).WantError(400, "invalidFilter", "position 1")
		other.Call(t, "GET", "/Users"+scimtest.Query("sortBy", scimtest.AttributesURN+":team"), nil).WantError(400, "invalidValue", "sortBy")
		other.Call(t, "PATCH", other.CreateUserPath(t), scimtest.PatchBody(`{"op":"add","path":"`+scimtest.AttributesURN+`:team","value":"x"}`)).WantError(400, "invalidPath")
		other.Call(t, "GET", "/Schemas/"+scimtest.AttributesURN, nil).WantError(404, "")
	})
	t.Run("not for groups", func(t *testing.T) {
		acme.WithToken(acme.RFC).Find(t, "/Groups", scimtest.AttributesURN+`:team pr`).WantError(400, "invalidFilter")
	})
}
