package scim

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/filter"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// listRequest is what is asked of a list, by a query or by a search. Values are as they came.
type listRequest struct {
	filter, sortBy, sortOrder string
	startIndex, count, cursor string
	hasFilter, byCursor       bool
	attributes, excluded      []string
}

// parameters of a list's query.
var parameters = []string{"filter", "sortBy", "sortOrder", "startIndex", "count", "cursor", "attributes", "excludedAttributes"}

// query reads the query of the URL. Parameters of others, such as flags of the client's, are left
// alone; one of ours that is there twice could be read in two ways.
func (x *exchange) query() (*listRequest, error) {
	values, err := url.ParseQuery(x.URL.RawQuery)
	if err != nil {
		return nil, scimerror.Bad(scimerror.InvalidSyntax, "query: %s", scimerror.Quote(x.URL.RawQuery))
	}
	for _, name := range parameters {
		if n := len(values[name]); n > 1 {
			return nil, scimerror.Bad(scimerror.InvalidValue, "%s: is there %d times; allowed: once", name, n)
		}
	}
	return &listRequest{
		filter: values.Get("filter"), hasFilter: values.Has("filter"),
		sortBy: values.Get("sortBy"), sortOrder: values.Get("sortOrder"),
		startIndex: values.Get("startIndex"), count: values.Get("count"),
		cursor: values.Get("cursor"), byCursor: values.Has("cursor"),
		attributes: splitList(values.Get("attributes")), excluded: splitList(values.Get("excludedAttributes")),
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

// searchRequest reads the body of a search.
func (x *exchange) searchRequest() (*listRequest, error) {
	body, err := x.body()
	if err != nil {
		return nil, err
	}
	l := &listRequest{}
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
		return checkMessage(value, searchURN)
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
	return scimerror.Bad(scimerror.InvalidSyntax, "%s is not part of a search", scimerror.Quote(name))
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

// checkMessage tells whether the schemas of a message name what it is.
func checkMessage(value any, urn string) error {
	list, _ := value.([]any)
	if slices.ContainsFunc(list, func(item any) bool {
		s, ok := item.(string)
		return ok && strings.EqualFold(s, urn)
	}) {
		return nil
	}
	return scimerror.Bad(scimerror.InvalidSyntax, "schemas: must be [%q]", urn)
}

// window is the page that is asked for: startIndex below 1 is 1, a negative count is 0, and a
// count over the maximum is the maximum (RFC 7644 section 3.4.2.4). With a cursor a count out of
// bounds is an error (RFC 9865 section 2.1).
func (l *listRequest) window() (start, count int, err error) {
	start, count = 1, defaultPage
	if l.startIndex != "" {
		if start, err = strconv.Atoi(l.startIndex); err != nil {
			return 0, 0, scimerror.Bad(scimerror.InvalidValue, "startIndex: %s is not an integer", scimerror.Quote(l.startIndex))
		}
		if l.byCursor {
			return 0, 0, scimerror.Bad(scimerror.InvalidValue, "startIndex and cursor exclude each other")
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

// order reads how a list is sorted.
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

// attribute finds one that a parameter names.
func attribute(t *schema.ResourceType, parameter, name string) (schema.Ref, error) {
	path, err := filter.ParseAttribute(name)
	if err != nil {
		return schema.Ref{}, scimerror.Bad(scimerror.InvalidValue, "%s: %s is not an attribute's name", parameter, scimerror.Quote(name))
	}
	ref, ok := path.Resolve(t)
	if !ok {
		return schema.Ref{}, errUnknown{scimerror.Bad(scimerror.InvalidValue, "%s: %s is not an attribute of %s", parameter, scimerror.Quote(name), t.Name)}
	}
	return ref, nil
}

// errUnknown says that a type has no such attribute; another type of the same list may have it.
type errUnknown struct{ cause *scimerror.Error }

func (e errUnknown) Error() string { return e.cause.Error() }
func (e errUnknown) Unwrap() error { return e.cause }

// projection reads which attributes are wanted; nil for what is returned by default. In a list of
// several types each shows those of the attributes that it has.
func (l *listRequest) projection(t *schema.ResourceType, several bool) (*schema.Projection, error) {
	if len(l.attributes) > 0 && len(l.excluded) > 0 {
		return nil, scimerror.Bad(scimerror.InvalidValue, "attributes and excludedAttributes exclude each other")
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
			if errors.As(err, &errUnknown{}) && several {
				ref, _ = t.Resolve("", "schemas", "") // which is shown anyway
			} else if err != nil {
				return nil, err
			}
			*list.to = append(*list.to, ref)
		}
	}
	return p, nil
}

// checkProjection refuses what none of the types has.
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

// projection is that of a request about one resource.
func (x *exchange) projection(t *schema.ResourceType) (*schema.Projection, error) {
	l, err := x.query()
	if err != nil {
		return nil, err
	}
	return l.projection(t, false)
}
