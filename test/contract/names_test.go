package contract_test

import (
	"strings"
	"testing"
)

// Names that users see cannot hide, reorder or break the text around them, whichever API sets them.
func TestNamesHaveNoControlAndBidiCharacters(t *testing.T) {
	admin := acme.as(acme.admin)
	deployment := create(t, acme, "Names")
	for about, name := range map[string]string{
		"escape sequence": "\x1b[31mSales", "line end": "Sales\nMarketing", "right-to-left override": "Sales\u202Etxt.exe", "isolate": "\u2066Sales\u2069",
	} {
		t.Run(about, func(t *testing.T) {
			for path, body := range map[string]map[string]any{
				"POST /build/api/v1/deployments":        creation(name),
				"PUT /api/v1/deployments/" + deployment: {"name": name},
				"POST /api/v1/api-keys":                 {"name": name},
				"POST " + foldersOf(deployment):         {"name": name},
			} {
				method, path, _ := strings.Cut(path, " ")
				admin.call(t, method, path, body).rejected(400, "name", "bidirectional")
			}
			for path, body := range map[string]map[string]any{
				"/api/scim/v2/Users":  {"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:User"}, "userName": "names@acme.example", "displayName": name},
				"/api/scim/v2/Groups": {"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:Group"}, "displayName": name},
			} {
				admin.call(t, "POST", path, body).is(400).want("scimType", "invalidValue")
			}
		})
	}
}
