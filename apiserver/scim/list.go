package scim

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/quoin-dev/quoin/apiserver/scim/filter"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/fairsemaphore"
)

// Page sizes.
const (
	defaultPage = 100
	maxPage     = 1000
)

// listURN and searchURN are message schemas (RFC 7644 sections 3.4.2 and 3.4.3).
const (
	listURN   = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
	searchURN = "urn:ietf:params:scim:api:messages:2.0:SearchRequest"
)

// forType returns the query for one type, without a page.
func (l *listRequest) forType(t *schema.ResourceType, several bool) (*Query, error) {
	q := &Query{}
	var err error
	if q.Projection, err = l.projection(t, several); err != nil {
		return nil, err
	}
	if q.Order, err = l.order(t); err != nil {
		return nil, err
	}
	if !l.hasFilter {
		return q, nil
	}
	expression, err := l.dialect.Parse(l.filter)
	if err != nil {
		return nil, err
	}
	q.Filter, err = filter.Compile(expression, t)
	return q, err
}

// typedQuery is the query for one resource type of a list.
type typedQuery struct {
	t *schema.ResourceType
	q *Query
}

// queries returns a query for each type. A list over several types skips a type that lacks an
// attribute of the request, because none of its resources can match; an attribute that no type has
// is an error.
func (l *listRequest) queries(types []*schema.ResourceType) ([]typedQuery, error) {
	if err := l.checkProjection(types); err != nil {
		return nil, err
	}
	var all []typedQuery
	var first error
	for _, t := range types {
		q, err := l.forType(t, len(types) > 1)
		var unknown unknownAttributeError
		var e *scimerror.Error
		switch {
		case err == nil:
			all = append(all, typedQuery{t, q})
		case errors.As(err, &unknown), errors.As(err, &e) && e.Type == scimerror.InvalidFilter && len(types) > 1:
			if first == nil {
				first = err
			}
		default:
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, first
	}
	return all, nil
}

// listed is the result of a list.
type listed struct {
	total, count int
	// resources are the resources of the page as JSON, separated by commas.
	resources []byte
	next      *cursor
}

// writeList lists the types in order and writes the page; a page may span several types.
func (x *exchange) writeList(l *listRequest, types []*schema.ResourceType) error {
	start, count, err := l.window()
	if err != nil {
		return err
	}
	queries, err := l.queries(types)
	if err != nil {
		return err
	}
	hash := queryHash(x.tenant.Name, strconv.Itoa(len(types)), types[0].Name, l.filter, l.sortBy, strings.ToLower(l.sortOrder))
	var after *cursor
	if l.cursor != "" {
		if after, err = parseCursor(l.cursor, hash, x.server.Now()); err != nil {
			return err
		}
	}
	memory, _ := pages.Get().(*[]byte) // by New
	defer keep(memory)
	found, err := x.collect(queries, start-1, count, after, (*memory)[:0])
	if err != nil {
		return err
	}
	if found.next != nil {
		found.next.Query, found.next.Issued = hash, x.server.Now().Unix()
	}
	*memory = append(slices.Insert(found.resources, 0, head(found, start, l.byCursor)...), `]}`...)
	return x.write(http.StatusOK, *memory)
}

// collect reads and renders the resources, in turns with the work of other accounts if that is long. It appends them to
// memory.
func (x *exchange) collect(queries []typedQuery, skip, count int, after *cursor, memory []byte) (*listed, error) {
	turn := fairsemaphore.Processors.Work(x.Context(), x.tenant.Name)
	defer turn.End()
	step := yielding(turn)
	found := &listed{resources: memory}
	begun := after == nil
	for _, typed := range queries {
		q := typed.q
		q.Start, q.Count, q.Turn = skip, count-found.count, turn
		q.Use = func(r *schema.Resource) error {
			if err := turn.BeginIf(len(found.resources)+r.RenderedSize() > longBody); err != nil {
				return err
			}
			if found.count > 0 {
				found.resources = append(found.resources, ',')
			}
			found.count++
			r.Location = x.locate(r.Type.Name, r.ID)
			found.resources = r.RenderInSteps(found.resources, q.Projection, x.locate, step)
			return x.Context().Err()
		}
		switch {
		case !begun && after.Type == typed.t.Name:
			begun, q.After = true, after.Position
		case !begun:
			q.Count = 0 // only the total
		}
		page, err := x.tenant.Store.ListResources(x.Context(), typed.t, q)
		turn.End() // the store may wait for others before it reads the next type
		if err != nil {
			return nil, err
		}
		found.total += page.Total
		skip = max(0, skip-page.Total)
		switch full := count > 0 && q.Count == 0 && begun; {
		case found.next != nil:
		case page.Next != nil:
			found.next = &cursor{Type: typed.t.Name, Position: page.Next}
		case full && page.Total > 0:
			found.next = &cursor{Type: typed.t.Name} // the next page begins with its first resource
		}
	}
	if !begun {
		return nil, scimerror.Bad(scimerror.InvalidCursor, "cursor: was not issued for this list")
	}
	return found, nil
}

// pages are the memory of pages, *[]byte, for reuse.
var pages = sync.Pool{New: func() any { return &[]byte{} }}

// maxKept is the length in bytes up to which the memory of a page is kept: most pages of 1,000 users are shorter.
const maxKept = 4 << 20

func keep(page *[]byte) {
	if cap(*page) <= maxKept {
		pages.Put(page)
	}
}

// head returns the part of a ListResponse before its resources. Resources is present even if it is empty.
func head(found *listed, start int, byCursor bool) []byte {
	head := fmt.Appendf(nil, `{"schemas":["%s"],"totalResults":%d`, listURN, found.total)
	if !byCursor {
		head = fmt.Appendf(head, `,"startIndex":%d`, start)
	}
	head = fmt.Appendf(head, `,"itemsPerPage":%d`, found.count)
	if byCursor && found.next != nil {
		head = fmt.Appendf(head, `,"nextCursor":"%s"`, found.next)
	}
	return append(head, `,"Resources":[`...)
}
