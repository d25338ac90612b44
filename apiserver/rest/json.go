package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// maxDepth bounds the nesting of a body.
const maxDepth = 32

// strictJSON reads JSON that means one thing: one value, no name twice in an object, bounded
// depth. What it writes leaves < > & as they are.
var strictJSON = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(v)
	},
	Unmarshal: func(data []byte, v any) error {
		if _, isSchemaless := v.(*any); isSchemaless {
			if err := checkJSON(data); err != nil {
				return err
			}
		}
		return json.Unmarshal(data, v)
	},
}

// checkJSON reads a body token by token. Its work and its memory are bounded by the body's length
// and maxDepth.
func checkJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var names []map[string]bool // of the objects that are open; nil for arrays
	var path []string
	expectName := false
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return errors.New("not JSON: it ends too early")
		}
		if err != nil {
			return fmt.Errorf("not JSON: %w", err)
		}
		inObject := len(names) > 0 && names[len(names)-1] != nil
		if name, ok := token.(string); ok && inObject && expectName {
			open := names[len(names)-1]
			if open[name] {
				return fmt.Errorf("%s: the name is there twice", clip(strings.Join(append(path, name), ".")))
			}
			open[name] = true
			path, expectName = append(path, name), false
			continue
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if len(names) == maxDepth {
				return fmt.Errorf("nested more than %d deep", maxDepth)
			}
			var open map[string]bool
			if token == json.Delim('{') {
				open = map[string]bool{}
			}
			names = append(names, open)
			expectName = open != nil
			continue
		case json.Delim('}'), json.Delim(']'):
			names = names[:len(names)-1]
		}
		// A value has ended.
		if len(names) == 0 {
			if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
				return errors.New("something follows the JSON value")
			}
			return nil
		}
		if expectName = names[len(names)-1] != nil; expectName {
			path = path[:len(path)-1]
		}
	}
}

// schemaName names a type in the document.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if name == "" {
		return "" // a type without a name is written where it is used
	}
	return strings.ToUpper(name[:1]) + name[1:]
}
