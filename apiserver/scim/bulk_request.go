package scim

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// parseBulk parses a bulk request. failOnErrors is the number of errors after which processing
// stops; 0 for never.
func parseBulk(body map[string]any) (operations []*bulkOperation, failOnErrors int, err error) {
	var list []any
	for name, value := range body {
		switch strings.ToLower(name) {
		case "schemas":
			if err := schema.CheckMessage(value, bulkRequestURN); err != nil {
				return nil, 0, err
			}
		case "failonerrors":
			n, err := positive(value)
			if err != nil {
				return nil, 0, scimerror.Bad(scimerror.InvalidValue, "failOnErrors: must be an integer from 1")
			}
			failOnErrors = n
		case "operations":
			list, _ = value.([]any)
		default:
			return nil, 0, scimerror.Bad(scimerror.InvalidSyntax, "%s is not an attribute of a bulk request", scimerror.Quote(name))
		}
	}
	switch {
	case len(list) == 0:
		return nil, 0, scimerror.Bad(scimerror.InvalidSyntax, "Operations: must be a non-empty list")
	case len(list) > maxOperations:
		return nil, 0, scimerror.New(http.StatusRequestEntityTooLarge, "Operations: %d operations; at most %d are allowed", len(list), maxOperations)
	}
	operations = make([]*bulkOperation, len(list))
	seen := map[string]bool{}
	for i, item := range list {
		o, err := parseOperation(i, item)
		if err != nil {
			return nil, 0, err
		}
		if o.bulkID != "" && seen[o.bulkID] {
			return nil, 0, scimerror.Bad(scimerror.InvalidValue, "Operations[%d].bulkId: %s is not unique", i, scimerror.Quote(o.bulkID))
		}
		seen[o.bulkID] = true
		o.references, o.target = references(o)
		operations[i] = o
	}
	return operations, failOnErrors, nil
}

func positive(value any) (int, error) {
	number, _ := value.(json.Number)
	n, err := strconv.Atoi(number.String())
	if err == nil && n < 1 {
		err = strconv.ErrRange
	}
	return n, err
}

func parseOperation(i int, item any) (*bulkOperation, error) {
	o := &bulkOperation{index: i}
	members, ok := item.(map[string]any)
	if !ok {
		return nil, scimerror.Bad(scimerror.InvalidSyntax, "Operations[%d]: must be an object", i)
	}
	for name, value := range members {
		var to *string
		switch strings.ToLower(name) {
		case "method":
			to = &o.method
		case "path":
			to = &o.path
		case "bulkid":
			to = &o.bulkID
		case "version":
			to = &o.version
		case "data":
			if o.data, ok = value.(map[string]any); !ok && value != nil {
				return nil, scimerror.Bad(scimerror.InvalidSyntax, "Operations[%d].data: must be an object", i)
			}
			continue
		default:
			return nil, scimerror.Bad(scimerror.InvalidSyntax, "Operations[%d]: %s is not an attribute of an operation", i, scimerror.Quote(name))
		}
		if *to, ok = value.(string); !ok && value != nil {
			return nil, scimerror.Bad(scimerror.InvalidSyntax, "Operations[%d].%s: must be a string", i, name)
		}
	}
	o.method = strings.ToUpper(o.method)
	if o.method == http.MethodPost && o.bulkID == "" {
		return nil, scimerror.Bad(scimerror.InvalidSyntax, "Operations[%d].bulkId: is required for POST", i)
	}
	return o, nil
}
