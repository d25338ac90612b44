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

// Quirks as the profiles of clients have them.
var (
	strict = Quirks{}
	okta   = Quirks{}
	entra  = Quirks{
		Leniency:   schema.Leniency{StringBooleans: true, BareValues: true, EmptyUnassigns: true, ForeignSchemas: true},
		CapitalOps: true, RemoveListed: true, CreateUnmatched: true, QualifiedKeys: true,
	}
)

// members is a Set that counts what is asked of it.
type members struct {
	elements       map[string]map[string]any
	order          []string // of all that were ever there, each once
	known          map[string]bool
	writes, visits int
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

// ids of the members, in their order.
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

// document is a body of a POST as a document.
func document(t testing.TB, kind *schema.ResourceType, text string) schema.Document {
	t.Helper()
	d, err := kind.Normalize(decode(t, text).(map[string]any), schema.Leniency{})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return d
}

// request is a body with these operations.
func request(t testing.TB, operations string) any {
	return decode(t, `{"schemas":["`+URN+`"],"Operations":[`+operations+`]}`)
}

// run parses and applies operations, and tells whether the document then differs from what it was.
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

// watch remembers a document, and tells later whether it has changed since.
func watch(d schema.Document) (changed func() bool) {
	content := func() (map[string]any, map[string]map[string]any) {
		rest := map[string]any(d.Clone())
		m, ok := rest["members"].(*members)
		if !ok {
			return rest, nil
		}
		delete(rest, "members")
		return rest, maps.Clone(m.elements) // an element that is put is another one
	}
	rest, elements := content()
	return func() bool {
		restNow, elementsNow := content()
		return !cmp.Equal(rest, restNow) || !cmp.Equal(elements, elementsNow)
	}
}

// typeOf is the scimType of an error, or its status when it has none.
func typeOf(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var refused *scimerror.Error
	if !errors.As(err, &refused) {
		t.Fatalf("not a *scimerror.Error: %v", err)
	}
	if refused.Type == "" {
		return refused.Error()[:3]
	}
	return string(refused.Type)
}

// example is a user with a bit of everything.
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

// club is a Group in which clients name the members as they like: so there is something in an
// element besides what it is told by.
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
