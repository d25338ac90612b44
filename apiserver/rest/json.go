package rest

import (
	"encoding/json"
	"io"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quoin-dev/quoin/internal/strictjson"
)

// strictJSON decodes unambiguous JSON only: one value, no duplicate names in an object, bounded
// depth. It encodes without escaping < > &.
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
