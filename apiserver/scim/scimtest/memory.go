// Package scimtest has a Store in memory, for tests of the protocol alone.
package scimtest

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quoin-dev/quoin/apiserver/scim"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/fold"
)

// Memory is a Store. The zero value is empty and ready.
type Memory struct {
	// Now is the clock; time.Now when nil.
	Now func() time.Time

	// Made is how many resources it counts as made before: the ids of stores that are to be told
	// apart begin at different numbers.
	Made int

	mu        sync.Mutex
	resources []*schema.Resource
}

func (m *Memory) now() time.Time {
	if m.Now == nil {
		return time.Now()
	}
	return m.Now()
}

// uniqueness is the value that a resource may share with none of its type.
func uniqueness(t *schema.ResourceType, d schema.Document) (name, value string) {
	for _, a := range t.Core.Attributes {
		if a.Uniqueness == "server" {
			value, _ := d[a.Name].(string)
			return a.Name, fold.Case(value)
		}
	}
	return "", ""
}

func (m *Memory) taken(t *schema.ResourceType, id string, d schema.Document) error {
	name, value := uniqueness(t, d)
	for _, r := range m.resources {
		if _, other := uniqueness(t, r.Document); r.Type.Name == t.Name && r.ID != id && name != "" && other == value {
			return scimerror.Conflict("%s: belongs to another %s", name, t.Name)
		}
	}
	return nil
}

func (m *Memory) find(t *schema.ResourceType, id string) (*schema.Resource, error) {
	for _, r := range m.resources {
		if r.Type.Name == t.Name && r.ID == id {
			return r, nil
		}
	}
	return nil, scimerror.NotFound(t.Name, id)
}

// copyOf is a resource that the caller may alter, with its groups where it has some.
func (m *Memory) copyOf(r *schema.Resource) *schema.Resource {
	c := *r
	c.Document = r.Document.Clone()
	if set, ok := c.Document["members"].(*members); ok {
		c.Document["members"] = &members{elements: maps.Clone(set.elements)}
	}
	var groups []any
	for _, g := range m.resources {
		if set, ok := g.Document["members"].(*members); ok && set.elements[r.ID] != nil {
			groups = append(groups, map[string]any{"value": g.ID, "display": g.Document["displayName"], "type": "direct"})
		}
	}
	if len(groups) > 0 && r.Type.Name == schema.User.Name {
		c.Document["groups"] = groups
	}
	return &c
}

// kept is a document as it is kept: members are a Set, what is derived is not there.
func kept(t *schema.ResourceType, d schema.Document) schema.Document {
	d = d.Clone()
	delete(d, "groups")
	if t.Name == schema.Group.Name {
		set, ok := d["members"].(*members)
		if !ok {
			set = &members{elements: map[string]map[string]any{}}
			elements, _ := d["members"].([]any)
			schema.Fill(set, elements)
		}
		d["members"] = set
	}
	return d
}

// Create implements scim.Store.
func (m *Memory) Create(_ context.Context, t *schema.ResourceType, d schema.Document) (*schema.Resource, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.taken(t, "", d); err != nil {
		return nil, err
	}
	m.Made++
	now := m.now()
	r := &schema.Resource{Type: t, ID: fmt.Sprintf("%s-%06d", strings.ToLower(t.Name), m.Made), Document: kept(t, d), Created: now, LastModified: now, Version: "1"}
	m.resources = append(m.resources, r)
	return m.copyOf(r), nil
}

// Get implements scim.Store.
func (m *Memory) Get(_ context.Context, t *schema.ResourceType, id string, _ *schema.Projection) (*schema.Resource, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.find(t, id)
	if err != nil {
		return nil, err
	}
	return m.copyOf(r), nil
}

// Update implements scim.Store.
func (m *Memory) Update(_ context.Context, t *schema.ResourceType, id string, change func(*schema.Resource) (schema.Document, error)) (*schema.Resource, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.find(t, id)
	if err != nil {
		return nil, err
	}
	d, err := change(m.copyOf(r))
	if err != nil {
		return nil, err
	}
	d = kept(t, d)
	if err := m.taken(t, id, d); err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(r.Document, d) {
		version := 0
		_, _ = fmt.Sscan(r.Version, &version)
		r.Document, r.Version, r.LastModified = d, fmt.Sprint(version+1), m.now()
	}
	return m.copyOf(r), nil
}

// Delete implements scim.Store.
func (m *Memory) Delete(_ context.Context, t *schema.ResourceType, id string, check func(*schema.Resource) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.find(t, id)
	if err != nil {
		return err
	}
	if err := check(m.copyOf(r)); err != nil {
		return err
	}
	m.resources = slices.DeleteFunc(m.resources, func(other *schema.Resource) bool { return other == r })
	for _, g := range m.resources {
		if set, ok := g.Document["members"].(*members); ok {
			set.Delete(id)
		}
	}
	return nil
}

// Query implements scim.Store.
func (m *Memory) Query(ctx context.Context, t *schema.ResourceType, q *scim.Query) (*scim.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return q.Select(ctx, func(yield func(scim.Item) bool) {
		for _, r := range m.resources {
			if r.Type.Name == t.Name && !yield(item{m.copyOf(r)}) {
				return
			}
		}
	})
}

type item struct{ of *schema.Resource }

// Get implements schema.Source.
func (i item) Get(ref schema.Ref) any { return i.of.Get(ref) }

// Position implements scim.Item.
func (i item) Position() scim.Position { return scim.PositionOf(i.of.Created, i.of.ID) }

// Resource implements scim.Item.
func (i item) Resource() *schema.Resource { return i.of }

// members is a Set in memory.
type members struct{ elements map[string]map[string]any }

// Len implements schema.Set.
func (s *members) Len() int { return len(s.elements) }

// Get implements schema.Set.
func (s *members) Get(value string) (map[string]any, bool) {
	element, ok := s.elements[value]
	return element, ok
}

// All implements schema.Set.
func (s *members) All() iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		for _, value := range slices.Sorted(maps.Keys(s.elements)) {
			if !yield(s.elements[value]) {
				return
			}
		}
	}
}

// Put implements schema.Set.
func (s *members) Put(element map[string]any) bool {
	value, _ := element["value"].(string)
	if reflect.DeepEqual(s.elements[value], element) {
		return false
	}
	s.elements[value] = element
	return true
}

// Delete implements schema.Set.
func (s *members) Delete(value string) bool {
	_, ok := s.elements[value]
	delete(s.elements, value)
	return ok
}

// Clear implements schema.Set.
func (s *members) Clear() { clear(s.elements) }
