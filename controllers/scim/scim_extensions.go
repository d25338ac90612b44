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
	// coreURN begins the schemas whose attributes have fields of their own in the spec.
	coreURN = "urn:ietf:params:scim:schemas:core:"
	// enterpriseURN is the extension that has a field of its own (RFC 7643 section 4.3).
	enterpriseURN = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
)

// checkExtensions looks at what the CRD cannot judge. It returns a note on the schemas that the
// account does not declare for a type of resource: their attributes are kept, and not read.
// Schemas are compared without regard to case, as URNs are.
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
	seen := map[string]bool{}
	var unread []string
	for i, extension := range extensions {
		urn := strings.ToLower(extension.Schema)
		switch {
		case strings.HasPrefix(urn, coreURN), strings.EqualFold(urn, enterpriseURN):
			return "", invalid(i, "schema: %q has fields of its own in the spec; use these", extension.Schema)
		case seen[urn]:
			return "", invalid(i, "schema: %q is there twice, in different case", extension.Schema)
		case !isObject(extension.Attributes.Raw):
			return "", invalid(i, "attributes: must be an object")
		case !declared[urn]:
			unread = append(unread, fmt.Sprintf("%q", extension.Schema))
		}
		seen[urn] = true
	}
	if len(unread) > 0 {
		note = "spec.extensions: not declared in the Account's spec.scim.schemas, and kept unread: " + strings.Join(unread, ", ")
	}
	return note, nil
}

// isObject tells whether valid JSON, as the API server stores it, is an object.
func isObject(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && json.Valid(data)
}

func invalid(i int, format string, args ...any) *reconciler.Outcome {
	o := reconciler.Stalled(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("spec.extensions[%d].", i)+fmt.Sprintf(format, args...))
	return &o
}
