package scim

import (
	"errors"
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
	total     int
	resources []*schema.Resource
	// projections of the resources, by index.
	projections []*schema.Projection
	next        *cursor
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
	found, err := x.collect(queries, start-1, count, after)
	if err != nil {
		return err
	}
	if found.next != nil {
		found.next.Query, found.next.Issued = hash, x.server.Now().Unix()
	}
	memory := pages.Get().(*[]byte)
	defer pages.Put(memory)
	if *memory, err = x.renderList((*memory)[:0], found, start, l.byCursor); err != nil {
		return err
	}
	return x.write(http.StatusOK, *memory)
}

func (x *exchange) collect(queries []typedQuery, skip, count int, after *cursor) (*listed, error) {
	found := &listed{}
	begun := after == nil
	for _, typed := range queries {
		q := typed.q
		q.Start, q.Count = skip, count-len(found.resources)
		switch {
		case !begun && after.Type == typed.t.Name:
			begun, q.After = true, after.Position
		case !begun:
			q.Count = 0 // only the total
		}
		page, err := x.tenant.Store.ListResources(x.Context(), typed.t, q)
		if err != nil {
			return nil, err
		}
		found.total += page.Total
		skip = max(0, skip-page.Total)
		for _, r := range page.Resources {
			found.resources = append(found.resources, r)
			found.projections = append(found.projections, q.Projection)
		}
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

// renderStep is the number of resources after which the work of other accounts may run.
const renderStep = 32

// pages are the memory of pages, *[]byte, for reuse: a page may have some MiB.
var pages = sync.Pool{New: func() any { return &[]byte{} }}

// renderList appends a ListResponse to body. Resources is present even if it is empty.
func (x *exchange) renderList(body []byte, found *listed, start int, byCursor bool) ([]byte, error) {
	size := 256
	for _, r := range found.resources {
		size += r.RenderedSize()
	}
	turn, err := fairsemaphore.Processors.BeginIf(x.Context(), size > longBody, x.tenant.Name)
	if err != nil {
		return body, err
	}
	defer turn.End()
	step := yielding(turn)
	body = slices.Grow(body, size)
	body = append(body, `{"schemas":["`+listURN+`"],"totalResults":`...)
	body = strconv.AppendInt(body, int64(found.total), 10)
	if !byCursor {
		body = append(body, `,"startIndex":`...)
		body = strconv.AppendInt(body, int64(start), 10)
	}
	body = append(body, `,"itemsPerPage":`...)
	body = strconv.AppendInt(body, int64(len(found.resources)), 10)
	if byCursor && found.next != nil {
		body = append(body, `,"nextCursor":"`+found.next.String()+`"`...)
	}
	body = append(body, `,"Resources":[`...)
	for i, r := range found.resources {
		if i > 0 {
			body = append(body, ',')
		}
		if i%renderStep == renderStep-1 {
			if err := turn.Yield(); err != nil {
				return body, err
			}
		}
		r.Location = x.locate(r.Type.Name, r.ID)
		body = r.RenderInSteps(body, found.projections[i], x.locate, step)
	}
	return append(body, `]}`...), x.Context().Err()
}
