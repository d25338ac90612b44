// Package filter is the filter language of SCIM (RFC 7644 section 3.4.2.2): parsed within
// budgets, printed, compiled against a resource type, matched, and turned into plans that an
// index can answer. Paths of attributes, those of PATCH included (section 3.5.2), are read here too.
package filter

// Budgets of a filter, checked while it is read: neither time nor memory grows beyond them.
const (
	// MaxLength is in bytes.
	MaxLength = 8 << 10
	// MaxDepth bounds parentheses, not and brackets within each other.
	MaxDepth = 32
	// MaxNodes bounds comparisons and operators.
	MaxNodes = 200
)

// Operator compares an attribute with a value.
type Operator string

// The operators (RFC 7644 table 3). pr is Present, not one of these.
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

// Path is an attribute path, perhaps with a value filter: [URN:]name[.sub] or
// [URN:]name[filter][.sub]. Names are as they were written.
type Path struct {
	URN    string
	Name   string
	Filter Expression // nil without brackets
	Sub    string
	// At is where the path begins in its text, in bytes from 0.
	At int
}

// Expression is a filter, or a part of one: *And, *Or, *Not, *Comparison, *Present or *ValuePath.
// String prints it in the one form that Parse reads back as the same Expression.
type Expression interface {
	String() string
	expression()
}

type (
	// And holds when both sides do.
	And struct{ Left, Right Expression }
	// Or holds when one side does.
	Or struct{ Left, Right Expression }
	// Not holds when its operand does not.
	Not struct{ Operand Expression }
	// Comparison compares an attribute with a literal: a string, json.Number, bool or nil.
	Comparison struct {
		Path     Path
		Operator Operator
		Value    any
		// At is where the operator stands, in bytes from 0.
		At int
	}
	// Present holds when the attribute has a value.
	Present struct{ Path Path }
	// ValuePath holds when one element of an attribute satisfies the filter in its brackets.
	ValuePath struct{ Path Path }
)

func (*And) expression()        {}
func (*Or) expression()         {}
func (*Not) expression()        {}
func (*Comparison) expression() {}
func (*Present) expression()    {}
func (*ValuePath) expression()  {}
