package semantic

import "encoding/json"

// queryFields are the fields of a JSON query that a model may set.
var queryFields = []string{"measures", "dimensions", "segments", "timeDimensions", "filters", "order", "limit", "offset", "timezone", "ungrouped"}

// maxDepth is the maximum depth of the JSON of a model.
const maxDepth = 32

// namesIn returns all strings and keys of JSON: among them are the members of a query.
func namesIn(text json.RawMessage) (map[string]bool, error) {
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, badRequest("the query is not JSON")
	}
	out := map[string]bool{}
	return out, walk(document, maxDepth, func(key string, value any) error {
		out[key] = true
		if name, ok := value.(string); ok {
			out[name] = true
		}
		return nil
	})
}

// walk visits the values of a document with the keys that they have in their object; elements of arrays have the key of the array.
func walk(document any, depth int, visit func(key string, value any) error) error {
	return walkAt("", document, depth, visit)
}

func walkAt(key string, value any, depth int, visit func(key string, value any) error) error {
	if depth == 0 {
		return badRequest("JSON with more than %d levels", maxDepth)
	}
	if err := visit(key, value); err != nil {
		return err
	}
	switch v := value.(type) {
	case map[string]any:
		for k, inner := range v {
			if err := walkAt(k, inner, depth-1, visit); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range v {
			if err := walkAt(key, inner, depth-1, visit); err != nil {
				return err
			}
		}
	}
	return nil
}
