package patch

import (
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/strictjson"
)

// Quirks of the client profiles.
var (
	strict = Quirks{}
	okta   = Quirks{}
	entra  = Quirks{
		Leniency:   schema.Leniency{StringBooleans: true, BareValues: true, EmptyUnassigns: true, ForeignSchemas: true},
		CapitalOps: true, RemoveListed: true, CreateUnmatched: true, QualifiedKeys: true,
	}
)

// members is a schema.Set that counts calls.
type members struct {
	elements       map[string]map[string]any
	order          []string // of all that were ever there, each once
	known          map[string]bool
	writes, visits int
	discarded      bool // what cannot be read
}

func newMembers(ids ...string) *members {
	m := &members{elements: map[string]map[string]any{}, known: map[string]bool{}}
	for _, id := range ids {
		m.Put(map[string]any{"value": id, "type": "User"})
	}
	m.writes = 0
	return m
}

func (m *members) Len() int { return len(m.elements) }

func (m *members) Get(value string) (map[string]any, bool) {
	element, ok := m.elements[value]
	return element, ok
}

func (m *members) All() iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		for _, value := range m.order {
			element, ok := m.elements[value]
			if !ok {
				continue
			}
			m.visits++
			if !yield(maps.Clone(element)) {
				return
			}
		}
	}
}

func (m *members) Put(element map[string]any) bool {
	value := element["value"].(string)
	if old, ok := m.elements[value]; ok && equal(old, element) {
		return false
	}
	m.writes++
	if !m.known[value] {
		m.known[value] = true
		m.order = append(m.order, value)
	}
	m.elements[value] = maps.Clone(element)
	return true
}

func (m *members) Delete(value string) bool {
	if _, ok := m.elements[value]; !ok {
		return false
	}
	m.writes++
	delete(m.elements, value)
	return true
}

func (m *members) Clear() { m.writes++; clear(m.elements) }

func (m *members) DiscardUnreadable() { m.discarded = true }

// ids returns the ids of the members in order.
func (m *members) ids() string {
	var ids []string
	for element := range m.All() {
		ids = append(ids, element["value"].(string))
	}
	return strings.Join(ids, " ")
}

func decode(t testing.TB, text string) any {
	t.Helper()
	value, err := strictjson.Decode([]byte(text), strictjson.Options{FoldNames: true})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

// document normalizes the body of a POST.
func document(t testing.TB, kind *schema.ResourceType, text string) schema.Document {
	t.Helper()
	d, err := kind.Normalize(decode(t, text).(map[string]any), schema.Leniency{})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return d
}

// request returns the body of a PATCH with operations.
func request(t testing.TB, operations string) any {
	return decode(t, `{"schemas":["`+URN+`"],"Operations":[`+operations+`]}`)
}

// run parses and applies operations and reports whether the document has changed.
func run(t testing.TB, kind *schema.ResourceType, d schema.Document, operations string, q Quirks) (bool, error) {
	t.Helper()
	ops, err := ParseRequest(request(t, operations), q)
	if err != nil {
		return false, err
	}
	changed := watch(d)
	if err := Apply(kind, d, ops, q); err != nil {
		return false, err
	}
	return changed(), nil
}

// watch returns a function that reports whether a document has changed since the call of watch.
func watch(d schema.Document) (changed func() bool) {
	content := func() (map[string]any, map[string]map[string]any) {
		rest := map[string]any(d.Clone())
		m, ok := rest["members"].(*members)
		if !ok {
			return rest, nil
		}
		delete(rest, "members")
		return rest, maps.Clone(m.elements) // Put replaces elements
	}
	rest, elements := content()
	return func() bool {
		restNow, elementsNow := content()
		return !cmp.Equal(rest, restNow) || !cmp.Equal(elements, elementsNow)
	}
}

// typeOf returns the scimType of an error, or its status if it has none.
func typeOf(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *scimerror.Error
	if !errors.As(err, &e) {
		t.Fatalf("not a *scimerror.Error: %v", err)
	}
	if e.Type == "" {
		return e.Error()[:3]
	}
	return string(e.Type)
}

// example is a user with attributes of all kinds.
const example = `{
	"userName": "bjensen", "externalId": "e1", "displayName": "Babs", "active": true,
	"name": {"givenName": "Barbara", "familyName": "Jensen"},
	"emails": [
		{"value": "bjensen@example.com", "type": "work", "primary": true},
		{"value": "babs@jensen.org", "type": "home"}
	],
	"addresses": [{"type": "work", "streetAddress": "100 Universal City Plaza", "locality": "Hollywood"}],
	"roles": [{"value": "admin", "primary": true}],
	"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": {"employeeNumber": "701984", "manager": {"value": "26118915"}}
}`

// group has two members.
const group = `{"displayName": "Tour Guides", "members": [{"value": "a", "display": "Babs"}, {"value": "b"}]}`

// club is a Group type in which clients may set the display name of members, so that elements have an
// attribute in addition to their value.
var club = func() *schema.ResourceType {
	display := *schema.Group.Core.Attribute("members").Sub("display")
	display.Mutability = schema.Immutable
	members := *schema.Group.Core.Attribute("members")
	members.SubAttributes = append(slices.Clone(members.SubAttributes[:len(members.SubAttributes)-1]), &display)
	core := *schema.Group.Core
	core.Attributes = []*schema.Attribute{core.Attribute("displayName"), &members}
	t := *schema.Group
	t.Core = &core
	return &t
}()
