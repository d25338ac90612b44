package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quoin-dev/quoin/internal/strictjson"
)

// strictJSON decodes unambiguous JSON only: one value, no duplicate names in an object, bounded
// depth. An integer may have a fraction of zeros or an exponent. It encodes without escaping < > &.
//
// The library decodes a body twice: into a value without a type, which it validates, and then into
// the type of the handler. Errors are shown to callers.
var strictJSON = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		if body, ok := v.(Streamed); ok {
			return stream(w, body)
		}
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(v)
	},
	Unmarshal: func(data []byte, v any) error {
		untyped, isUntyped := v.(*any)
		if !isUntyped {
			return typeError(json.Unmarshal(withPlainIntegers(data), v))
		}
		value, err := strictjson.Decode(data, strictjson.Options{})
		if err == nil {
			*untyped, err = withFloats(value, bodyLocation)
		}
		return err
	},
}

// ExactObject is a JSON object whose numbers keep their digits, as json.Number: a float64 would be another number than an integer above
// 2^53.
type ExactObject map[string]any

// UnmarshalJSON implements json.Unmarshaler.
func (o *ExactObject) UnmarshalJSON(data []byte) error {
	return decodeExact(data, (*map[string]any)(o))
}

// Exact is any JSON value, nil if it is null or absent. Its numbers are of type json.Number.
type Exact struct{ Value any }

// UnmarshalJSON implements json.Unmarshaler.
func (e *Exact) UnmarshalJSON(data []byte) error { return decodeExact(data, &e.Value) }

func decodeExact(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// Schema implements huma.SchemaProvider.
func (Exact) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }

// bodyLocation is the location of the body. Errors of fields begin with it.
const bodyLocation = "body"

// withFloats returns a JSON value whose numbers are of type float64, as the library expects them.
func withFloats(value any, at string) (any, error) {
	var err error
	switch v := value.(type) {
	case json.Number:
		number, err := v.Float64()
		if err != nil {
			return nil, fmt.Errorf("%s: the number is out of range; allowed: numbers of double precision", at)
		}
		return number, nil
	case map[string]any:
		for name, item := range v {
			if v[name], err = withFloats(item, at+"."+Clip(name)); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, item := range v {
			if v[i], err = withFloats(item, at+"["+strconv.Itoa(i)+"]"); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// typeError returns the error, for callers, of decoding valid JSON into the type of a handler.
func typeError(err error) error {
	var mismatch *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &mismatch):
		return errors.New("a value does not have the documented format")
	case !strings.HasPrefix(mismatch.Value, "number"):
		return fmt.Errorf("%s.%s: a %s is not the documented type", bodyLocation, mismatch.Field, mismatch.Value)
	}
	allowed := "numbers of the documented type"
	if kind := mismatch.Type.Kind(); kind >= reflect.Int && kind <= reflect.Int64 {
		most := int64(1)<<(mismatch.Type.Bits()-1) - 1
		allowed = fmt.Sprintf("integers from %d to %d", -most-1, most)
	}
	return fmt.Errorf("%s.%s: the number is out of range; allowed: %s", bodyLocation, strings.TrimPrefix(mismatch.Field, "."), allowed)
}

// withPlainIntegers returns JSON in which integers up to 64 bits are written without fraction and
// exponent: 60 for 60.0 and 6e1, which package encoding/json does not decode into an integer. data
// must be valid JSON.
func withPlainIntegers(data []byte) []byte {
	var out []byte // nil until a number is replaced
	copied := 0
	for i := 0; i < len(data); {
		switch c := data[i]; {
		case c == '"':
			i = endOfString(data, i)
		case c == '-' || c >= '0' && c <= '9':
			end := endOfNumber(data, i)
			if plain, ok := plainInteger(string(data[i:end])); ok {
				out = append(append(out, data[copied:i]...), plain...)
				copied = end
			}
			i = end
		default:
			i++
		}
	}
	if copied == 0 {
		return data
	}
	return append(out, data[copied:]...)
}

// endOfString returns the index after the string that begins at an index.
func endOfString(data []byte, i int) int {
	for i++; i < len(data) && data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// endOfNumber returns the index after the number that begins at an index.
func endOfNumber(data []byte, i int) int {
	for i < len(data) && strings.IndexByte("+-.0123456789Ee", data[i]) >= 0 {
		i++
	}
	return i
}

// maxIntegerDigits is the number of digits of the largest integer of 64 bits.
const maxIntegerDigits = 19

// plainInteger returns a JSON number that has a fraction or an exponent as a plain integer; false if
// it has neither, is not an integer, or has more digits than an integer of 64 bits.
func plainInteger(number string) (string, bool) {
	if !strings.ContainsAny(number, ".eE") {
		return "", false
	}
	sign := ""
	if rest, negative := strings.CutPrefix(number, "-"); negative {
		sign, number = "-", rest
	}
	mantissa, exponentText, _ := strings.Cut(strings.ToLower(number), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	var exponent int
	if exponentText != "" {
		parsed, err := strconv.ParseInt(exponentText, 10, 32) // more bits could overflow below
		if err != nil {
			return "", false
		}
		exponent = int(parsed)
	}
	fraction = strings.TrimRight(fraction, "0")
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	if digits == "" {
		return "0", true
	}
	switch {
	case exponent >= 0 && len(digits)+exponent <= maxIntegerDigits:
		return sign + digits + strings.Repeat("0", exponent), true
	case exponent < 0 && -exponent < len(digits) && strings.Trim(digits[len(digits)+exponent:], "0") == "":
		return sign + digits[:len(digits)+exponent], true
	}
	return "", false
}
