package rest

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// routeMethods are the methods that routes can have.
var routeMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// NoPermission is the permission of routes that every authenticated caller may use.
const NoPermission v1alpha1.Permission = ""

// Family is a group of routes that the document shows under one tag.
type Family struct {
	Tag, Description string
	Routes           []Route
}

// Route is one operation of the API.
type Route struct {
	Method, Path string
	// OperationID is the id in the document, that of the upstream document where it has one.
	OperationID string
	// Permission that the principal must hold. A principal that is limited to certain deployments is
	// rejected if the permission is account-wide.
	Permission v1alpha1.Permission
	Summary    string
	// Status of a successful response; 200 when zero.
	Status int
	// MediaType of the response; JSON when empty.
	MediaType string
	// MaxBodyBytes bounds the body; 1 MiB when zero.
	MaxBodyBytes int64

	// cached is true if the deployment of the path may be as old as the cache.
	cached bool
	// preferred is true if the route has precedence over others that match the same path.
	preferred bool

	handle   func(a *API, tag string, op *operation)
	document func(*huma.OpenAPI, *huma.Operation)
}

// Handle returns a route with a typed handler. The fields of In are the parameters (path, query,
// header) and Body; Out has headers, Status and Body. A Body of Out that is a func(huma.Context) is
// a stream. Fields tagged secret:"true" are not repeated in error messages.
func Handle[In, Out any](method, path, operationID string, permission v1alpha1.Permission, summary string, handler func(context.Context, *In) (*Out, error)) Route {
	r := Route{Method: method, Path: path, OperationID: operationID, Permission: permission, Summary: summary}
	r.handle = func(a *API, tag string, op *operation) {
		op.secrets = secretFields(reflect.TypeFor[In]())
		huma.Register(a.huma, op.describe(a, tag), func(ctx context.Context, in *In) (*Out, error) {
			out, err := handler(ctx, in)
			if err != nil {
				return nil, toProblem(ctx, err)
			}
			return out, nil
		})
	}
	return r
}

// WithStatus sets the status of a successful response, such as 201.
func (r Route) WithStatus(status int) Route {
	r.Status = status
	return r
}

// WithMediaType sets the media type of a response that is not JSON.
func (r Route) WithMediaType(mediaType string) Route {
	r.MediaType = mediaType
	return r
}

// WithMaxBody sets the largest body in bytes.
func (r Route) WithMaxBody(bytes int64) Route {
	r.MaxBodyBytes = bytes
	return r
}

// WithCachedDeployment takes the deployment of the path from the cache, without a request to the
// Kubernetes API server: for requests that are sent many times in a row, between others for which it is
// read, and that have an effect only through the last of these.
func (r Route) WithCachedDeployment() Route {
	r.cached = true
	return r
}

// Preferred gives the route precedence over others that match the same path, where neither pattern is more
// specific: /books/by-slug/{slug} and /books/{id}/pages. All routes of the path must have it.
func (r Route) Preferred() Route {
	r.preferred = true
	return r
}

// WithDocument changes the operation in the document, for what types cannot express. Several changes
// are made in their order.
func (r Route) WithDocument(change func(*huma.OpenAPI, *huma.Operation)) Route {
	first := r.document
	r.document = func(doc *huma.OpenAPI, op *huma.Operation) {
		if first != nil {
			first(doc, op)
		}
		change(doc, op)
	}
	return r
}

// operation is what the engine knows of a registered route.
type operation struct {
	route        Route
	inDeployment bool
	// repeatable are the query parameters that are lists.
	repeatable map[string]bool
	// secrets are the locations of the input whose values must not be repeated.
	secrets []string
}

// metadataKey is the key of an *operation in the metadata of the library's operation.
const metadataKey = "quoin.rest.operation"

// operationOf returns the operation of a request; nil if it belongs to another API.
func operationOf(hc huma.Context) *operation {
	if hc == nil || hc.Operation() == nil {
		return nil
	}
	op, _ := hc.Operation().Metadata[metadataKey].(*operation)
	return op
}

// describe returns the operation for the library.
func (op *operation) describe(a *API, tag string) huma.Operation {
	r := op.route
	note := "Needs no permission."
	if r.Permission != NoPermission {
		note = fmt.Sprintf("Needs the permission %s.", r.Permission)
	}
	return huma.Operation{
		OperationID: r.OperationID, Method: r.Method, Path: r.Path, Summary: r.Summary, Tags: []string{tag},
		Description: note, DefaultStatus: r.Status, MaxBodyBytes: r.MaxBodyBytes,
		Responses:   op.responses(a.huma.OpenAPI().Components.Schemas),
		Middlewares: huma.Middlewares{a.admit(op)},
		Metadata:    map[string]any{metadataKey: op},
	}
}

// responses returns what the document cannot derive from the output type: errors, and responses that
// are not JSON.
func (op *operation) responses(schemas huma.Registry) map[string]*huma.Response {
	codes := []int{400, 401, 403, 404, 429, 500, 503}
	if op.route.Method != http.MethodGet {
		codes = append(codes, 408, 409, 413, 415)
	}
	responses := map[string]*huma.Response{}
	for _, code := range codes {
		content := map[string]*huma.MediaType{"application/json": {Schema: schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")}}
		responses[strconv.Itoa(code)] = &huma.Response{Description: http.StatusText(code), Content: content}
	}
	if mediaType := op.route.MediaType; mediaType != "" {
		content := map[string]*huma.MediaType{mediaType: {Schema: &huma.Schema{Type: huma.TypeString}}}
		responses[strconv.Itoa(max(op.route.Status, http.StatusOK))] = &huma.Response{Description: "OK", Content: content}
	}
	return responses
}

// documentedOperation returns the operation of a path with a method; nil if there is none.
func documentedOperation(item *huma.PathItem, method string) *huma.Operation {
	if item == nil {
		return nil
	}
	switch method {
	case http.MethodGet:
		return item.Get
	case http.MethodPost:
		return item.Post
	case http.MethodPut:
		return item.Put
	case http.MethodPatch:
		return item.Patch
	case http.MethodDelete:
		return item.Delete
	}
	return nil
}

// DescribeResponses sets the descriptions of responses by status, for WithDocument. Statuses that it adds are errors.
func DescribeResponses(op *huma.Operation, descriptions map[string]string) {
	for status, text := range descriptions {
		if op.Responses[status] == nil {
			op.Responses[status] = &huma.Response{Content: op.Responses["400"].Content}
		}
		op.Responses[status].Description = text
	}
}
