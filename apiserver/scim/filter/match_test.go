package filter

import (
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// memberSet is a schema.Set that counts calls.
type memberSet struct {
	ids        []string
	gets, alls int
}

func (s *memberSet) Len() int { return len(s.ids) }

func (s *memberSet) Get(value string) (map[string]any, bool) {
	s.gets++
	if !slices.Contains(s.ids, value) {
		return nil, false
	}
	return map[string]any{"value": value, "type": "User"}, true
}

func (s *memberSet) All() iter.Seq[map[string]any] {
	s.alls++
	return func(yield func(map[string]any) bool) {
		for _, id := range s.ids {
			if !yield(map[string]any{"value": id, "type": "User"}) {
				return
			}
		}
	}
}

func (s *memberSet) Put(map[string]any) bool { return false }
func (s *memberSet) Delete(string) bool      { return false }
func (s *memberSet) Clear()                  {}

// bjensen returns a user based on RFC 7643 sections 8.2 and 8.3.
func bjensen() *schema.Resource {
	return &schema.Resource{
		Type: schema.User, ID: "2819c223-7f76-453a-919d-413861904646", Version: "3694e05e9dff591", Location: "https://example.com/v2/Users/2819c223",
		Created:      time.Date(2010, 1, 23, 4, 56, 22, 0, time.UTC),
		LastModified: time.Date(2011, 5, 13, 4, 42, 34, 0, time.UTC),
		Document: schema.Document{
			"userName": "bjensen@example.com", "externalId": "Ext-701984",
			"name":        map[string]any{"formatted": "Ms. Barbara J Jensen, III", "familyName": "Jensen", "givenName": "Barbara"},
			"displayName": "Bärbel Ångström", "nickName": "",
			"profileUrl": "https://login.example.com/bjensen",
			"title":      "Tour Guide", "userType": "Employee", "active": true,
			"emails": []any{
				map[string]any{"value": "bjensen@example.com", "type": "work", "primary": true},
				map[string]any{"value": "babs@jensen.org", "type": "home"},
				map[string]any{"value": "other@jensen.org"},
			},
			"groups": []any{map[string]any{"value": "e9e30dba", "$ref": "../Groups/e9e30dba", "display": "Tour Guides"}},
			schema.EnterpriseURN: map[string]any{
				"employeeNumber": "701984", "department": "Tour Operations",
				"manager": map[string]any{"value": "26118915", "displayName": "John Smith"},
			},
		},
	}
}

func check(t *testing.T, rt *schema.ResourceType, src schema.Source, s string, want bool) {
	t.Helper()
	e := mustParse(t, s)
	p, err := Compile(e, rt)
	if err != nil {
		t.Errorf("%s: %v", s, err)
		return
	}
	if got := p.Match(src); got != want {
		t.Errorf("%s: got %v, want %v", s, got, want)
	}
	lookupsCover(t, p, src)
	again := compile(t, e.String(), rt)
	if again.Match(src) != want || p.String() != again.String() {
		t.Errorf("%s: the printed filter %s differs", s, e)
	}
}

func checkUser(t *testing.T, tests map[string]bool) {
	t.Helper()
	for s, want := range tests {
		check(t, schema.User, bjensen(), s, want)
	}
}

// TestMatchRFC7644Figure2 checks the examples of RFC 7644 section 3.4.2.2, figure 2.
func TestMatchRFC7644Figure2(t *testing.T) {
	checkUser(t, map[string]bool{
		`userName eq "bjensen"`:         false,
		`name.familyName co "O'Malley"`: false,
		`userName sw "J"`:               false,
		`urn:ietf:params:scim:schemas:core:2.0:User:userName sw "B"`: true,
		`title pr`: true,
		`meta.lastModified gt "2011-05-13T04:42:34Z"`:                                                       false,
		`meta.lastModified ge "2011-05-13T04:42:34Z"`:                                                       true,
		`meta.lastModified lt "2011-05-13T04:42:34Z"`:                                                       false,
		`meta.lastModified le "2011-05-13T04:42:34Z"`:                                                       true,
		`title pr and userType eq "Employee"`:                                                               true,
		`title pr or userType eq "Intern"`:                                                                  true,
		`schemas eq "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"`:                           true,
		`userType eq "Employee" and (emails co "example.com" or emails.value co "example.org")`:             true,
		`userType ne "Employee" and not (emails co "example.com" or emails.value co "example.org")`:         false,
		`userType eq "Employee" and (emails.type eq "work")`:                                                true,
		`userType eq "Employee" and emails[type eq "work" and value co "@example.com"]`:                     true,
		`emails[type eq "work" and value co "@example.com"] or ims[type eq "xmpp" and value co "@foo.com"]`: true,
	})
}

// TestMatchCaseExact checks caseExact (RFC 7643 section 2.2) and case-insensitive names (section 2.1).
func TestMatchCaseExact(t *testing.T) {
	checkUser(t, map[string]bool{
		`USERNAME eq "BJENSEN@example.COM"`:                          true,
		`Emails.VALUE eq "BABS@jensen.org"`:                          true,
		`emails[VALUE eq "BABS@jensen.org"]`:                         true,
		`externalId eq "ext-701984"`:                                 false,
		`externalId eq "Ext-701984"`:                                 true,
		`externalId sw "ext"`:                                        false,
		`id eq "2819C223-7f76-453a-919d-413861904646"`:               false,
		`groups.value eq "E9E30DBA"`:                                 false,
		`displayName eq "BÄRBEL ångström"`:                           true,
		`displayName co "RBEL ÅNG"`:                                  true,
		`displayName ew "STRÖM"`:                                     true,
		`displayName sw "bä"`:                                        true,
		`schemas eq "URN:ietf:params:scim:schemas:core:2.0:user"`:    true,
		`URN:ietf:params:scim:schemas:core:2.0:user:TITLE sw "tour"`: true,
	})
}

// TestMatchOperators checks the operators (RFC 7644 table 3), also with several values and without a value.
func TestMatchOperators(t *testing.T) {
	checkUser(t, map[string]bool{
		// One of several values is sufficient, also for ne.
		`emails.type eq "home"`:             true,
		`emails.type eq "other"`:            false,
		`emails.type ne "work"`:             true,
		`emails.type ne "home"`:             true,
		`not (emails.type eq "work")`:       false,
		`userName ne "x"`:                   true,
		`userName ne "BJENSEN@example.com"`: false,
		`title gt "tour"`:                   true,
		`title gt "Tour Guide"`:             false,
		`title le "TOUR GUIDE"`:             true,
		`profileUrl ew "/bjensen"`:          true,
		// Unassigned.
		`locale pr`:              false,
		`locale eq null`:         true,
		`locale ne null`:         false,
		`locale ne "x"`:          true,
		`locale eq "x"`:          false,
		`locale co ""`:           false,
		`locale lt "x"`:          false,
		`not (locale eq "x")`:    true,
		`nickName pr`:            false,
		`nickName eq null`:       true,
		`title eq null`:          false,
		`title ne null`:          true,
		`emails pr`:              true,
		`emails eq null`:         false,
		`roles pr`:               false,
		`roles eq null`:          true,
		`roles.value ne "x"`:     true,
		`emails.display eq null`: true,
		`emails.display pr`:      false,
		`emails.type ne null`:    true,
		`name pr`:                true,
		`meta pr`:                true,
		// Booleans, also as strings.
		`active eq true`:    true,
		`active eq "True"`:  true,
		`active ne "false"`: true,
		`active eq false`:   false,
		// Times with time zones and fractions.
		`meta.created eq "2010-01-23T05:56:22.000+01:00"`: true,
		`meta.created lt "2010-01-23T04:56:22.001Z"`:      true,
		`meta.created gt "2010-01-23T04:56:23+01:00"`:     true,
		`meta.created ne "2010-01-23T04:56:22Z"`:          false,
		`meta.created sw "2010-01-23t04"`:                 true,
		`meta.resourceType eq "User"`:                     true,
		`meta.version eq "W/\"3694e05e9dff591\""`:         true,
	})
}

// TestMatchValuePath checks complex attributes and value paths (RFC 7644 section 3.4.2.2).
func TestMatchValuePath(t *testing.T) {
	const enterprise = schema.EnterpriseURN
	checkUser(t, map[string]bool{
		`emails eq "babs@jensen.org"`:                            true,
		`emails[type eq "work" and value ew "jensen.org"]`:       false,
		`emails[type eq "home" and value ew "jensen.org"]`:       true,
		`emails.type eq "work" and emails.value ew "jensen.org"`: true,
		`emails[type eq "work" or value ew "jensen.org"]`:        true,
		`emails[not (type pr)]`:                                  true,
		`emails[type ne "work"]`:                                 true,
		`emails[type eq null and value sw "other"]`:              true,
		`emails[primary eq true].value co "babs"`:                false,
		`emails[primary eq "True"].value co "bjensen"`:           true,
		`emails[type eq "work"].value eq "bjensen@example.com"`:  true,
		`emails[type eq "work"].value eq "babs@jensen.org"`:      false,
		`emails[type eq "work"] eq "bjensen@example.com"`:        true,
		`emails[type eq "work"].display pr`:                      false,
		`emails[type eq "work"] pr`:                              true,
		`emails[type eq "fax"] pr`:                               false,
		`emails[type eq "fax"] eq null`:                          true,
		`emails[type eq "fax"].value ne "x"`:                     true,
		`roles[primary eq "True"]`:                               false,
		// RFC 7643 section 2.4: primary is false by default.
		`emails[primary eq false and type eq "home"]`:                          true,
		`emails[primary ne true and type eq "home"]`:                           true,
		`emails[type eq "home"].primary eq false`:                              true,
		`emails[primary pr and type eq "home"]`:                                false,
		`name[givenName eq "barbara"]`:                                         true,
		enterprise + `:manager eq "26118915"`:                                  true,
		enterprise + `:manager.value eq "26118915"`:                            true,
		enterprise + `:manager[value eq "26118915" and displayName sw "john"]`: true,
		enterprise + `:manager ne "x"`:                                         true,
		enterprise + `:manager eq null`:                                        false,
		enterprise + `:costCenter eq null`:                                     true,
		enterprise + `:employeeNumber eq "701984"`:                             true,
		`employeeNumber eq "701984"`:                                           true,
		enterprise + ` pr`:                                                     true,
		enterprise + ` eq null`:                                                false,
	})
	plain := &schema.Resource{Type: schema.User, Document: schema.Document{"userName": "x"}}
	check(t, schema.User, plain, enterprise+` pr`, false)
	check(t, schema.User, plain, enterprise+`:manager eq "x"`, false)
	check(t, schema.User, plain, `not (`+enterprise+` pr)`, true)
}

// TestMatchTypes checks data types that the standard schemas do not use (RFC 7643 section 2.3).
func TestMatchTypes(t *testing.T) {
	d := schema.Document{
		"slots": int64(9007199254740993), "weight": 1.5, "bought": "2024-02-29T00:00:00", "tags": []any{"Red", "blue"}, "serial": "aB",
		"ports": []any{map[string]any{"number": int64(80), "uses": []any{"web", "Mail"}}, map[string]any{"number": int64(22)}},
	}
	for s, want := range map[string]bool{
		`slots eq 9007199254740993`:             true,
		`slots eq 9007199254740992`:             false,
		`slots gt 9007199254740992`:             true,
		`slots gt 0.5`:                          true,
		`slots ne 1e3`:                          true,
		`weight eq 1.50`:                        true,
		`weight lt 2`:                           true,
		`weight ge 15e-1`:                       true,
		`weight gt 10`:                          false,
		`bought eq "2024-02-29T01:00:00+01:00"`: true,
		`tags eq "RED"`:                         true,
		`tags eq "green"`:                       false,
		`tags ne "red"`:                         true,
		`tags sw "b"`:                           true,
		`tags pr`:                               true,
		`serial eq "ab"`:                        false,
		`serial gt "AB"`:                        true,
		`ports.number eq 22`:                    true,
		`ports[number lt 30]`:                   true,
		`ports[number lt 30 and uses pr]`:       false,
		`ports[uses eq "mail"].number eq 80`:    true,
		`ports.uses ew "B"`:                     true,
		`ports pr`:                              true,
		`key eq null`:                           true,
		`key.kind eq "x"`:                       false,
	} {
		check(t, device, d, s, want)
	}
	// A stored value of another type is not equal to any literal.
	broken := schema.Document{"slots": "x", "weight": "x", "bought": "x", "serial": 1.5, "tags": "red", "ports": "x"}
	for s, want := range map[string]bool{
		`slots eq 1`: false, `slots ne 1`: true, `weight lt 1`: false, `bought ge "2024-02-29T00:00:00Z"`: false,
		`serial eq "x"`: false, `tags eq "red"`: true, `ports.number eq 1`: false,
	} {
		check(t, device, broken, s, want)
	}
}

// TestMatchSetByGet checks that a filter for one member is a lookup, not a scan.
func TestMatchSetByGet(t *testing.T) {
	tests := map[string]struct {
		want       bool
		gets, alls int
	}{
		`members.value eq "u2"`:                      {true, 1, 0},
		`members eq "u2"`:                            {true, 1, 0},
		`members eq "u9"`:                            {false, 1, 0},
		`members[value eq "u2"]`:                     {true, 1, 0},
		`members[type eq "user" and value eq "u2"]`:  {true, 1, 0},
		`members[value eq "u2" and type eq "Group"]`: {false, 1, 0},
		`members[type eq "User"].value eq "u2"`:      {true, 1, 0},
		`members[value eq "u2"].type eq "User"`:      {true, 1, 0},
		`members[value eq "u9"].type pr`:             {false, 1, 0},
		`not (members eq "u2")`:                      {false, 1, 0},
		`members eq "u9" or members eq "u3"`:         {true, 2, 0},
		`members pr`:                                 {true, 0, 1},
		`members.value pr`:                           {true, 0, 1},
		`members eq null`:                            {false, 0, 1},
		`members ne null`:                            {true, 0, 1},
		`members.type eq "Group"`:                    {false, 0, 1},
		`members[value eq "u1" or value eq "u2"]`:    {true, 0, 1},
		`members[value eq "u2"].type ne "User"`:      {false, 0, 1},
		`members ne "u1"`:                            {true, 0, 1},
		`members.display pr`:                         {false, 0, 1},
	}
	for s, test := range tests {
		set := &memberSet{ids: []string{"u1", "u2", "u3"}}
		group := &schema.Resource{Type: schema.Group, Document: schema.Document{"members": set}}
		if got := compile(t, s, schema.Group).Match(group); got != test.want || set.gets != test.gets || set.alls != test.alls {
			t.Errorf("%s: got %v with %d Get and %d All, want %+v", s, got, set.gets, set.alls, test)
		}
	}
	empty := &schema.Resource{Type: schema.Group, Document: schema.Document{"members": &memberSet{}}}
	for s, want := range map[string]bool{`members pr`: false, `members eq null`: true, `members ne "x"`: true, `members eq "x"`: false} {
		check(t, schema.Group, empty, s, want)
	}
}

func TestElementPredicateSelect(t *testing.T) {
	members := schema.Group.Core.Attribute("members")
	for s, want := range map[string]string{
		`members[value eq "u2"]`:                  `[u2] 1 0`,
		`members[value eq "u2" and type eq "x"]`:  `[] 1 0`,
		`members[value eq "u9"]`:                  `[] 1 0`,
		`members[value eq "u2" or value eq "u3"]`: `[u2 u3] 0 1`,
		`members[type eq "User"]`:                 `[u1 u2 u3] 0 1`,
	} {
		path, err := ParsePath(s)
		if err != nil {
			t.Fatal(err)
		}
		p, err := CompileElement(path.Filter, members)
		if err != nil {
			t.Fatal(err)
		}
		set, ids := &memberSet{ids: []string{"u1", "u2", "u3"}}, []any{}
		for element := range p.Select(set) {
			ids = append(ids, element["value"])
		}
		if got := fmt.Sprint(ids, set.gets, set.alls); got != want {
			t.Errorf("%s: got %s, want %s", s, got, want)
		}
		for range p.Select(set) {
			break
		}
	}
}

func TestNilPredicateMatchesEverything(t *testing.T) {
	var p *Predicate
	if _, ok := p.Lookups(nil); !p.Match(bjensen()) || ok || p.String() != "" {
		t.Error("a nil Predicate does not match everything")
	}
}

// TestMatchIsNotExpanded matches a filter whose disjunctive normal form has 65,536 terms.
func TestMatchIsNotExpanded(t *testing.T) {
	s := `(title eq "x" or userType eq "y")`
	for range 15 {
		s += ` and (title eq "x" or userType eq "y")`
	}
	p := compile(t, s, schema.User)
	src := bjensen()
	if allocs := testing.AllocsPerRun(10, func() { p.Match(src) }); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
	if _, ok := p.Lookups(func(schema.Ref) bool { return true }); !ok {
		t.Error("no plan")
	}
}
