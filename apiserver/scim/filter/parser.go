package filter

import (
	"encoding/json"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// Dialect is the deviations from the grammar that are accepted; the zero value accepts none.
type Dialect struct {
	// Unquoted accepts a word without quotes as a string: externalId eq jyoung.
	Unquoted bool
}

// Parse parses a filter in the grammar.
func Parse(s string) (Expression, error) { return Dialect{}.Parse(s) }

// Parse parses a filter. Operators, and, or, not, true, false and null are case-insensitive.
//
// In addition to the grammar of RFC 7644 figure 1 it accepts two unambiguous forms that clients send: a
// comparison after a value filter (emails[type eq "work"].value eq "x"), and not without parentheses. Errors
// are 400 invalidFilter and contain the position.
func (d Dialect) Parse(s string) (Expression, error) {
	p := parser{Dialect: d, lexer: lexer{text: s, errorType: scimerror.InvalidFilter}}
	if err := p.begin("a filter"); err != nil {
		return nil, err
	}
	e, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.pos < len(s) {
		return nil, p.unexpected(p.pos, "and, or, or the end")
	}
	return e, nil
}

// parser is a precedence-climbing (Pratt) parser: expression parses an operand and then the operators of a
// minimum precedence. Every recursion calls enter, which enforces the maximum depth.
type parser struct {
	lexer
	Dialect
	depth, nodes int
}

// begin checks the length and that the source is not empty.
func (p *parser) begin(what string) error {
	if len(p.text) > MaxLength {
		return scimerror.Bad(p.errorType, "%s has at most %d bytes, this one has %d", what, MaxLength, len(p.text))
	}
	if p.space(); p.pos == len(p.text) {
		return p.unexpected(p.pos, what)
	}
	return nil
}

func (p *parser) enter() error {
	if p.depth == MaxDepth {
		return p.errorAt(p.pos, "nested more than %d deep", MaxDepth)
	}
	p.depth++
	return nil
}

func (p *parser) node() error {
	if p.nodes == MaxNodes {
		return p.errorAt(p.pos, "more than %d comparisons and operators", MaxNodes)
	}
	p.nodes++
	return nil
}

// Precedence levels of the logical operators.
const (
	orLevel = iota + 1
	andLevel
	operandLevel
)

func (p *parser) expression(level int) (Expression, error) {
	left, err := p.operand()
	if err != nil {
		return nil, err
	}
	for {
		p.space()
		switch {
		case level <= andLevel && p.keyword("and"):
			right, err := p.right(andLevel)
			if err != nil {
				return nil, err
			}
			left = &And{Left: left, Right: right}
		case level <= orLevel && p.keyword("or"):
			right, err := p.right(orLevel)
			if err != nil {
				return nil, err
			}
			left = &Or{Left: left, Right: right}
		default:
			return left, nil
		}
	}
}

// right parses the right operand of an operator of a level. Operators are left-associative.
func (p *parser) right(level int) (Expression, error) {
	if err := p.node(); err != nil {
		return nil, err
	}
	return p.expression(level + 1)
}

func (p *parser) operand() (Expression, error) {
	p.space()
	if p.peek() == '(' {
		if err := p.enter(); err != nil {
			return nil, err
		}
		defer func() { p.depth-- }()
		return p.group()
	}
	if !p.keyword("not") {
		return p.attribute()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	if err := p.node(); err != nil {
		return nil, err
	}
	operand, err := p.operandOfNot()
	if err != nil {
		return nil, err
	}
	return &Not{Operand: operand}, nil
}

// operandOfNot parses the operand of not. Its parentheses do not count as a level of nesting, so that both
// forms, with and without them, have the same depth.
func (p *parser) operandOfNot() (Expression, error) {
	if p.space(); p.peek() == '(' {
		return p.group()
	}
	return p.operand()
}

// group parses an expression in parentheses.
func (p *parser) group() (Expression, error) {
	p.pos++
	e, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if p.space(); !p.take(')') {
		return nil, p.unexpected(p.pos, "and, or, or )")
	}
	return e, nil
}

// attribute parses a path with its operator and value.
func (p *parser) attribute() (Expression, error) {
	if err := p.node(); err != nil {
		return nil, err
	}
	if reserved(p.word()) {
		return nil, p.unexpected(p.pos, "an attribute, not, or (")
	}
	path, err := p.path("an attribute, not, or (")
	if err != nil {
		return nil, err
	}
	p.space()
	at, word := p.pos, p.word()
	if operator, ok := operatorOf(word); ok {
		p.pos += len(word)
		value, err := p.literal()
		if err != nil {
			return nil, err
		}
		return &Comparison{Path: path, Operator: operator, Value: value, At: at}, nil
	}
	if p.keyword("pr") {
		return &Present{Path: path}, nil
	}
	if path.Filter != nil && path.Sub == "" && (word == "" || reserved(word)) {
		return &ValuePath{Path: path}, nil
	}
	return nil, p.unexpected(at, "an operator: eq, ne, co, sw, ew, gt, ge, lt, le or pr")
}

// reserved reports whether a word is neither an attribute nor a value.
func reserved(word string) bool {
	return strings.EqualFold(word, "and") || strings.EqualFold(word, "or") || strings.EqualFold(word, "not")
}

// operators in the order of RFC 7644 table 3.
var operators = [...]Operator{Equal, NotEqual, Contains, StartsWith, EndsWith, GreaterThan, GreaterOrEqual, LessThan, LessOrEqual}

func operatorOf(word string) (Operator, bool) {
	for _, operator := range operators {
		if strings.EqualFold(word, string(operator)) {
			return operator, true
		}
	}
	return "", false
}

const valueWanted = `a value: "text" in quotes, a number, true, false or null`

// literal parses the value of a comparison.
func (p *parser) literal() (any, error) {
	p.space()
	if p.peek() == '"' {
		return p.quoted()
	}
	word := p.word()
	if word == "" || reserved(word) || strings.ContainsAny(word, "$/#%~") {
		return nil, p.unexpected(p.pos, valueWanted)
	}
	p.pos += len(word)
	switch {
	case strings.EqualFold(word, "true"):
		return true, nil
	case strings.EqualFold(word, "false"):
		return false, nil
	case strings.EqualFold(word, "null"):
		return nil, nil
	case isNumber(word):
		return json.Number(word), nil
	case !p.Unquoted:
		return nil, p.unexpected(p.pos-len(word), valueWanted)
	}
	return word, nil
}

func isNumber(word string) bool {
	return (word[0] == '-' || '0' <= word[0] && word[0] <= '9') && json.Valid([]byte(word))
}
