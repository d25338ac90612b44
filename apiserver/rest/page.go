package rest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

// Bounds of pages.
const (
	defaultLimit = 20
	maxPage      = 1000
)

// given is a parameter that may be absent. Its type is that of T in the document.
type given[T any] struct {
	Value T
	IsSet bool
}

// Schema implements huma.SchemaProvider.
func (g given[T]) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeFor[T]())
}

// Receiver implements huma.ParamWrapper.
func (g *given[T]) Receiver() reflect.Value { return reflect.ValueOf(g).Elem().Field(0) }

// OnParamSet implements huma.ParamReactor.
func (g *given[T]) OnParamSet(isSet bool, _ any) { g.IsSet = isSet }

// CursorPage are the parameters of lists that are paged by cursors only; all of the list
// when none is given.
type CursorPage struct {
	First given[int]    `query:"first" minimum:"1" maximum:"1000" doc:"How many items at most."`
	After given[string] `query:"after" maxLength:"512" doc:"endCursor of the page before."`
}

// AnyPage are the parameters of lists that know both styles of paging.
type AnyPage struct {
	CursorPage
	Offset given[int] `query:"offset" minimum:"0" doc:"How many items to leave out; 0 when absent. Not together with first and after."`
	Limit  given[int] `query:"limit" minimum:"0" maximum:"1000" doc:"How many items at most; 20 when absent. Not together with first and after."`
}

// PageInfo tells where a page stands in its list.
type PageInfo struct {
	HasNextPage     bool    `json:"hasNextPage"`
	HasPreviousPage bool    `json:"hasPreviousPage"`
	StartCursor     *string `json:"startCursor,omitempty" nullable:"true"`
	EndCursor       *string `json:"endCursor,omitempty" nullable:"true"`
}

// Pagination is the documented envelope's part about paging.
type Pagination struct {
	Offset int `json:"offset" minimum:"0"`
	Limit  int `json:"limit" minimum:"0"`
	Total  int `json:"total" minimum:"0"`
}

// List is a list that is paged by cursors only, in both shapes.
type List[T any] struct {
	Body struct {
		Data     []T      `json:"data"`
		Items    []T      `json:"items"`
		PageInfo PageInfo `json:"pageInfo"`
	}
}

// listOf answers with a page of a list that is sorted by key; with all of it when the caller
// asks for no page.
func listOf[T any, K cmp.Ordered](p CursorPage, all []T, key func(T) K) (*List[T], error) {
	items, info, err := cursorOnly(p, all, key)
	if err != nil {
		return nil, err
	}
	out := &List[T]{}
	out.Body.Data, out.Body.Items, out.Body.PageInfo = items, items, info
	return out, nil
}

// page cuts a list, sorted by key, as both styles of paging ask for.
func page[T any, K cmp.Ordered](p AnyPage, all []T, key func(T) K) ([]T, PageInfo, Pagination, error) {
	byCursor := p.First.IsSet || p.After.IsSet
	if byCursor && (p.Offset.IsSet || p.Limit.IsSet) {
		return nil, PageInfo{}, Pagination{}, badRequest("offset and limit cannot go together with first and after: use one style of paging")
	}
	from, count := p.Offset.Value, defaultLimit
	if p.Limit.IsSet {
		count = p.Limit.Value
	}
	if byCursor {
		var err error
		if from, err = start(p.After, all, key); err != nil {
			return nil, PageInfo{}, Pagination{}, err
		}
		if p.First.IsSet {
			count = p.First.Value
		}
	}
	items, info := cut(all, from, count, key)
	return items, info, Pagination{Offset: from, Limit: count, Total: len(all)}, nil
}

// cursorOnly cuts a list, sorted by key, by cursors; all of it when none is given.
func cursorOnly[T any, K cmp.Ordered](p CursorPage, all []T, key func(T) K) ([]T, PageInfo, error) {
	from, err := start(p.After, all, key)
	if err != nil {
		return nil, PageInfo{}, err
	}
	count := len(all)
	if p.First.IsSet {
		count = p.First.Value
	}
	items, info := cut(all, from, count, key)
	return items, info, nil
}

// start is the place of the first item after a cursor. The item that the cursor was made
// from may be gone.
func start[T any, K cmp.Ordered](after given[string], all []T, key func(T) K) (int, error) {
	if !after.IsSet {
		return 0, nil
	}
	last, err := fromCursor[K](after.Value)
	if err != nil {
		return 0, badRequest("after: %q is not a cursor of this list: use endCursor of the page before", clip(after.Value))
	}
	i, found := slices.BinarySearchFunc(all, last, func(item T, k K) int { return cmp.Compare(key(item), k) })
	if found {
		i++
	}
	return i, nil
}

func cut[T any, K cmp.Ordered](all []T, from, count int, key func(T) K) ([]T, PageInfo) {
	begin := min(from, len(all))
	end := min(len(all), begin+min(count, len(all)))
	items := all[begin:end]
	info := PageInfo{HasNextPage: end < len(all), HasPreviousPage: begin > 0}
	if len(items) > 0 {
		info.StartCursor, info.EndCursor = toCursor(key(items[0])), toCursor(key(items[len(items)-1]))
	}
	return items, info
}

func toCursor[K cmp.Ordered](key K) *string {
	data, _ := json.Marshal(key) // strings and numbers are always JSON
	cursor := base64.RawURLEncoding.EncodeToString(data)
	return &cursor
}

func fromCursor[K cmp.Ordered](cursor string) (K, error) {
	var key K
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return key, err
	}
	return key, json.Unmarshal(data, &key)
}
