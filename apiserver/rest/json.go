package rest

import (
	"encoding/json"
	"io"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quoin-dev/quoin/internal/strictjson"
)

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
			if _, err := strictjson.Decode(data, strictjson.Options{}); err != nil {
				return err
			}
		}
		return json.Unmarshal(data, v)
	},
}

// schemaName names a type in the document.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if name == "" {
		return "" // a type without a name is written where it is used
	}
	return strings.ToUpper(name[:1]) + name[1:]
}
