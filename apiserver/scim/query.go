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
)

// Query says which resources of a type are wanted, in which order, and which page of them.
type Query struct {
	// Filter, nil for all.
	Filter *filter.Predicate
	// Order, nil for the store's own: by time of creation, then by id. So new resources come last.
	Order *Order
	// Start is the index of the first resource wanted, from 0. It does not count where After is given.
	Start int
	// After continues behind the last resource of another page; nil on the first.
	After *Position
	// Count is how many are wanted at most; 0 asks for the total alone.
	Count int
	// Projection says which attributes are wanted.
	Projection *schema.Projection
}

// Order sorts resources by an attribute (RFC 7644 section 3.4.2.3); those without a value come
// last, or first when it is descending.
type Order struct {
	By         schema.Ref
	Descending bool
}

// Page is what a Query has found.
type Page struct {
	// Total is how many resources match.
	Total int
	// Resources of the page.
	Resources []*schema.Resource
	// Next continues behind this page; nil when it is the last one.
	Next *Position
}

// Position is where a resource stands in an order. It tells two resources apart always.
type Position struct {
	// Key is the value that is sorted by; empty in the store's own order.
	Key filter.SortKey `json:"k,omitzero"`
	// Created is the time of creation, in nanoseconds since 1970.
	Created int64 `json:"t"`
	// ID of the resource.
	ID string `json:"i"`
}

// PositionOf is a resource's position in the store's own order.
func PositionOf(created time.Time, id string) Position {
	return Position{Created: created.UnixNano(), ID: id}
}

// Compare says which comes first in a query's order.
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

// Item is a resource that a Query may be about.
type Item interface {
	schema.Source
	// Position in the store's own order.
	Position() Position
	// Resource is made of those on the page only.
	Resource() *schema.Resource
}

// checkEvery is after how many candidates it is looked whether the caller has gone.
const checkEvery = 1 << 10

// Select matches, sorts and counts candidates, and cuts the page. They come in the store's own
// order. The work is that of the candidates' number, the memory too where an Order is given, and
// that of the page otherwise.
func (q *Query) Select(ctx context.Context, candidates iter.Seq[Item]) (*Page, error) {
	if q.Order != nil {
		return q.selectSorted(ctx, candidates)
	}
	w := &window{q: q, page: &Page{}}
	seen := 0
	for item := range candidates {
		if seen++; seen%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if q.Filter == nil || q.Filter.Match(item) {
			w.add(item, item.Position())
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
	seen := 0
	for item := range candidates {
		if seen++; seen%checkEvery == 0 && ctx.Err() != nil {
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
		w.add(m.item, m.at)
	}
	return w.page, ctx.Err()
}

// window takes matches in order and keeps those of the page.
type window struct {
	q    *Query
	page *Page
	last Position
}

func (w *window) add(item Item, at Position) {
	index := w.page.Total
	w.page.Total++
	if w.q.After != nil {
		if at.Compare(*w.q.After, w.q.Order) <= 0 {
			return
		}
	} else if index < w.q.Start {
		return
	}
	switch {
	case len(w.page.Resources) < w.q.Count:
		w.page.Resources = append(w.page.Resources, item.Resource())
		w.last = at
	case w.page.Next == nil && w.q.Count > 0:
		next := w.last
		w.page.Next = &next
	}
}
