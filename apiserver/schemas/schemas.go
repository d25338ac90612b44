// Package schemas serves the JSON Schemas of the opaque parts of workspace content on the hosts of the accounts, for editors and
// for programs that write content. They are public.
package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/serving/document"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// Path is the path of the schemas, each of which is below it as <name>.json.
const Path = "/schemas/workspace/"

// maxAge is how long schemas may be cached. A schema with a version gets no stricter.
const maxAge = time.Hour

// Handles reports whether a path is below that of the schemas.
func Handles(path string) bool { return strings.HasPrefix(path, Path) }

// Serve serves a request, without authentication, on a host of an account.
func Serve(w http.ResponseWriter, r *http.Request, account *v1alpha1.Account) {
	serving.Annotate(r.Context(), serving.AnnotationRoute, Path+"{name}.json")
	if !document.Allows(w, r) {
		return
	}
	name, isJSON := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, Path), ".json")
	text, exists := workspace.Schemas[name]
	if !isJSON || !exists {
		serving.WriteError(w, http.StatusNotFound, "no such schema: dashboard-v1.json and report-v1.json exist")
		return
	}
	document.Write(w, r, "application/schema+json", maxAge, withID(text, tenant.URL(account)+r.URL.Path))
}

var identifier = regexp.MustCompile(`"\$id": "[^"]*"`)

// withID returns a schema with the URL at which it is served as its id. The host of the URL is that of the Account, whatever the
// client has sent.
func withID(schema []byte, url string) []byte {
	id, _ := json.Marshal(url) // a string
	return bytes.Replace(schema, identifier.Find(schema), fmt.Appendf(nil, `"$id": %s`, id), 1)
}
