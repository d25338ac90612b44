package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// List is a list that is read in pages by keyset: the position of a page is the key of its last
// or first item, so a page costs the same anywhere in the list, and rows that come or go between
// two pages are neither repeated nor cause others to be left out.
type List[T any] struct {
	// With is the beginning of the statements: common table expressions, whose parameters Args begin with; nothing if empty.
	With string
	// Columns are selected and scanned.
	Columns string
	// From has the tables and the conditions: "folder WHERE account_uid = $1 AND parent_id = $2".
	From string
	Args []any
	// Order has the columns of the key, which order the list totally. An index should begin with
	// the columns of the conditions and end with these. None is NULL.
	Order      []string
	Descending bool
	// Scan reads a row.
	Scan func(row *sql.Rows, item *T) error
	// Key returns an item's values of Order.
	Key func(item *T) []any
}

// PageRequest selects a page. At most one of After and Before is set.
type PageRequest struct {
	// After and Before are keys; the item of a key may be deleted.
	After, Before []any
	// Limit is the maximum number of items, at least 1.
	Limit int
}

// Page is a page of a list, always in the order of the list.
type Page[T any] struct {
	Items                []T
	HasNext, HasPrevious bool
	// First and Last are the keys of the first and the last item; nil without items.
	First, Last []any
}

// Read reads a page.
func (l List[T]) Read(ctx context.Context, q Querier, r PageRequest) (Page[T], error) {
	p, err := l.read(ctx, q, r)
	if err != nil {
		return p, fmt.Errorf("read a page: %w", err)
	}
	if len(p.Items) > 0 {
		p.First, p.Last = l.Key(&p.Items[0]), l.Key(&p.Items[len(p.Items)-1])
	}
	return p, nil
}

func (l List[T]) read(ctx context.Context, q Querier, r PageRequest) (p Page[T], err error) {
	backward := r.Before != nil
	from, key := l.From, r.After
	if backward {
		key = r.Before
	}
	args := slices.Clone(l.Args)
	if key != nil {
		from += " AND " + l.compare(backward, "")
		args = append(args, key...)
	}
	args = append(args, r.Limit+1)
	query := fmt.Sprintf("%sSELECT %s FROM %s ORDER BY %s LIMIT $%d", l.With, l.Columns, from, l.orderBy(backward), len(args))
	p.Items, err = l.query(ctx, q, query, args)
	if err != nil {
		return p, err
	}
	more := len(p.Items) > r.Limit
	if more {
		p.Items = p.Items[:r.Limit]
	}
	beside := false
	if key != nil {
		if beside, err = l.beside(ctx, q, key, backward); err != nil {
			return p, err
		}
	}
	p.HasNext, p.HasPrevious = more, beside
	if backward {
		slices.Reverse(p.Items)
		p.HasNext, p.HasPrevious = beside, more
	}
	return p, nil
}

func (l List[T]) query(ctx context.Context, q Querier, query string, args []any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	items := []T{}
	for rows.Next() {
		var item T
		if err := l.Scan(rows, &item); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, rows.Err()
}

// beside reports whether the list has items on the other side of a key, its own included.
func (l List[T]) beside(ctx context.Context, q Querier, key []any, backward bool) (exists bool, err error) {
	query := l.With + "SELECT EXISTS (SELECT 1 FROM " + l.From + " AND " + l.compare(!backward, "=") + ")"
	err = q.QueryRowContext(ctx, query, append(slices.Clone(l.Args), key...)...).Scan(&exists)
	return exists, err
}

// compare returns the condition for the items after a key, or before it.
func (l List[T]) compare(before bool, orEqual string) string {
	parameters := make([]string, len(l.Order))
	for i := range parameters {
		parameters[i] = fmt.Sprintf("$%d", len(l.Args)+i+1)
	}
	operator := ">"
	if l.Descending != before {
		operator = "<"
	}
	return "(" + strings.Join(l.Order, ", ") + ") " + operator + orEqual + " (" + strings.Join(parameters, ", ") + ")"
}

func (l List[T]) orderBy(backward bool) string {
	direction := " ASC"
	if l.Descending != backward {
		direction = " DESC"
	}
	return strings.Join(l.Order, direction+", ") + direction
}
