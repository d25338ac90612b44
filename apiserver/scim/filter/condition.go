package filter

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/internal/fold"
)

// kind is the type of values of a condition.
type kind uint8

const (
	anyValue kind = iota // pr, ne null
	noValue              // eq null
	text
	number
	boolean
	dateTime
)

// condition is an operator with a literal for values of one type.
type condition struct {
	kind     kind
	operator Operator
	// exact means that strings are compared without case folding. Otherwise text is case-folded.
	exact bool
	text  string
	// integer is the exact value of number if whole is set.
	number  float64
	integer int64
	whole   bool
	boolean bool
	time    time.Time
}

// newCondition returns the condition of a comparison, or an error if operator or literal do not fit the
// type of the attribute.
func newCondition(ref schema.Ref, e *Comparison) (condition, error) {
	c := condition{operator: e.Operator}
	a := ref.Leaf()
	if a == nil || a.Type == schema.Complex {
		return c, invalidAt(e.At, "%s has sub-attributes: it is not compared by %s", ref, e.Operator)
	}
	misfit := e.Operator.orders() && (a.Type == schema.Boolean || a.Type == schema.Binary) ||
		e.Operator.searches() && (a.Type == schema.Boolean || a.Type == schema.Integer || a.Type == schema.Decimal)
	if misfit {
		return c, invalidAt(e.At, "%s is of type %s: it is not compared by %s", ref, a.Type, e.Operator)
	}
	var want string
	switch a.Type {
	case schema.Boolean:
		want = c.setBoolean(e.Value)
	case schema.Integer, schema.Decimal:
		want = c.setNumber(e.Value)
	case schema.DateTime:
		want = c.setDateTime(e.Value)
	default:
		want = c.setText(e.Value, a.CaseExact || a.Type == schema.Binary)
	}
	if want != "" {
		return c, invalidAt(e.At, "%s is of type %s: it is compared with %s", ref, a.Type, want)
	}
	return c, nil
}

// The following methods set a literal of their type, or return a description of the expected literal.

// setBoolean accepts strings too: Entra ID sends roles[primary eq "True"].
func (c *condition) setBoolean(literal any) string {
	c.kind = boolean
	switch literal := literal.(type) {
	case bool:
		c.boolean = literal
		return ""
	case string:
		c.boolean = strings.EqualFold(literal, "true")
		if c.boolean || strings.EqualFold(literal, "false") {
			return ""
		}
	}
	return "true or false"
}

func (c *condition) setNumber(literal any) string {
	const want = "a number that is not too large"
	c.kind = number
	n, ok := literal.(json.Number)
	if !ok {
		return want
	}
	var err error
	if c.number, err = n.Float64(); err != nil {
		return want
	}
	c.integer, err = strconv.ParseInt(n.String(), 10, 64)
	c.whole = err == nil
	return ""
}

func (c *condition) setDateTime(literal any) string {
	s, ok := literal.(string)
	if ok && c.operator.searches() {
		return c.setText(s, false)
	}
	var err error
	if c.time, err = schema.ParseDateTime(s); !ok || err != nil {
		return `a time such as "2026-01-31T12:00:00Z"`
	}
	c.kind = dateTime
	return ""
}

func (c *condition) setText(literal any, exact bool) string {
	s, ok := literal.(string)
	if !ok {
		return `a text in quotes: "..."`
	}
	c.kind, c.exact, c.text = text, exact, s
	if !exact {
		c.text = fold.Case(s)
	}
	return ""
}

// holds reports whether a value satisfies the condition. A value of a type other than that of the attribute
// is not equal to any literal.
func (c *condition) holds(value any) bool {
	switch c.kind {
	case anyValue:
		return true
	case text:
		if s, ok := value.(string); ok {
			return c.holdsText(s)
		}
	case number:
		switch value := value.(type) {
		case int64:
			if c.whole {
				return c.operator.holds(cmp.Compare(value, c.integer))
			}
			return c.operator.holds(cmp.Compare(float64(value), c.number))
		case float64:
			return c.operator.holds(cmp.Compare(value, c.number))
		}
	case boolean:
		if b, ok := value.(bool); ok {
			return (b == c.boolean) == (c.operator == Equal)
		}
	case dateTime:
		s, _ := value.(string)
		if t, err := schema.ParseDateTime(s); err == nil {
			return c.operator.holds(t.Compare(c.time))
		}
	}
	return c.kind != noValue && c.operator == NotEqual
}

func (c *condition) holdsText(s string) bool {
	if !c.exact {
		if c.operator == Equal || c.operator == NotEqual {
			// Equivalent to comparing the folded strings, without an allocation.
			return strings.EqualFold(s, c.text) == (c.operator == Equal)
		}
		s = fold.Case(s)
	}
	if c.operator.searches() {
		return c.operator.search(s, c.text)
	}
	return c.operator.holds(cmp.Compare(s, c.text))
}
