package scim

import (
	"net/http"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/internal/strictjson"
)

// The reference has an operation for each route and resource type, and its examples are valid.
func TestOperations(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range Operations() {
		if seen[o.ID] || o.Summary == "" || strings.Contains(o.Summary, "%") || o.Access == "" || strings.Contains(o.Path, "{type}") {
			t.Errorf("%+v", o)
		}
		seen[o.ID] = true
		hasBody := o.Method == http.MethodPost || o.Method == http.MethodPut || o.Method == http.MethodPatch
		if hasBody != (o.Example != "") {
			t.Errorf("%s %s: example %q", o.Method, o.Path, o.Example)
		}
		if o.Example == "" {
			continue
		}
		if _, err := strictjson.Decode([]byte(o.Example), strictjson.Options{FoldNames: true}); err != nil {
			t.Errorf("%s: %v", o.ID, err)
		}
	}
	perType := 0
	for _, r := range routes {
		if strings.Contains(r.pattern, "{type}") {
			perType++
		}
	}
	if want := len(routes) + perType; len(seen) != want {
		t.Errorf("%d operations, want %d", len(seen), want)
	}
	for _, id := range []string{"scim-get-users", "scim-patch-groups-id", "scim-post-bulk", "scim-post-search", "scim-get-serviceproviderconfig", "scim-get"} {
		if !seen[id] {
			t.Errorf("no operation %s", id)
		}
	}
}
