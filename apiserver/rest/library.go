package rest

import (
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
)

// configureLibrary sets the variables of package huma that have no equivalent in huma.Config. It is
// the only place in the process that sets them.
//
//   - Errors that the library creates are Problems for operations of this package. Other APIs of
//     the process keep their errors.
//   - Property names are case-sensitive: {"Name": ...} is not {"name": ...}.
//   - Arrays are not nullable in schemas unless a tag declares it.
var configureLibrary = sync.OnceFunc(func() {
	other := huma.NewErrorWithContext
	huma.NewErrorWithContext = func(hc huma.Context, status int, message string, errs ...error) huma.StatusError {
		op := operationOf(hc)
		if op == nil {
			return other(hc, status, message, errs...)
		}
		if status == http.StatusUnprocessableEntity || message == unreadableBody {
			status = http.StatusBadRequest
		}
		return &Problem{status: status, Message: op.describeErrors(message, errs)}
	}
	huma.ValidateStrictCasing = true
	huma.DefaultArrayNullable = false
})

// unreadableBody is the message of the library for a body that cannot be read, such as malformed
// chunks: with status 500, although the client is at fault.
const unreadableBody = "cannot read request body"

// libraryConfig returns the configuration of an API of the library.
func libraryConfig(version string) huma.Config {
	schemas := huma.NewMapRegistry("#/components/schemas/", schemaName)
	// The library registers the type of its errors, which are Problems here.
	schemas.RegisterTypeAlias(reflect.TypeFor[huma.ErrorModel](), reflect.TypeFor[Problem]())
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Quoin Platform API", Version: version,
				Description: "Deployments, their environments, branches, versions, variables and keys. The server is the tenant host that answers.",
				Contact:     &huma.Contact{Name: "Quoin", URL: "https://github.com/quoin-dev/quoin"},
				License:     &huma.License{Name: "Apache License 2.0", Identifier: "Apache-2.0"},
			},
			Components: &huma.Components{
				Schemas: schemas,
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"bearer": {Type: "http", Scheme: "bearer", Description: "An API key, or an access token of one of the account's issuers."},
					"apiKey": {Type: "apiKey", In: "header", Name: "Authorization", Description: "Api-Key followed by an API key."},
				},
			},
			Security: []map[string][]string{{"bearer": {}}, {"apiKey": {}}},
			Servers:  []*huma.Server{{URL: "/", Description: "the tenant host"}},
		},
		Formats:                      map[string]huma.Format{"application/json": strictJSON},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	}
}

// schemaName names a type in the document.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if name == "" {
		return "" // a type without a name is inlined
	}
	return strings.ToUpper(name[:1]) + name[1:]
}
