package patch

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// URN is the schema of a PATCH request.
const URN = "urn:ietf:params:scim:api:messages:2.0:PatchOp"

// MaxOperations is how many operations a request may have.
const MaxOperations = 1000

// ParseRequest reads the body of a PATCH request, as strictjson does it. Errors are
// *scimerror.Error: invalidSyntax for what is not of the form of RFC 7644 section 3.5.2.
func ParseRequest(body any, q Quirks) ([]Operation, error) {
	members, err := membersOf("", body, "schemas", "operations")
	if err != nil {
		return nil, err
	}
	if err := checkSchemas(members["schemas"], q); err != nil {
		return nil, err
	}
	list, ok := members["operations"].([]any)
	if !ok || len(list) == 0 {
		return nil, scimerror.Bad(scimerror.InvalidSyntax, "Operations: must be a list of at least one operation")
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

// membersOf reads an object whose names may be in any case (RFC 7643 section 2.1), by their
// names in lower case. What is null counts as a member. at begins the errors.
func membersOf(at string, value any, names ...string) (map[string]any, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return nil, scimerror.Bad(scimerror.InvalidSyntax, "%smust be an object", at)
	}
	members := make(map[string]any, len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		lower := strings.ToLower(name)
		if !slices.Contains(names, lower) {
			return nil, scimerror.Bad(scimerror.InvalidSyntax, "%s%s is not known; there are: %s", at, scimerror.Quote(name), strings.Join(names, ", "))
		}
		if _, twice := members[lower]; twice {
			return nil, scimerror.Bad(scimerror.InvalidSyntax, "%s%s is there twice", at, scimerror.Quote(name))
		}
		members[lower] = object[name]
	}
	return members, nil
}

func checkSchemas(value any, q Quirks) error {
	if value == nil && q.CapitalOps {
		return nil
	}
	list, _ := value.([]any)
	for _, item := range list {
		if urn, ok := item.(string); ok && strings.EqualFold(urn, URN) {
			return nil
		}
	}
	return scimerror.Bad(scimerror.InvalidSyntax, "schemas: must be a list with %s", URN)
}

func parseOperation(at string, value any, q Quirks) (Operation, error) {
	members, err := membersOf(at+": ", value, "op", "path", "value")
	if err != nil {
		return Operation{}, err
	}
	op, err := parseOp(at, members["op"], q)
	if err != nil {
		return Operation{}, err
	}
	operation := Operation{Op: op}
	operation.Value, operation.HasValue = members["value"]
	// A path of null is none: so RFC 7643 section 2.5 has it of any attribute.
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
	if !known(op) {
		return "", scimerror.Bad(scimerror.InvalidSyntax, "%s.op: must be %s, not %s", at, operations, scimerror.Quote(sent))
	}
	return op, nil
}
