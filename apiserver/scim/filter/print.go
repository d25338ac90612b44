package filter

import (
	"encoding/json"
	"strconv"
)

// String implements Expression.
func (e *And) String() string { return string(appendExpression(nil, e, 0)) }

// String implements Expression.
func (e *Or) String() string { return string(appendExpression(nil, e, 0)) }

// String implements Expression.
func (e *Not) String() string { return string(appendExpression(nil, e, 0)) }

// String implements Expression.
func (e *Comparison) String() string { return string(appendExpression(nil, e, 0)) }

// String implements Expression.
func (e *Present) String() string { return string(appendExpression(nil, e, 0)) }

// String implements Expression.
func (e *ValuePath) String() string { return string(appendExpression(nil, e, 0)) }

// String returns the path in a canonical form, which ParsePath parses to the same path.
func (p Path) String() string { return string(appendPath(nil, p)) }

// appendExpression appends an expression, with parentheses if its precedence is below level.
func appendExpression(dst []byte, e Expression, level int) []byte {
	switch e := e.(type) {
	case *And:
		return appendInfix(dst, e.Left, " and ", e.Right, andLevel, level)
	case *Or:
		return appendInfix(dst, e.Left, " or ", e.Right, orLevel, level)
	case *Not:
		dst = append(dst, "not ("...)
		return append(appendExpression(dst, e.Operand, 0), ')')
	case *Comparison:
		dst = append(appendPath(dst, e.Path), ' ')
		dst = append(dst, e.Operator...)
		return appendLiteral(append(dst, ' '), e.Value)
	case *Present:
		return append(appendPath(dst, e.Path), " pr"...)
	case *ValuePath:
		return appendPath(dst, e.Path)
	}
	return dst
}

func appendInfix(dst []byte, left Expression, operator string, right Expression, own, level int) []byte {
	if own < level {
		dst = append(dst, '(')
	}
	dst = appendExpression(dst, left, own)
	dst = append(dst, operator...)
	dst = appendExpression(dst, right, own+1)
	if own < level {
		dst = append(dst, ')')
	}
	return dst
}

func appendPath(dst []byte, p Path) []byte {
	if p.URN != "" {
		dst = append(append(dst, p.URN...), ':')
	}
	dst = append(dst, p.Name...)
	if p.Filter != nil {
		dst = append(appendExpression(append(dst, '['), p.Filter, 0), ']')
	}
	if p.Sub != "" {
		dst = append(append(dst, '.'), p.Sub...)
	}
	return dst
}

func appendLiteral(dst []byte, value any) []byte {
	switch value := value.(type) {
	case string:
		return appendString(dst, value)
	case json.Number:
		return append(dst, value...)
	case bool:
		return strconv.AppendBool(dst, value)
	}
	return append(dst, "null"...)
}

// appendString appends a JSON string with the minimum of escapes.
func appendString(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
