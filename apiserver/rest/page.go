package rest

import (
	"cmp"
	"context"
	"slices"
)

// Bounds of pages.
const (
	defaultLimit = 20
	// MaxPageSize is the largest page that a caller can request.
	MaxPageSize = 1000
)

// CursorPage has the parameters of lists that are paged by cursors only. Without them the whole list
// is returned.
type CursorPage struct {
	First Optional[int]    `query:"first" minimum:"1" maximum:"1000" doc:"How many items at most."`
	After Optional[string] `query:"after" maxLength:"2048" doc:"endCursor of the page before."`
}

// Page has the parameters of lists that support both styles of paging.
type Page struct {
	CursorPage
	Offset Optional[int] `query:"offset" minimum:"0" doc:"How many items to leave out; 0 when absent. Not together with first and after."`
	Limit  Optional[int] `query:"limit" minimum:"0" maximum:"1000" doc:"How many items at most; 20 when absent. Not together with first and after."`
}

// PageInfo is the position of a page in its list.
type PageInfo struct {
	HasNextPage     bool    `json:"hasNextPage"`
	HasPreviousPage bool    `json:"hasPreviousPage"`
	StartCursor     *string `json:"startCursor,omitempty" nullable:"true"`
	EndCursor       *string `json:"endCursor,omitempty" nullable:"true"`
}

// Pagination is the position of a page by offset.
type Pagination struct {
	Offset int `json:"offset" minimum:"0"`
	Limit  int `json:"limit" minimum:"0"`
	Total  int `json:"total" minimum:"0"`
}

// List is the response of lists that are paged by cursors only, in both shapes.
type List[T any] struct {
	Body struct {
		Data     []T      `json:"data"`
		Items    []T      `json:"items"`
		PageInfo PageInfo `json:"pageInfo"`
	}
}

func newList[T any](items []T, info PageInfo) *List[T] {
	out := &List[T]{}
	out.Body.Data, out.Body.Items, out.Body.PageInfo = items, items, info
	return out
}

// Paginate returns a page of a list in memory that is sorted by a unique key. The item of a cursor
// may be gone.
func Paginate[T any, K cmp.Ordered](ctx context.Context, p Page, all []T, key func(T) K) ([]T, PageInfo, Pagination, error) {
	byCursor := p.First.IsSet || p.After.IsSet
	if byCursor && (p.Offset.IsSet || p.Limit.IsSet) {
		return nil, PageInfo{}, Pagination{}, BadRequest("offset and limit cannot go together with first and after: use one style of paging")
	}
	from, count := p.Offset.Value, defaultLimit
	if p.Limit.IsSet {
		count = p.Limit.Value
	}
	if byCursor {
		var err error
		if from, err = indexAfter(ctx, p.After, all, key); err != nil {
			return nil, PageInfo{}, Pagination{}, err
		}
		if p.First.IsSet {
			count = p.First.Value
		}
	}
	items, info, err := cut(ctx, all, from, count, key)
	return items, info, Pagination{Offset: from, Limit: count, Total: len(all)}, err
}

// PaginateByCursor returns a page of a list in memory that is sorted by a unique key; all of it if
// the caller requests no page.
func PaginateByCursor[T any, K cmp.Ordered](ctx context.Context, p CursorPage, all []T, key func(T) K) (*List[T], error) {
	from, err := indexAfter(ctx, p.After, all, key)
	if err != nil {
		return nil, err
	}
	count := len(all)
	if p.First.IsSet {
		count = p.First.Value
	}
	items, info, err := cut(ctx, all, from, count, key)
	return newList(items, info), err
}

// StoredPage is a page of a list in a database.
type StoredPage[T any] struct {
	Items                []T
	HasNext, HasPrevious bool
}

// PaginateStored returns a page of a list in a database; the first MaxPageSize items if the caller
// requests no page. fetch returns at most limit items in the order of a unique key, those after a
// key if it is not nil.
func PaginateStored[T, K any](ctx context.Context, p CursorPage, fetch func(ctx context.Context, after *K, limit int) (StoredPage[T], error), key func(T) K) (*List[T], error) {
	var after *K
	if p.After.IsSet {
		k, err := decodeCursor[K](listOf(ctx), p.After.Value)
		if err != nil {
			return nil, err
		}
		after = &k
	}
	limit := MaxPageSize
	if p.First.IsSet {
		limit = p.First.Value
	}
	page, err := fetch(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	if page.Items == nil {
		page.Items = []T{}
	}
	info := PageInfo{HasNextPage: page.HasNext, HasPreviousPage: page.HasPrevious}
	err = setCursors(ctx, &info, page.Items, key)
	return newList(page.Items, info), err
}

// indexAfter returns the index of the first item after a cursor.
func indexAfter[T any, K cmp.Ordered](ctx context.Context, after Optional[string], all []T, key func(T) K) (int, error) {
	if !after.IsSet {
		return 0, nil
	}
	last, err := decodeCursor[K](listOf(ctx), after.Value)
	if err != nil {
		return 0, err
	}
	i, found := slices.BinarySearchFunc(all, last, func(item T, k K) int { return cmp.Compare(key(item), k) })
	if found {
		i++
	}
	return i, nil
}

func cut[T any, K cmp.Ordered](ctx context.Context, all []T, from, count int, key func(T) K) ([]T, PageInfo, error) {
	begin := min(from, len(all))
	end := min(len(all), begin+min(count, len(all)))
	items := all[begin:end]
	info := PageInfo{HasNextPage: end < len(all), HasPreviousPage: begin > 0}
	err := setCursors(ctx, &info, items, key)
	return items, info, err
}

func setCursors[T, K any](ctx context.Context, info *PageInfo, items []T, key func(T) K) error {
	if len(items) == 0 {
		return nil
	}
	start, err := encodeCursor(listOf(ctx), key(items[0]))
	if err != nil {
		return err
	}
	end, err := encodeCursor(listOf(ctx), key(items[len(items)-1]))
	info.StartCursor, info.EndCursor = &start, &end
	return err
}

// listOf returns the identity of the list that is requested.
func listOf(ctx context.Context) listID {
	if s := ScopeFrom(ctx); s != nil {
		return s.list
	}
	return ""
}
