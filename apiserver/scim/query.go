package scim

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/apiserver/scim/filter"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/internal/fairsemaphore"
)

// Query selects resources of one type: a filter, an order and a page.
type Query struct {
	// Filter matches resources; nil for all.
	Filter *filter.Predicate
	// Order of the resources; nil for the default order: by creation time, then by id, so that new
	// resources are last.
	Order *Order
	// Start is the zero-based index of the first resource. It is ignored if After is set.
	Start int
	// After is the position of the last resource of the previous page; nil for the first page.
	After *Position
	// Count is the page size; 0 returns only the total.
	Count int
	// Projection selects the attributes; nil for the default ones.
	Projection *schema.Projection
	// Use receives the resources of the page in their order, so that Page.Resources is empty; nil for none. A resource and
	// its document are valid until Use returns: the store may use their memory for the next one. The store returns an error
	// of Use.
	Use func(*schema.Resource) error
	// Turn is the work that the page is a part of. A store begins it if reading the page is long. nil if the page is work
	// of its own.
	Turn *fairsemaphore.Turn
}

// Order sorts resources by an attribute (RFC 7644 section 3.4.2.3). Resources without a value come
// last, or first if Descending is set.
type Order struct {
	By         schema.Ref
	Descending bool
}

// Page is the result of a Query.
type Page struct {
	// Total is the number of resources that match.
	Total int
	// Resources are the resources of the page.
	Resources []*schema.Resource
	// Next is the position after which the next page begins; nil on the last page.
	Next *Position
}

// Position is the position of a resource in an order, the key of keyset pagination. No two
// resources have the same position.
type Position struct {
	// Key is the sort key; empty in the default order.
	Key filter.SortKey `json:"k,omitzero"`
	// Created is the creation time in nanoseconds since the Unix epoch.
	Created int64 `json:"t"`
	// ID is the id of the resource.
	ID string `json:"i"`
}

// PositionOf returns the position of a resource in the default order.
func PositionOf(created time.Time, id string) Position {
	return Position{Created: created.UnixNano(), ID: id}
}

// Compare compares two positions in an order: negative if p is first. A nil Order is the default
// order.
func (p Position) Compare(other Position, o *Order) int {
	if o != nil {
		if c := filter.Compare(p.Key, other.Key); c != 0 {
			if o.Descending {
				return -c
			}
			return c
		}
	}
	return cmp.Or(cmp.Compare(p.Created, other.Created), strings.Compare(p.ID, other.ID))
}

// Item is a candidate of a Query.
type Item interface {
	schema.Source
	// Position returns the position in the default order.
	Position() Position
	// Resource returns the resource. It is called only for the items of the page.
	Resource() *schema.Resource
}

// checkEvery is the number of candidates between two checks whether the context is done.
const checkEvery = 1 << 10

// Select matches, sorts and counts candidates, and returns the page. The candidates are in the
// default order. Time is linear in the number of candidates; memory is linear in the number of
// matches if an Order is set, and in the page size otherwise.
func (q *Query) Select(ctx context.Context, candidates iter.Seq[Item]) (*Page, error) {
	if q.Order != nil {
		return q.selectSorted(ctx, candidates)
	}
	w := &window{q: q, page: &Page{}}
	checked := 0
	for item := range candidates {
		if checked++; checked%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if q.Filter == nil || q.Filter.Match(item) {
			if err := w.add(item, item.Position()); err != nil {
				return nil, err
			}
		}
	}
	return w.page, ctx.Err()
}

type sorted struct {
	item Item
	at   Position
}

func (q *Query) selectSorted(ctx context.Context, candidates iter.Seq[Item]) (*Page, error) {
	var matches []sorted
	checked := 0
	for item := range candidates {
		if checked++; checked%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if q.Filter == nil || q.Filter.Match(item) {
			at := item.Position()
			at.Key = filter.KeyOf(item, q.Order.By)
			matches = append(matches, sorted{item, at})
		}
	}
	slices.SortFunc(matches, func(x, y sorted) int { return x.at.Compare(y.at, q.Order) })
	w := &window{q: q, page: &Page{}}
	for _, m := range matches {
		if err := w.add(m.item, m.at); err != nil {
			return nil, err
		}
	}
	return w.page, ctx.Err()
}

// window receives matches in order and keeps those of the page.
type window struct {
	q    *Query
	page *Page
	// count is the number of resources on the page, and last the position of the last one.
	count int
	last  Position
}

func (w *window) add(item Item, at Position) error {
	index := w.page.Total
	w.page.Total++
	if w.q.After != nil {
		if at.Compare(*w.q.After, w.q.Order) <= 0 {
			return nil
		}
	} else if index < w.q.Start {
		return nil
	}
	switch {
	case w.count < w.q.Count:
		w.count++
		w.last = at
		return w.page.Add(w.q, item.Resource())
	case w.page.Next == nil && w.q.Count > 0:
		next := w.last
		w.page.Next = &next
	}
	return nil
}

// Add adds a resource to the page of a query, or lets the query use it.
func (p *Page) Add(q *Query, r *schema.Resource) error {
	if q.Use != nil {
		return q.Use(r)
	}
	p.Resources = append(p.Resources, r)
	return nil
}
