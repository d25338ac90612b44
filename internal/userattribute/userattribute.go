// Package userattribute reads, checks and resolves the values of user attributes: from JSON and text of the REST
// API, as they are in objects, and to the security context of tokens.
package userattribute

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Limits of attributes and values. Those of single values repeat the schema of the CRDs.
const (
	// MaxPerAccount is the number of attributes of an account.
	MaxPerAccount = 64
	// MaxBytes is the size of all values of a user as JSON. A token has them, and must fit into a header.
	MaxBytes = 4 << 10

	maxString = 512
	maxItem   = 128
	maxItems  = 256
)

// Types are the types of attributes.
var Types = []v1alpha1.UserAttributeType{
	v1alpha1.UserAttributeString, v1alpha1.UserAttributeNumber, v1alpha1.UserAttributeBoolean,
	v1alpha1.UserAttributeStringArray, v1alpha1.UserAttributeNumberArray,
}

// ObjectName returns the name of the object of an attribute, which the schema demands.
func ObjectName(name v1alpha1.UserAttributeName) string {
	return strings.ReplaceAll(strings.ToLower(string(name)), "_", "-")
}

// InEffect returns the attributes of an account that are in effect: the first MaxPerAccount that were created, without those
// that are being deleted, by name. all is not modified.
func InEffect(all []*v1alpha1.UserAttribute) []*v1alpha1.UserAttribute {
	alive := make([]*v1alpha1.UserAttribute, 0, len(all))
	for _, a := range all {
		if a.DeletionTimestamp.IsZero() {
			alive = append(alive, a)
		}
	}
	slices.SortFunc(alive, func(x, y *v1alpha1.UserAttribute) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), strings.Compare(x.Name, y.Name))
	})
	alive = alive[:min(len(alive), MaxPerAccount)]
	slices.SortFunc(alive, func(x, y *v1alpha1.UserAttribute) int { return strings.Compare(x.Name, y.Name) })
	return alive
}

// Find returns the attribute with a name, nil if there is none.
func Find(all []*v1alpha1.UserAttribute, name v1alpha1.UserAttributeName) *v1alpha1.UserAttribute {
	i := slices.IndexFunc(all, func(a *v1alpha1.UserAttribute) bool { return a.Spec.Name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}

// TypeOf returns the type that a value has; empty if it has none.
func TypeOf(c *v1alpha1.UserAttributeContent) v1alpha1.UserAttributeType {
	switch {
	case c.String != nil:
		return v1alpha1.UserAttributeString
	case c.Number != nil:
		return v1alpha1.UserAttributeNumber
	case c.Boolean != nil:
		return v1alpha1.UserAttributeBoolean
	case c.StringArray != nil:
		return v1alpha1.UserAttributeStringArray
	case c.NumberArray != nil:
		return v1alpha1.UserAttributeNumberArray
	}
	return ""
}

// JSON returns a value as it is in tokens and in the REST API: a string, a json.Number, a bool, or a list of these;
// nil if there is none.
func JSON(c *v1alpha1.UserAttributeContent) any {
	switch TypeOf(c) {
	case v1alpha1.UserAttributeString:
		return *c.String
	case v1alpha1.UserAttributeNumber:
		return json.Number(*c.Number)
	case v1alpha1.UserAttributeBoolean:
		return *c.Boolean
	case v1alpha1.UserAttributeStringArray:
		return append([]string{}, *c.StringArray...)
	case v1alpha1.UserAttributeNumberArray:
		numbers := make([]json.Number, len(*c.NumberArray))
		for i, n := range *c.NumberArray {
			numbers[i] = json.Number(n)
		}
		return numbers
	}
	return nil
}

// Text returns a value as text: a string as it is, other values as JSON.
func Text(c *v1alpha1.UserAttributeContent) string {
	if c.String != nil {
		return *c.String
	}
	return inJSON(JSON(c))
}

// Parse converts a value that was decoded from JSON to one of a type. Numbers are json.Number or float64. Errors name
// the value and what is allowed.
func Parse(t v1alpha1.UserAttributeType, value any) (v1alpha1.UserAttributeContent, error) {
	var c v1alpha1.UserAttributeContent
	switch t {
	case v1alpha1.UserAttributeString:
		if text, ok := value.(string); ok {
			return v1alpha1.UserAttributeContent{String: &text}, checkText(text, maxString)
		}
	case v1alpha1.UserAttributeNumber:
		if n, ok := number(value); ok {
			return v1alpha1.UserAttributeContent{Number: &n}, nil
		}
	case v1alpha1.UserAttributeBoolean:
		if b, ok := value.(bool); ok {
			return v1alpha1.UserAttributeContent{Boolean: &b}, nil
		}
	case v1alpha1.UserAttributeStringArray:
		texts, ok, err := items(value, func(item any) (string, bool) { text, ok := item.(string); return text, ok })
		for _, text := range texts {
			if err == nil {
				err = checkText(text, maxItem)
			}
		}
		if ok {
			return v1alpha1.UserAttributeContent{StringArray: &texts}, err
		}
	case v1alpha1.UserAttributeNumberArray:
		if numbers, ok, err := items(value, number); ok {
			return v1alpha1.UserAttributeContent{NumberArray: &numbers}, err
		}
	}
	return c, wrongType(t, inJSON(value))
}

// ParseText converts text to a value of a type: a string as it is, other values as JSON.
func ParseText(t v1alpha1.UserAttributeType, text string) (v1alpha1.UserAttributeContent, error) {
	if t == v1alpha1.UserAttributeString {
		return Parse(t, text)
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil || decoder.More() || strings.TrimSpace(text[decoder.InputOffset():]) != "" {
		return v1alpha1.UserAttributeContent{}, wrongType(t, strconv.Quote(text))
	}
	return Parse(t, value)
}

// Check returns an error unless a value has the type of its attribute.
func Check(a *v1alpha1.UserAttribute, c *v1alpha1.UserAttributeContent) error {
	if TypeOf(c) != a.Spec.Type {
		return wrongType(a.Spec.Type, inJSON(JSON(c)))
	}
	return nil
}

// CheckSize returns an error if the values of a user are larger than MaxBytes.
func CheckSize(values []v1alpha1.UserAttributeValue) error {
	size := 0
	for i := range values {
		size += len(values[i].Name) + len(inJSON(JSON(&values[i].UserAttributeContent)))
	}
	if size > MaxBytes {
		return fmt.Errorf("the values have %d bytes in total; allowed: %d", size, MaxBytes)
	}
	return nil
}

// Resolve returns the attributes of a user by name: the values of the user, and else the defaults. Values without an attribute,
// or of another type, count as absent. attributes are those in effect.
func Resolve(attributes []*v1alpha1.UserAttribute, values []v1alpha1.UserAttributeValue) map[string]any {
	resolved := make(map[string]any, len(attributes))
	for _, a := range attributes {
		if a.Spec.DefaultValue != nil {
			resolved[string(a.Spec.Name)] = JSON(a.Spec.DefaultValue)
		}
	}
	for i := range values {
		a := Find(attributes, values[i].Name)
		if a != nil && Check(a, &values[i].UserAttributeContent) == nil {
			resolved[string(a.Spec.Name)] = JSON(&values[i].UserAttributeContent)
		}
	}
	return resolved
}

// number converts a number that was decoded from JSON.
func number(value any) (v1alpha1.Number, bool) {
	switch value := value.(type) {
	case json.Number:
		return fromText(value.String())
	case float64:
		return fromText(strconv.FormatFloat(value, 'f', -1, 64))
	}
	return "", false
}

// maxNumber is the exclusive bound of numbers, and maxDecimals the most digits after the point, as in the schema. maxText bounds the
// text of a number in JSON, which may have zeros that do not count, and maxExponent its exponent.
const (
	maxNumber   = 1e18
	maxDecimals = 20
	maxText     = 128
	maxExponent = 64
)

// fromText returns a number in JSON in the notation of v1alpha1.Number, which is the same for equal numbers. No digit is lost.
func fromText(text string) (v1alpha1.Number, bool) {
	mantissa, exponent, found := strings.Cut(strings.ToLower(text), "e")
	if e, err := strconv.Atoi(exponent); len(text) > maxText || found && (err != nil || max(e, -e) > maxExponent) {
		return zero(mantissa)
	}
	n, ok := new(big.Rat).SetString(text)
	if !ok || new(big.Rat).Abs(n).Cmp(new(big.Rat).SetFloat64(maxNumber)) >= 0 {
		return "", false
	}
	exact := n.FloatString(maxDecimals)
	if again, ok := new(big.Rat).SetString(exact); !ok || again.Cmp(n) != 0 {
		return "", false
	}
	return v1alpha1.Number(strings.TrimSuffix(strings.TrimRight(exact, "0"), ".")), true
}

// zero returns the number of a mantissa that is zero, whatever its exponent is.
func zero(mantissa string) (v1alpha1.Number, bool) {
	return "0", strings.Trim(mantissa, "-0.") == ""
}

// items converts a list; ok is false if value is not a list or an item is of another type.
func items[T any](value any, convert func(any) (T, bool)) (converted []T, ok bool, err error) {
	list, ok := value.([]any)
	if !ok {
		return nil, false, nil
	}
	if len(list) > maxItems {
		return nil, true, fmt.Errorf("a list of %d items; allowed: at most %d", len(list), maxItems)
	}
	converted = make([]T, 0, len(list))
	for _, item := range list {
		one, ok := convert(item)
		if !ok {
			return nil, false, nil
		}
		converted = append(converted, one)
	}
	return converted, true, nil
}

func checkText(text string, most int) error {
	if n := utf8.RuneCountInString(text); n > most {
		return fmt.Errorf("%s has %d characters; allowed: at most %d", clip(strconv.Quote(text)), n, most)
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s is not valid UTF-8", clip(strconv.Quote(text)))
	}
	return nil
}

// kinds describe the values of the types.
var kinds = map[v1alpha1.UserAttributeType]string{
	v1alpha1.UserAttributeString:      "a string",
	v1alpha1.UserAttributeNumber:      "a number below 10^18 with at most 20 decimals",
	v1alpha1.UserAttributeBoolean:     "true or false",
	v1alpha1.UserAttributeStringArray: "a list of strings",
	v1alpha1.UserAttributeNumberArray: "a list of numbers below 10^18 with at most 20 decimals",
}

func wrongType(t v1alpha1.UserAttributeType, given string) error {
	return fmt.Errorf("%s is not of the type %s of the attribute; allowed: %s", clip(given), t, kinds[t])
}

func inJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// clip shortens a value for an error.
func clip(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	cut := text[:most]
	for !utf8.ValidString(cut) && cut != "" {
		cut = cut[:len(cut)-1]
	}
	return cut + "…"
}
