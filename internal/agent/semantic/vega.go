package semantic

import (
	"encoding/json"
	"slices"
)

// maxVega is the maximum length of a chart specification in bytes.
const maxVega = 32 << 10

// refusedVega are keys that a specification must not have: the data are those of the result, and a browser that shows the chart must
// load nothing and follow no link.
var refusedVega = []string{"data", "datasets", "url", "href", "usermeta", "loader"}

// checkVega returns a Vega-Lite specification as a text; "" for none. Models send it as a text or as an object.
func checkVega(in json.RawMessage) (string, error) {
	spec := ""
	if len(in) == 0 || string(in) == "null" {
		return "", nil
	}
	if json.Unmarshal(in, &spec) != nil {
		spec = string(in)
	}
	switch {
	case spec == "":
		return "", nil
	case len(spec) > maxVega:
		return "", badRequest("vegaSpec: %d bytes; allowed: %d", len(spec), maxVega)
	}
	var object map[string]any
	if json.Unmarshal([]byte(spec), &object) != nil || object == nil {
		return "", badRequest("vegaSpec: expected the JSON object of a Vega-Lite specification")
	}
	return spec, walk(object, maxDepth, func(key string, _ any) error {
		if slices.Contains(refusedVega, key) {
			return badRequest("vegaSpec: the field %q is not allowed: the data are those of the query", key)
		}
		return nil
	})
}
