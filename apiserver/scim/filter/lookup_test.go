package filter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// alternatives returns a filter with n eq terms joined by or.
func alternatives(n int) string {
	terms := make([]string, n)
	for i := range terms {
		terms[i] = fmt.Sprintf(`userName eq "u%d"`, i)
	}
	return strings.Join(terms, " or ")
}

// lookupTests are filters with their lookups.
var lookupTests = map[string]string{
	`userName eq "BJensen"`:                        `userName=bjensen`,
	`externalId eq "BJensen"`:                      `externalId=BJensen`,
	`displayName eq "x"`:                           `none`,
	`userName sw "b"`:                              `none`,
	`userName ne "b"`:                              `none`,
	`userName pr`:                                  `none`,
	`not (userName eq "b")`:                        `none`,
	`active eq true`:                               `none`,
	`userName eq null`:                             `none`,
	`id eq "a" and title pr`:                       `id=a`,
	`title pr and id eq "a"`:                       `id=a`,
	`title pr and active eq true`:                  `none`,
	`id eq "a" or userName eq "B"`:                 `id=a userName=b`,
	`id eq "a" or title pr`:                        `none`,
	`title pr or id eq "a"`:                        `none`,
	`id eq "a" or id eq "a" or userName eq "a"`:    `id=a userName=a`,
	`(id eq "a" or id eq "b") and userName eq "c"`: `userName=c`,
	`(id eq "a" or id eq "b") and (title pr or userName eq "c")`: `id=a id=b`,
	`emails eq "X"`:                            `emails.value=x`,
	`emails.value eq "X"`:                      `emails.value=x`,
	`emails[value eq "X"]`:                     `emails.value=x`,
	`emails[type eq "work" and value eq "X"]`:  `emails.value=x`,
	`emails[value eq "X" or value eq "Y"]`:     `emails.value=x emails.value=y`,
	`emails[type eq "work" or value eq "Y"]`:   `none`,
	`emails[type eq "work"].value eq "X"`:      `emails.value=x`,
	`emails[value eq "X"].type eq "work"`:      `emails.value=x`,
	`emails[value eq "X"].type pr`:             `emails.value=x`,
	`emails[value eq "X"].type ne "work"`:      `none`,
	`emails[value eq "X"].type eq null`:        `none`,
	`emails[value eq "X"] eq null`:             `none`,
	`emails[not (value eq "X")]`:               `none`,
	schema.EnterpriseURN + `:manager eq "M"`:   schema.EnterpriseURN + `:manager.value=M`,
	alternatives(64) + ` and title pr`:         strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(alternatives(64), " eq ", "="), `"`, ""), " or ", " "),
	alternatives(65):                           `none`,
	`id eq "a" and (` + alternatives(65) + `)`: `id=a`,
}

func TestLookups(t *testing.T) {
	indexes := map[string]bool{"id": true, "userName": true, "externalId": true, "emails.value": true, schema.EnterpriseURN + ":manager.value": true}
	indexed := func(ref schema.Ref) bool { return indexes[ref.String()] }
	for s, want := range lookupTests {

		lookups, ok := compile(t, s, schema.User).Lookups(indexed)
		var found []string
		for _, l := range lookups {
			found = append(found, l.Ref.String()+"="+l.Value)
		}
		got := strings.Join(found, " ")
		if !ok {
			got += "none"
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", s, got, want)
		}
	}
}
