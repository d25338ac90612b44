package patch

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// URN is the schema of a PATCH request.
const URN = "urn:ietf:params:scim:api:messages:2.0:PatchOp"

// MaxOperations is the maximum number of operations in a request.
const MaxOperations = 1000

// ParseRequest parses the body of a PATCH request as decoded by strictjson. Errors are *scimerror.Error:
// invalidSyntax for a body that does not conform to RFC 7644 section 3.5.2.
func ParseRequest(body any, q Quirks) ([]Operation, error) {
	members, err := q.membersOf("", body, "schemas", "operations")
	if err != nil {
		return nil, err
	}
	if err := schema.CheckMessage(members["schemas"], URN); err != nil {
		return nil, err
	}
	list, ok := members["operations"].([]any)
	if !ok || len(list) == 0 {
		return nil, scimerror.Bad(scimerror.InvalidSyntax, "Operations: must be a non-empty list")
	}
	if len(list) > MaxOperations {
		return nil, scimerror.New(http.StatusRequestEntityTooLarge, "Operations: at most %d, not %d", MaxOperations, len(list))
	}
	ops := make([]Operation, len(list))
	for i, item := range list {
		if ops[i], err = parseOperation(fmt.Sprintf("Operations[%d]", i), item, q); err != nil {
			return nil, err
		}
	}
	return ops, nil
}

// membersOf returns the members of an object by lower-case name: names are case-insensitive (RFC 7643
// section 2.1). A null value counts as a member. prefix is the prefix of errors.
func (q Quirks) membersOf(prefix string, value any, names ...string) (map[string]any, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return nil, scimerror.Bad(scimerror.InvalidSyntax, "%smust be an object", prefix)
	}
	members := make(map[string]any, len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		lower := strings.ToLower(name)
		if !slices.Contains(names, lower) {
			if q.ForeignMembers {
				continue
			}
			return nil, scimerror.Bad(scimerror.InvalidSyntax, "%s%s is unknown; allowed: %s", prefix, scimerror.Quote(name), strings.Join(names, ", "))
		}
		if _, duplicate := members[lower]; duplicate {
			return nil, scimerror.Bad(scimerror.InvalidSyntax, "%s%s occurs twice", prefix, scimerror.Quote(name))
		}
		members[lower] = object[name]
	}
	return members, nil
}

func parseOperation(at string, value any, q Quirks) (Operation, error) {
	members, err := q.membersOf(at+": ", value, "op", "path", "value")
	if err != nil {
		return Operation{}, err
	}
	op, err := parseOp(at, members["op"], q)
	if err != nil {
		return Operation{}, err
	}
	operation := Operation{Op: op}
	operation.Value, operation.HasValue = members["value"]
	if op == remove && operation.Value == nil {
		operation.HasValue = false // null is no value (RFC 7643 section 2.5)
	}
	// null means no path, as for all attributes (RFC 7643 section 2.5).
	if path := members["path"]; path != nil {
		if operation.Path, operation.HasPath = path.(string); !operation.HasPath {
			return Operation{}, scimerror.Bad(scimerror.InvalidSyntax, "%s.path: must be a string", at)
		}
	}
	return operation, nil
}

func parseOp(at string, value any, q Quirks) (string, error) {
	sent, _ := value.(string)
	op := sent
	if q.CapitalOps {
		op = strings.ToLower(sent)
	}
	if !isKnown(op) {
		return "", scimerror.Bad(scimerror.InvalidSyntax, "%s.op: must be %s, not %s", at, operations, scimerror.Quote(sent))
	}
	return op, nil
}
