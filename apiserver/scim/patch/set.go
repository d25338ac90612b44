package patch

import (
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// set is a multi-valued attribute in a schema.Set.
type set struct {
	e    *editor
	ref  schema.Ref
	held schema.Set
}

// checkMutable returns an error if the attribute is immutable and has elements.
func (s *set) checkMutable() error {
	if s.ref.Attribute.Mutability == schema.Immutable && s.held.Len() > 0 {
		return immutableError(s.ref)
	}
	return nil
}

func (s *set) put(value string, element map[string]any) error {
	if old, ok := s.held.Get(value); !ok || !equal(old, element) {
		if err := s.checkMutable(); err != nil {
			return err
		}
	}
	s.held.Put(element)
	return nil
}

func (s *set) delete(value string) error {
	if _, ok := s.held.Get(value); !ok {
		return nil
	}
	if err := s.checkMutable(); err != nil {
		return err
	}
	s.held.Delete(value)
	return nil
}

// valueOf returns the value that identifies an element, and the element.
func (s *set) valueOf(item any) (string, map[string]any, error) {
	element, _ := item.(map[string]any)
	value, _ := element["value"].(string)
	if value == "" {
		return "", nil, scimerror.Bad(scimerror.InvalidValue, "%s: value is required", s.ref)
	}
	return value, element, nil
}

func (s *set) add(given []any) error {
	for _, item := range given {
		value, element, err := s.valueOf(item)
		if err != nil {
			return err
		}
		if old, ok := s.held.Get(value); ok {
			element = overlaid(old, element)
		}
		if err := s.put(value, element); err != nil {
			return err
		}
		if isPrimary(item) {
			if err := s.onlyPrimary(value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *set) replace(given []any) error {
	if len(given) == 0 {
		return s.clear()
	}
	keep := make(map[string]bool, len(given))
	for _, item := range given {
		value, _, err := s.valueOf(item)
		if err != nil {
			return err
		}
		keep[value] = true
	}
	schema.DiscardUnreadable(s.held)
	removed, err := s.collect(func(element map[string]any) bool {
		value, _ := element["value"].(string)
		return !keep[value]
	})
	if err != nil {
		return err
	}
	if err := s.remove(removed); err != nil {
		return err
	}
	return s.add(given)
}

func (s *set) remove(listed []any) error {
	for _, item := range listed {
		value, _, err := s.valueOf(item)
		if err != nil {
			return err
		}
		if err := s.delete(value); err != nil {
			return err
		}
	}
	return nil
}

func (s *set) clear() error {
	schema.DiscardUnreadable(s.held)
	if s.held.Len() == 0 {
		return nil
	}
	if err := s.checkMutable(); err != nil {
		return err
	}
	s.held.Clear()
	return nil
}

// collect returns copies of matching elements: a Set must not be changed during an iteration.
func (s *set) collect(match func(map[string]any) bool) ([]any, error) {
	if err := s.e.visit(s.held.Len()); err != nil {
		return nil, err
	}
	var found []any
	for element := range s.held.All() {
		if match(element) {
			found = append(found, copied(element))
		}
	}
	return found, nil
}

// selected returns copies of the elements that a target selects. A filter for one value is a lookup, not a
// scan.
func (s *set) selected(t target) ([]any, error) {
	if t.selects == nil {
		return s.collect(func(map[string]any) bool { return true })
	}
	if value, one := t.selects.Key(); one && s.ref.Attribute.Value().CaseExact {
		element, ok := s.held.Get(value)
		if !ok || !t.selects.Match(element) {
			return nil, nil
		}
		return []any{copied(element)}, nil
	}
	return s.collect(t.selects.Match)
}

func (s *set) change(t target, update func(old any) (any, error)) (int, error) {
	selected, err := s.selected(t)
	if err != nil {
		return 0, err
	}
	primary := ""
	for _, old := range selected {
		next, err := s.update(old, update)
		if err != nil {
			return 0, err
		}
		if !isPrimary(next) {
			continue
		}
		if primary != "" {
			return 0, twoPrimaries(s.ref)
		}
		primary, _, _ = s.valueOf(next)
	}
	if primary == "" {
		return len(selected), nil
	}
	return len(selected), s.onlyPrimary(primary)
}

// update replaces an element with the result of a function, or removes it.
func (s *set) update(old any, update func(old any) (any, error)) (any, error) {
	before, _, err := s.valueOf(old)
	if err != nil {
		return nil, err
	}
	next, err := update(old)
	if err != nil {
		return nil, err
	}
	if next == nil {
		return nil, s.delete(before)
	}
	value, element, err := s.valueOf(next)
	if err != nil {
		return nil, err
	}
	if value != before {
		if err := s.delete(before); err != nil {
			return nil, err
		}
	}
	return next, s.put(value, element)
}

// onlyPrimary sets primary to false for all elements but one.
func (s *set) onlyPrimary(value string) error {
	others, err := s.collect(func(element map[string]any) bool { return isPrimary(element) && element["value"] != value })
	if err != nil {
		return err
	}
	for _, item := range others {
		other, element, err := s.valueOf(item)
		if err != nil {
			return err
		}
		element["primary"] = false
		if err := s.put(other, element); err != nil {
			return err
		}
	}
	return nil
}
