package scim

import (
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// bulkIDPrefix is the prefix of a reference to a resource that another operation creates.
const bulkIDPrefix = "bulkId:"

func clipID(id string) string { return strings.Trim(scimerror.Quote(id), `"`) }

// references returns the bulkIds that the path and the data of an operation refer to, and target is the one in the path.
func references(o *bulkOperation) (found []string, target string) {
	if _, id, ok := strings.Cut(o.path, "/"+bulkIDPrefix); ok {
		found, target = append(found, id), id
	}
	var walk func(any)
	walk = func(value any) {
		switch value := value.(type) {
		case string:
			if id, ok := strings.CutPrefix(value, bulkIDPrefix); ok {
				found = append(found, id)
			}
		case []any:
			for _, item := range value {
				walk(item)
			}
		case map[string]any:
			for _, item := range value {
				walk(item)
			}
		}
	}
	walk(o.data)
	return found, target
}

// resolve returns a copy of value with references replaced by ids. If drop is set, list elements
// and object members with an unresolved reference are omitted.
func resolve(value any, ids map[string]string, drop bool) any {
	switch value := value.(type) {
	case string:
		bulkID, ok := strings.CutPrefix(value, bulkIDPrefix)
		if !ok {
			return value
		}
		if id, known := ids[bulkID]; known {
			return id
		}
		if drop {
			return nil
		}
		return value
	case []any:
		list := make([]any, 0, len(value))
		for _, item := range value {
			if resolved := resolve(item, ids, drop); resolved != nil {
				list = append(list, resolved)
			}
		}
		return list
	case map[string]any:
		copied := make(map[string]any, len(value))
		for name, item := range value {
			resolved := resolve(item, ids, drop)
			if resolved == nil && item != nil && strings.EqualFold(name, "value") {
				return nil // an element without its value is meaningless
			}
			copied[name] = resolved
		}
		return copied
	}
	return value
}
