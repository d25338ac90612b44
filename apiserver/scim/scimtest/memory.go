// Package scimtest provides an in-memory Store for tests of the SCIM protocol.
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

// Memory is an in-memory scim.Store. The zero value is an empty store.
type Memory struct {
	// Now is the clock; nil for time.Now.
	Now func() time.Time

	// LastID is the number in the id that was assigned last. Tests with several stores set it to
	// different values so that ids are distinct.
	LastID int

	mu        sync.Mutex
	resources []*schema.Resource
}

func (m *Memory) now() time.Time {
	if m.Now == nil {
		return time.Now()
	}
	return m.Now()
}

// uniqueness returns the unique attribute of a type and its case-folded value.
func uniqueness(t *schema.ResourceType, d schema.Document) (name, value string) {
	for _, a := range t.Core.Attributes {
		if a.Uniqueness == "server" {
			value, _ := d[a.Name].(string)
			return a.Name, fold.Case(value)
		}
	}
	return "", ""
}

func (m *Memory) checkUnique(t *schema.ResourceType, id string, d schema.Document) error {
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

// copyOf returns a copy of a resource that the caller may modify, with the groups of a user.
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

// stored returns a document in its stored form: members as a Set, without derived attributes.
func stored(t *schema.ResourceType, d schema.Document) schema.Document {
	d = d.Clone()
	delete(d, "groups")
	if t.Name == schema.Group.Name {
		set, ok := d["members"].(*members)
		if !ok {
			set = &members{elements: map[string]map[string]any{}}
			schema.Fill(set, d["members"], func() bool { return true })
		}
		d["members"] = set
	}
	return d
}

// CreateResource implements scim.Store.
func (m *Memory) CreateResource(_ context.Context, t *schema.ResourceType, d schema.Document) (*schema.Resource, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.checkUnique(t, "", d); err != nil {
		return nil, err
	}
	m.LastID++
	now := m.now()
	r := &schema.Resource{Type: t, ID: fmt.Sprintf("%s-%06d", strings.ToLower(t.Name), m.LastID), Document: stored(t, d), Created: now, LastModified: now, Version: "1"}
	m.resources = append(m.resources, r)
	return m.copyOf(r), nil
}

// GetResource implements scim.Store.
func (m *Memory) GetResource(_ context.Context, t *schema.ResourceType, id string, _ *schema.Projection) (*schema.Resource, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.find(t, id)
	if err != nil {
		return nil, err
	}
	return m.copyOf(r), nil
}

// ReplaceResource implements scim.Store.
func (m *Memory) ReplaceResource(_ context.Context, t *schema.ResourceType, id string, change func(*schema.Resource) (schema.Document, error)) (*schema.Resource, error) {
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
	d = stored(t, d)
	if err := m.checkUnique(t, id, d); err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(r.Document, d) {
		version := 0
		_, _ = fmt.Sscan(r.Version, &version)
		r.Document, r.Version, r.LastModified = d, fmt.Sprint(version+1), m.now()
	}
	return m.copyOf(r), nil
}

// DeleteResource implements scim.Store.
func (m *Memory) DeleteResource(_ context.Context, t *schema.ResourceType, id string, check func(*schema.Resource) error) error {
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

// ListResources implements scim.Store.
func (m *Memory) ListResources(ctx context.Context, t *schema.ResourceType, q *scim.Query) (*scim.Page, error) {
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

// members is an in-memory schema.Set.
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
	s.elements[value] = maps.Clone(element) // the map of Elements is reused
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
