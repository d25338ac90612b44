package workspace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/quoin-dev/quoin/internal/content"
)

// MaxObject is the maximum size of an opaque JSON object in bytes, in canonical form.
const MaxObject = 1 << 20

// Object is a JSON object whose numbers are json.Number.
type Object = map[string]any

// encode returns an object in canonical form: the names in order, without white space. Equal objects
// have the same form.
func encode(field string, o Object) (string, error) {
	if o == nil {
		o = Object{}
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(o); err != nil {
		return "", fmt.Errorf("encode %s: %w", field, err)
	}
	if text.Len()-1 > MaxObject {
		return "", content.Errorf(content.Invalid, "%s: it has %d bytes; allowed: %d", field, text.Len()-1, MaxObject)
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}

// Decode returns a JSON object.
func Decode(text []byte) (Object, error) {
	o := Object{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err := decoder.Decode(&o)
	return o, err
}

// merged returns an object with the properties of another one in addition. A property that is null in
// the other one is left out.
func merged(o, with Object) Object {
	out := Object{}
	maps.Copy(out, o)
	for name, value := range with {
		if value == nil {
			delete(out, name)
		} else {
			out[name] = value
		}
	}
	return out
}
