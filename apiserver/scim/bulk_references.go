package scim

import (
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// bulkIDPrefix begins a reference to what another operation creates.
const bulkIDPrefix = "bulkId:"

func clipID(id string) string { return strings.Trim(scimerror.Quote(id), `"`) }

// references are the bulkIds that an operation's path and data refer to.
func references(o *bulkOperation) []string {
	var found []string
	if _, id, ok := strings.Cut(o.path, "/"+bulkIDPrefix); ok {
		found = append(found, id)
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
	return found
}

// resolve copies data with ids in place of references. What refers to something that has no id
// yet is left out when drop says so: an element of a list, a member of an object.
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
				return nil // an element is nothing without its value
			}
			copied[name] = resolved
		}
		return copied
	}
	return value
}
