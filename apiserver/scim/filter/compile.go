package filter

import (
	"net/http"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// Predicate is a filter compiled against a resource type. It is safe for concurrent use. A nil Predicate
// matches all resources.
type Predicate struct {
	expression Expression
	root       node
}

// Compile resolves the paths of a filter against a resource type and checks operators and values against
// the types of the attributes. Errors are 400 invalidFilter, and 403 sensitive for an attribute that is
// never returned, because a filter would disclose its value.
func Compile(e Expression, t *schema.ResourceType) (*Predicate, error) {
	root, err := (&compiler{resourceType: t}).node(e)
	if err != nil {
		return nil, err
	}
	return &Predicate{expression: e, root: root}, nil
}

// String returns the filter in canonical form.
func (p *Predicate) String() string {
	if p == nil {
		return ""
	}
	return p.expression.String()
}

// ElementPredicate is the filter in the brackets of a path, compiled against the attribute before them. It
// is safe for concurrent use.
type ElementPredicate struct{ root node }

// CompileElement compiles the filter in the brackets of a path (Path.Filter) against the attribute before
// them. It returns the same errors as Compile.
func CompileElement(e Expression, a *schema.Attribute) (*ElementPredicate, error) {
	if a.Type != schema.Complex {
		return nil, scimerror.Bad(scimerror.InvalidFilter, "%s has no sub-attributes to filter by", a.Name)
	}
	root, err := (&compiler{outer: schema.Ref{Attribute: a}}).node(e)
	if err != nil {
		return nil, err
	}
	return &ElementPredicate{root: root}, nil
}

// compiler converts expressions to nodes. Without a resource type it compiles a filter in brackets, whose
// paths are sub-attributes of outer.
type compiler struct {
	resourceType *schema.ResourceType
	outer        schema.Ref
}

func (c *compiler) node(e Expression) (node, error) {
	switch e := e.(type) {
	case *And:
		left, right, err := c.sides(e.Left, e.Right)
		return &and{left, right}, err
	case *Or:
		left, right, err := c.sides(e.Left, e.Right)
		return &or{left, right}, err
	case *Not:
		operand, err := c.node(e.Operand)
		return &not{operand}, err
	case *Comparison:
		return c.comparison(e)
	case *Present:
		return c.present(e.Path)
	case *ValuePath:
		return c.present(e.Path)
	}
	return nil, scimerror.Bad(scimerror.InvalidFilter, "the filter is empty")
}

func (c *compiler) sides(left, right Expression) (node, node, error) {
	l, err := c.node(left)
	if err != nil {
		return nil, nil, err
	}
	r, err := c.node(right)
	return l, r, err
}

// present returns a node that matches any value. A value path matches any element that the filter in
// brackets selects.
func (c *compiler) present(p Path) (node, error) {
	l, err := c.leaf(p)
	if err != nil {
		return nil, err
	}
	l.condition.kind = anyValue
	return l.withKey(), nil
}

func (c *compiler) comparison(e *Comparison) (node, error) {
	l, err := c.leaf(e.Path)
	if err != nil {
		return nil, err
	}
	if e.Value == nil {
		return l.compareNull(e)
	}
	if l.ref.Attribute != nil && l.ref.Sub == nil && l.ref.Attribute.Type == schema.Complex && !e.Operator.orders() {
		// A complex attribute is compared by its "value" (RFC 7644 section 3.4.2.2).
		l.ref.Sub = l.ref.Attribute.Value()
		if err := notSensitive(l.ref, e.Path.At); err != nil {
			return nil, err
		}
	}
	if l.condition, err = newCondition(l.ref, e); err != nil {
		return nil, err
	}
	l.absent = e.Operator == NotEqual
	// RFC 7643 section 2.4: primary is false by default.
	sub := l.ref.Sub
	l.assumeFalse = sub != nil && l.ref.Attribute.MultiValued && sub.Type == schema.Boolean && sub.Name == "primary"
	return l.withKey(), nil
}

func (l *leaf) compareNull(e *Comparison) (node, error) {
	switch e.Operator {
	case Equal:
		l.condition.kind, l.absent = noValue, true
	case NotEqual:
		l.condition.kind = anyValue
	default:
		return nil, invalidAt(e.At, "null is compared with eq and ne only")
	}
	return l.withKey(), nil
}

// leaf resolves a path to a leaf without a condition.
func (c *compiler) leaf(p Path) (*leaf, error) {
	ref, err := c.resolve(p)
	if err != nil {
		return nil, err
	}
	if err := notSensitive(ref, p.At); err != nil {
		return nil, err
	}
	if isURL(ref) {
		return nil, invalidAt(p.At, "%s is a URL of this service: it cannot be used in a filter; use the id of the resource", ref)
	}
	l := &leaf{ref: ref, inside: c.resourceType == nil}
	if p.Filter == nil {
		return l, nil
	}
	if ref.Attribute.Type != schema.Complex {
		return nil, invalidAt(p.At, "%s has no sub-attributes to filter by", scimerror.Quote(p.Name))
	}
	l.filter, err = (&compiler{outer: schema.Ref{Extension: ref.Extension, Attribute: ref.Attribute}}).node(p.Filter)
	return l, err
}

// inExtension resolves an attribute without a URN that exactly one extension has: Entra ID sends
// manager eq "…".
func (c *compiler) inExtension(p Path) (found schema.Ref, ok bool) {
	if p.URN != "" {
		return found, false
	}
	for _, e := range c.resourceType.Extensions {
		p.URN = e.Schema.ID
		if ref, resolved := p.Resolve(c.resourceType); resolved {
			if ok {
				return schema.Ref{}, false
			}
			found, ok = ref, true
		}
	}
	return found, ok
}

func (c *compiler) resolve(p Path) (schema.Ref, error) {
	if c.resourceType != nil {
		ref, ok := p.Resolve(c.resourceType)
		if !ok {
			ref, ok = c.inExtension(p)
		}
		if !ok {
			p.Filter = nil // not part of the error: the filter in brackets may be long
			return schema.Ref{}, invalidAt(p.At, "%s is not an attribute of %s", scimerror.Quote(p.String()), c.resourceType.Name)
		}
		return ref, nil
	}
	ref := c.outer
	if p.URN == "" && p.Sub == "" && p.Filter == nil {
		ref.Sub = ref.Attribute.Sub(p.Name)
	}
	if ref.Sub == nil {
		p.Filter = nil
		return schema.Ref{}, invalidAt(p.At, "%s is not a sub-attribute of %s", scimerror.Quote(p.String()), ref.Attribute.Name)
	}
	return ref, nil
}

// notSensitive returns an error for an attribute that is never returned: comparisons would disclose its
// value.
func notSensitive(ref schema.Ref, at int) error {
	if !isSensitive(ref) {
		return nil
	}
	err := scimerror.New(http.StatusForbidden, "at position %d: %s cannot be used in a filter", at+1, ref)
	err.Type = scimerror.Sensitive
	return err
}

func isSensitive(ref schema.Ref) bool {
	never := func(a *schema.Attribute) bool { return a != nil && (a.Hidden || a.Returned == schema.Never) }
	return never(ref.Attribute) || never(ref.Sub)
}

// isURL reports whether an attribute is the URL of a resource. It is derived from the id and the address that the client uses when a
// response is written, so that filters and sorting do not have its value.
func isURL(ref schema.Ref) bool {
	if ref.Sub == nil {
		return false
	}
	return ref.Sub.Name == "$ref" || ref.Extension == "" && ref.Attribute.Name == "meta" && ref.Sub.Name == "location"
}

func invalidAt(at int, format string, args ...any) error {
	return scimerror.Bad(scimerror.InvalidFilter, "at position %d: "+format, append([]any{at + 1}, args...)...)
}

// orders reports whether the operator requires ordered values.
func (o Operator) orders() bool {
	return o == GreaterThan || o == GreaterOrEqual || o == LessThan || o == LessOrEqual
}

// searches reports whether the operator searches in a string.
func (o Operator) searches() bool {
	return o == Contains || o == StartsWith || o == EndsWith
}

// holds reports whether the operator is satisfied by the result of comparing a value to the literal.
func (o Operator) holds(sign int) bool {
	switch o {
	case Equal:
		return sign == 0
	case NotEqual:
		return sign != 0
	case GreaterThan:
		return sign > 0
	case GreaterOrEqual:
		return sign >= 0
	case LessThan:
		return sign < 0
	case LessOrEqual:
		return sign <= 0
	}
	return false
}

// search reports whether the operator is satisfied by a string and the literal.
func (o Operator) search(s, text string) bool {
	switch o {
	case Contains:
		return strings.Contains(s, text)
	case StartsWith:
		return strings.HasPrefix(s, text)
	case EndsWith:
		return strings.HasSuffix(s, text)
	}
	return false
}
