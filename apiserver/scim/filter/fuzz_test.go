package filter

import (
	"testing"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// seeds are filters from RFC 7644 and from clients, and inputs that break parsers.
var seeds = []string{
	`userName eq "bjensen"`, `name.familyName co "O'Malley"`, `urn:ietf:params:scim:schemas:core:2.0:User:userName sw "J"`, `title pr`,
	`meta.lastModified gt "2011-05-13T04:42:34Z"`, `title pr and userType eq "Employee"`, `title pr or userType eq "Intern"`,
	`schemas eq "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"`,
	`userType ne "Employee" and not (emails co "example.com" or emails.value co "example.org")`,
	`emails[type eq "work" and value co "@example.com"] or ims[type eq "xmpp" and value co "@foo.com"]`,
	`emails[type eq "work"].value eq "user@contoso.com"`, `externalId eq jyoung`, `roles[primary eq "True"].value`, `roles[primary eq "True"]`,
	`id eq "X" and manager eq "Y"`, `members[value eq "2819c223"]`, `members eq "u2"`, `not x eq 1`, `((a eq 1))`, `active eq FALSE`, `title eq null`,
	schema.EnterpriseURN + `:manager.displayName ne "x"`, schema.EnterpriseURN + ` pr`, `emails[primary eq false]`, `a eq "\u00e9\n\"\\"`, `a eq -1.5e+3`, `a eq 007`,
	`(a pr or b pr) and (a pr or b pr) and (a pr or b pr)`, `((((((((((((((((((((((((((((((((((a pr`, `not not not a pr`, `a[a[a[a pr]]]`, `a eq "`, `password pr`,
}

func FuzzParse(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Parse(s)
		if err != nil {
			if len(err.Error()) > 500 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if nodes, depth := measure(e); nodes > MaxNodes || depth > MaxDepth+MaxNodes || len(s) > MaxLength {
			t.Errorf("%d nodes, %d deep, of %d bytes", nodes, depth, len(s))
		}
		roundTrip(t, e)
	})
}

// measure returns the number of nodes of an expression and its depth.
func measure(e Expression) (nodes, depth int) {
	var parts []Expression
	switch e := e.(type) {
	case *And:
		parts = []Expression{e.Left, e.Right}
	case *Or:
		parts = []Expression{e.Left, e.Right}
	case *Not:
		parts = []Expression{e.Operand}
	case *Comparison:
		parts = []Expression{e.Path.Filter}
	case *Present:
		parts = []Expression{e.Path.Filter}
	case *ValuePath:
		parts = []Expression{e.Path.Filter}
	}
	nodes, depth = 1, 1
	for _, part := range parts {
		if part != nil {
			n, d := measure(part)
			nodes, depth = nodes+n, max(depth, d+1)
		}
	}
	return nodes, depth
}

func FuzzParsePath(f *testing.F) {
	for _, s := range append(seeds, `members`, `name.familyName`, `addresses[type eq "work"].locality`, schema.EnterpriseURN, schema.UserURN+`:emails[type eq "work"].value`, `urn:a:1.2.3`, `$ref`) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := ParseAttribute(s); err == nil {
			if p.Filter != nil {
				t.Error("an attribute has no filter")
			}
			pathRoundTrip(t, p)
		}
		p, err := ParsePath(s)
		if err != nil {
			return
		}
		pathRoundTrip(t, p)
		if ref, ok := p.Resolve(schema.User); ok && Sortable(ref) == nil {
			KeyOf(bjensen(), ref)
		}
	})
}

func FuzzMatch(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	group := &schema.Resource{Type: schema.Group, Document: schema.Document{"displayName": "Tour Guides", "members": &memberSet{ids: []string{"u1", "u2"}}}}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Parse(s)
		if err != nil {
			return
		}
		for _, r := range []*schema.Resource{bjensen(), group} {
			p, err := Compile(e, r.Type)
			twice, errTwice := Compile(&Not{&Not{e}}, r.Type)
			if (err == nil) != (errTwice == nil) {
				t.Fatalf("%v, but %v", err, errTwice)
			}
			if err != nil {
				continue
			}
			if p.Match(r) != twice.Match(r) {
				t.Errorf("%s: a double negation has another result", e)
			}
			lookupsCover(t, p, r)
		}
	})
}

// lookupsCover checks that the lookups of a filter find a matching resource.
func lookupsCover(t *testing.T, p *Predicate, r schema.Source) {
	t.Helper()
	lookups, ok := p.Lookups(func(schema.Ref) bool { return true })
	if !ok || !p.Match(r) {
		return
	}
	for _, l := range lookups {
		one := leaf{ref: l.Ref, condition: condition{kind: text, operator: Equal, exact: l.Ref.Leaf().CaseExact, text: l.Value}}
		if one.match(view{source: r}) {
			return
		}
	}
	t.Errorf("%s: matches, but is not found by %v", p, lookups)
}
