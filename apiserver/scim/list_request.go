package scim

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/filter"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// listRequest is the parameters of a list, from a query or from a search body, as the client sent
// them.
type listRequest struct {
	filter, sortBy, sortOrder string
	startIndex, count, cursor string
	hasFilter, byCursor       bool
	attributes, excluded      []string
	// dialect is the dialect of the filter.
	dialect filter.Dialect
}

// Parameter is a parameter of the query, or a member of a search.
type Parameter struct {
	Name, Type, About string
	// projects means that it selects attributes: all operations that return resources have it.
	projects bool
}

// parameters are the query parameters of a list.
var parameters = []Parameter{
	{"filter", "string", `A filter, such as userName eq "ada@example.com".`, false},
	{"sortBy", "string", "The attribute by which to sort.", false},
	{"sortOrder", "string: ascending · descending", "", false},
	{"startIndex", "integer ≥ 1", "The index of the first resource.", false},
	{"count", fmt.Sprintf("integer ≥ 0 ≤ %d", maxPage), "The number of resources.", false},
	{"cursor", "string", "nextCursor of the previous page; empty for the first.", false},
	{"attributes", "string", "The attributes to return, separated by commas.", true},
	{"excludedAttributes", "string", "The attributes not to return.", true},
}

// listQuery parses the query of the URL. It ignores unknown parameters, such as client flags, and
// rejects a known parameter that is repeated, because its meaning would be ambiguous.
func (x *exchange) listQuery() (*listRequest, error) {
	values, err := url.ParseQuery(x.URL.RawQuery)
	if err != nil {
		return nil, scimerror.Bad(scimerror.InvalidSyntax, "query: %s", scimerror.Quote(x.URL.RawQuery))
	}
	for _, p := range parameters {
		if n := len(values[p.Name]); n > 1 {
			return nil, scimerror.Bad(scimerror.InvalidValue, "%s: occurs %d times; allowed: once", p.Name, n)
		}
	}
	return &listRequest{
		filter: values.Get("filter"), hasFilter: values.Has("filter"),
		sortBy: values.Get("sortBy"), sortOrder: values.Get("sortOrder"),
		startIndex: values.Get("startIndex"), count: values.Get("count"),
		cursor: values.Get("cursor"), byCursor: values.Has("cursor"),
		attributes: splitList(values.Get("attributes")), excluded: splitList(values.Get("excludedAttributes")),
		dialect: x.profile.Quirks.Filters,
	}, nil
}

func splitList(s string) []string {
	var names []string
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// searchRequest parses the body of a search.
func (x *exchange) searchRequest() (*listRequest, error) {
	body, err := x.body()
	if err != nil {
		return nil, err
	}
	l := &listRequest{dialect: x.profile.Quirks.Filters}
	for name, value := range body {
		if err := l.member(name, value); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *listRequest) member(name string, value any) error {
	text := func(to *string) error {
		s, ok := value.(string)
		if !ok {
			return scimerror.Bad(scimerror.InvalidValue, "%s: must be a string", name)
		}
		*to = s
		return nil
	}
	number := func(to *string) error {
		n, ok := value.(interface{ Int64() (int64, error) })
		if !ok {
			return scimerror.Bad(scimerror.InvalidValue, "%s: must be an integer", name)
		}
		i, err := n.Int64()
		*to = strconv.FormatInt(i, 10)
		if err != nil {
			return scimerror.Bad(scimerror.InvalidValue, "%s: must be an integer", name)
		}
		return nil
	}
	switch strings.ToLower(name) {
	case "schemas":
		return schema.CheckMessage(value, searchURN)
	case "filter":
		l.hasFilter = true
		return text(&l.filter)
	case "sortby":
		return text(&l.sortBy)
	case "sortorder":
		return text(&l.sortOrder)
	case "startindex":
		return number(&l.startIndex)
	case "count":
		return number(&l.count)
	case "cursor":
		l.byCursor = true
		return text(&l.cursor)
	case "attributes":
		return texts(name, value, &l.attributes)
	case "excludedattributes":
		return texts(name, value, &l.excluded)
	}
	return scimerror.Bad(scimerror.InvalidSyntax, "%s is not an attribute of a search request", scimerror.Quote(name))
}

func texts(name string, value any, to *[]string) error {
	list, ok := value.([]any)
	for _, item := range list {
		s, isText := item.(string)
		if ok = ok && isText; ok {
			*to = append(*to, s)
		}
	}
	if !ok {
		return scimerror.Bad(scimerror.InvalidValue, "%s: must be a list of strings", name)
	}
	return nil
}

// window returns the requested page. A startIndex below 1 is 1, a negative count is 0, and a count
// above the maximum is the maximum (RFC 7644 section 3.4.2.4). With a cursor a count out of range
// is an error (RFC 9865 section 2.1).
func (l *listRequest) window() (start, count int, err error) {
	start, count = 1, defaultPage
	if l.startIndex != "" {
		if start, err = strconv.Atoi(l.startIndex); err != nil {
			return 0, 0, scimerror.Bad(scimerror.InvalidValue, "startIndex: %s is not an integer", scimerror.Quote(l.startIndex))
		}
		if l.byCursor {
			return 0, 0, scimerror.Bad(scimerror.InvalidValue, "startIndex and cursor are mutually exclusive")
		}
	}
	if l.count != "" {
		if count, err = strconv.Atoi(l.count); err != nil {
			return 0, 0, scimerror.Bad(scimerror.InvalidValue, "count: %s is not an integer", scimerror.Quote(l.count))
		}
		if l.byCursor && (count < 0 || count > maxPage) {
			return 0, 0, scimerror.Bad(scimerror.InvalidCount, "count: %d is not from 0 to %d", count, maxPage)
		}
	}
	return max(start, 1), min(max(count, 0), maxPage), nil
}

// order parses sortBy and sortOrder; nil for the default order.
func (l *listRequest) order(t *schema.ResourceType) (*Order, error) {
	descending := false
	switch strings.ToLower(l.sortOrder) {
	case "", "ascending":
	case "descending":
		descending = true
	default:
		return nil, scimerror.Bad(scimerror.InvalidValue, "sortOrder: must be ascending or descending, not %s", scimerror.Quote(l.sortOrder))
	}
	if l.sortBy == "" {
		return nil, nil
	}
	ref, err := attribute(t, "sortBy", l.sortBy)
	if err != nil {
		return nil, err
	}
	return &Order{By: ref, Descending: descending}, filter.Sortable(ref)
}

// attribute resolves the attribute that a parameter names.
func attribute(t *schema.ResourceType, parameter, name string) (schema.Ref, error) {
	path, err := filter.ParseAttribute(name)
	if err != nil {
		return schema.Ref{}, scimerror.Bad(scimerror.InvalidValue, "%s: %s is not an attribute name", parameter, scimerror.Quote(name))
	}
	ref, ok := path.Resolve(t)
	if !ok {
		return schema.Ref{}, unknownAttributeError{scimerror.Bad(scimerror.InvalidValue, "%s: %s is not an attribute of %s", parameter, scimerror.Quote(name), t.Name)}
	}
	return ref, nil
}

// unknownAttributeError means that a type lacks an attribute; another type of the list may have it.
type unknownAttributeError struct{ cause *scimerror.Error }

func (e unknownAttributeError) Error() string { return e.cause.Error() }
func (e unknownAttributeError) Unwrap() error { return e.cause }

// projection parses the attributes to return; nil for the default ones. In a list over several types
// each type returns the requested attributes that it has.
func (l *listRequest) projection(t *schema.ResourceType, several bool) (*schema.Projection, error) {
	if len(l.attributes) > 0 && len(l.excluded) > 0 {
		return nil, scimerror.Bad(scimerror.InvalidValue, "attributes and excludedAttributes are mutually exclusive")
	}
	if len(l.attributes)+len(l.excluded) == 0 {
		return nil, nil
	}
	p := &schema.Projection{}
	for _, list := range []struct {
		parameter string
		names     []string
		to        *[]schema.Ref
	}{{"attributes", l.attributes, &p.Include}, {"excludedAttributes", l.excluded, &p.Exclude}} {
		for _, name := range list.names {
			ref, err := attribute(t, list.parameter, name)
			if errors.As(err, &unknownAttributeError{}) && several {
				ref, _ = t.Resolve("", "schemas", "") // always returned
			} else if err != nil {
				return nil, err
			}
			*list.to = append(*list.to, ref)
		}
	}
	return p, nil
}

// checkProjection rejects attributes that no type has.
func (l *listRequest) checkProjection(types []*schema.ResourceType) error {
	for parameter, names := range map[string][]string{"attributes": l.attributes, "excludedAttributes": l.excluded} {
		for _, name := range names {
			var err error
			if !slices.ContainsFunc(types, func(t *schema.ResourceType) bool {
				_, err = attribute(t, parameter, name)
				return err == nil
			}) {
				return err
			}
		}
	}
	return nil
}

// projection parses the attributes to return of a request for one resource.
func (x *exchange) projection(t *schema.ResourceType) (*schema.Projection, error) {
	l, err := x.listQuery()
	if err != nil {
		return nil, err
	}
	return l.projection(t, false)
}
