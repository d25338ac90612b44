// Package filter implements the SCIM filter language (RFC 7644 section 3.4.2.2): parsing within limits,
// printing, compiling against a resource type, matching, and index lookups. It also parses attribute
// paths, including those of PATCH (section 3.5.2).
package filter

// Limits of a filter, enforced while parsing. They bound time and memory.
const (
	// MaxLength is the maximum length in bytes.
	MaxLength = 8 << 10
	// MaxDepth is the maximum nesting depth of parentheses, not and brackets.
	MaxDepth = 32
	// MaxNodes is the maximum number of comparisons and operators.
	MaxNodes = 200
)

// Operator compares an attribute with a value.
type Operator string

// Operators (RFC 7644 table 3). The operator pr is represented by Present.
const (
	Equal          Operator = "eq"
	NotEqual       Operator = "ne"
	Contains       Operator = "co"
	StartsWith     Operator = "sw"
	EndsWith       Operator = "ew"
	GreaterThan    Operator = "gt"
	GreaterOrEqual Operator = "ge"
	LessThan       Operator = "lt"
	LessOrEqual    Operator = "le"
)

// Path is an attribute path with an optional value filter: [URN:]name[.sub] or [URN:]name[filter][.sub].
// Names have the spelling of the source.
type Path struct {
	URN    string
	Name   string
	Filter Expression // nil without brackets
	Sub    string
	// At is the offset of the path in the source, in bytes.
	At int
}

// Expression is a filter or a part of one: *And, *Or, *Not, *Comparison, *Present or *ValuePath. String
// prints it in a canonical form, which Parse parses to the same Expression.
type Expression interface {
	String() string
	expression()
}

type (
	// And matches if both sides match.
	And struct{ Left, Right Expression }
	// Or matches if one side matches.
	Or struct{ Left, Right Expression }
	// Not matches if its operand does not.
	Not struct{ Operand Expression }
	// Comparison compares an attribute with a literal: a string, json.Number, bool or nil.
	Comparison struct {
		Path     Path
		Operator Operator
		Value    any
		// At is the offset of the operator in the source, in bytes.
		At int
	}
	// Present matches if the attribute has a value.
	Present struct{ Path Path }
	// ValuePath matches if an element of the attribute matches the filter in brackets.
	ValuePath struct{ Path Path }
)

func (*And) expression()        {}
func (*Or) expression()         {}
func (*Not) expression()        {}
func (*Comparison) expression() {}
func (*Present) expression()    {}
func (*ValuePath) expression()  {}
