package scim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

const (
	// coreURN is the prefix of the core schemas, whose attributes are fields of the spec.
	coreURN = "urn:ietf:params:scim:schemas:core:"
	// enterpriseURN is the extension that is a field of the spec (RFC 7643 section 4.3).
	enterpriseURN = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
)

// checkExtensions checks what the CRD cannot check. It returns a note on the schemas that the account
// does not declare for a resource type: their attributes are stored and ignored. Schema URNs are
// case-insensitive.
func checkExtensions(account *v1alpha1.Account, resource v1alpha1.ScimMemberType, extensions []v1alpha1.ScimExtension) (note string, o *reconciler.Outcome) {
	if len(extensions) == 0 {
		return "", nil
	}
	declared := map[string]bool{}
	if account.Spec.Scim != nil {
		for _, schema := range account.Spec.Scim.Schemas {
			if schema.ResourceType == resource {
				declared[strings.ToLower(schema.ID)] = true
			}
		}
	}
	found := map[string]bool{}
	var undeclared []string
	for i, extension := range extensions {
		urn := strings.ToLower(extension.Schema)
		switch {
		case strings.HasPrefix(urn, coreURN), strings.EqualFold(urn, enterpriseURN):
			return "", invalid(i, "schema: the attributes of %q are fields of the spec; use those", extension.Schema)
		case found[urn]:
			return "", invalid(i, "schema: %q occurs twice, in different case", extension.Schema)
		case !isObject(extension.Attributes.Raw):
			return "", invalid(i, "attributes: must be an object")
		case !declared[urn]:
			undeclared = append(undeclared, fmt.Sprintf("%q", extension.Schema))
		}
		found[urn] = true
	}
	if len(undeclared) > 0 {
		note = "spec.extensions: not declared in the Account's spec.scim.schemas, and ignored: " + strings.Join(undeclared, ", ")
	}
	return note, nil
}

// isObject reports whether data is a JSON object.
func isObject(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && json.Valid(data)
}

func invalid(i int, format string, args ...any) *reconciler.Outcome {
	o := reconciler.Stalled(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("spec.extensions[%d].", i)+fmt.Sprintf(format, args...))
	return &o
}
