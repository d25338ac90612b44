package scim

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// BasePath is the path of the service below an account's base URL.
const BasePath = "/api/scim/v2"

// Handles reports whether a canonical path belongs to the SCIM service.
func Handles(path string) bool {
	return path == BasePath || strings.HasPrefix(path, BasePath+"/")
}

// Tenant is the account whose resources a request accesses.
type Tenant struct {
	// Name is part of the hash in a cursor, so that no cursor is valid for two tenants.
	Name string
	// BaseURL is the URL of the service including BasePath. It comes from configuration, never from
	// the request.
	BaseURL string
	// Types are the resource types with the tenant's own extensions.
	Types []*schema.ResourceType
	// Store holds the resources.
	Store Store
}

// Caller is the authenticated caller of a request.
type Caller struct {
	// User is the id of the caller's own User; empty if it has none.
	User string
	// Manages reports whether the caller may provision. Other callers may only read their own User.
	Manages bool
	// Profile is the profile configured for the credential; empty to detect it from the request.
	Profile string
	// Wait blocks until the caller's rate limit allows another bulk operation; nil for no limit.
	Wait func(context.Context) error
}

// Server serves the SCIM protocol. Create it with NewServer.
type Server struct {
	// Now is the clock for the expiry of cursors.
	Now func() time.Time
	// Annotate is called with the route of each request; may be nil.
	Annotate func(ctx context.Context, route string)
	mux      *http.ServeMux
}

// NewServer returns a Server with all routes. annotate may be nil.
func NewServer(now func() time.Time, annotate func(ctx context.Context, route string)) *Server {
	s := &Server{Now: now, Annotate: annotate, mux: http.NewServeMux()}
	for _, r := range routes {
		s.mux.Handle(r.pattern, r)
	}
	return s
}

// ServeHTTP does nothing: the mux only matches routes, and never serves them.
func (r *route) ServeHTTP(http.ResponseWriter, *http.Request) {}

// access is who may use a route.
type access int

const (
	managers access = iota // callers that may provision
	self                   // any caller, for its own User
	public                 // unauthenticated callers: discovery shows only the tenant's schemas
)

// route is a row of the table of routes.
type route struct {
	pattern string
	access  access
	handle  func(*exchange) error
	// summary is for the reference; %s stands for the resource type.
	summary string
}

// routes are the endpoints of RFC 7644 table 2. Paths are relative to BasePath.
var routes = []*route{
	{"GET /ServiceProviderConfig", public, (*exchange).serviceProviderConfig, "Get what the service supports"},
	{"GET /ResourceTypes", public, (*exchange).listResourceTypes, "List the resource types"},
	{"GET /ResourceTypes/{id}", public, (*exchange).getResourceType, "Get a resource type"},
	{"GET /Schemas", public, (*exchange).listSchemas, "List the schemas"},
	{"GET /Schemas/{id}", public, (*exchange).getSchema, "Get a schema"},
	{"GET /Me", self, (*exchange).getResource, "Get the user of the credential"},
	{"PUT /Me", managers, (*exchange).replaceResource, "Replace the user of the credential"},
	{"PATCH /Me", managers, (*exchange).patchResource, "Change the user of the credential"},
	{"DELETE /Me", managers, (*exchange).deleteResource, "Delete the user of the credential"},
	{"POST /Bulk", managers, (*exchange).bulk, "Send several operations in one request"},
	{"GET /{$}", managers, (*exchange).listResources, "List the resources of all types"},
	{"POST /.search", managers, (*exchange).searchResources, "Search the resources of all types"},
	{"GET /{type}", managers, (*exchange).listResources, "List %ss"},
	{"POST /{type}", managers, (*exchange).createResource, "Create a %s"},
	{"POST /{type}/.search", managers, (*exchange).searchResources, "Search %ss"},
	{"GET /{type}/{id}", managers, (*exchange).getResource, "Get a %s"},
	{"PUT /{type}/{id}", managers, (*exchange).replaceResource, "Replace a %s"},
	{"PATCH /{type}/{id}", managers, (*exchange).patchResource, "Change a %s"},
	{"DELETE /{type}/{id}", managers, (*exchange).deleteResource, "Delete a %s"},
}

// IsPublic reports whether a request is served without a credential (RFC 7643 section 5).
func (s *Server) IsPublic(r *http.Request) bool {
	found, _ := s.route(r)
	return found != nil && found.access == public
}

// exchange is one request with its response, tenant and caller.
type exchange struct {
	http.ResponseWriter
	*http.Request
	server *Server
	tenant *Tenant
	caller Caller
	// profile is that of the credential or of the header and the query until the body has been read, on which
	// it may depend.
	profile *Profile
	// long reports whether the body is longer than longBody.
	long bool
}

// ServeHTTP serves a request with a canonical path. For a public route the caller may be the zero
// Caller.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request, tenant *Tenant, caller Caller) {
	found, inner := s.route(r)
	if found == nil {
		s.noRoute(w, r)
		return
	}
	if s.Annotate != nil {
		s.Annotate(r.Context(), BasePath+strings.TrimSuffix(found.pattern[strings.Index(found.pattern, "/"):], "/{$}"))
	}
	x := &exchange{ResponseWriter: w, Request: inner, server: s, tenant: tenant, caller: caller, profile: chooseProfile(caller.Profile, inner, nil)}
	if found.access == managers && !caller.Manages {
		WriteError(w, r, scimerror.New(http.StatusForbidden, "the credential does not hold the permission ScimManage, or is confined to certain deployments"))
		return
	}
	if err := found.handle(x); err != nil {
		WriteError(w, r, err)
	}
}

// route returns the route of a request and the request with a path relative to BasePath and with
// path values; nil if no route matches.
func (s *Server) route(r *http.Request) (*route, *http.Request) {
	inner, below := r.WithContext(r.Context()), *r.URL
	below.Path = cmp.Or(strings.TrimPrefix(r.URL.Path, BasePath), "/")
	inner.URL = &below
	handler, pattern := s.mux.Handler(inner)
	found, ok := handler.(*route)
	if pattern == "" || !ok {
		return nil, nil
	}
	segments := strings.Split(strings.TrimPrefix(inner.URL.Path, "/"), "/")
	for i, name := range strings.Split(pattern[strings.Index(pattern, "/")+1:], "/") {
		if !strings.HasPrefix(name, "{") || name == "{$}" {
			continue
		}
		if name == "{type}" && slices.Contains(reserved, segments[i]) {
			return nil, nil
		}
		inner.SetPathValue(strings.Trim(name, "{}"), segments[i])
	}
	return found, inner
}

// reserved are endpoints that cannot be resource types.
var reserved = []string{"ServiceProviderConfig", "ResourceTypes", "Schemas", "Me", "Bulk", ".search"}

// noRoute responds with 405 if the path supports other methods, else with 404.
func (s *Server) noRoute(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := r.WithContext(r.Context())
		other.Method = method
		if found, _ := s.route(other); found != nil {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		WriteError(w, r, scimerror.New(http.StatusNotFound, "no such path; see /ResourceTypes"))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	WriteError(w, r, scimerror.New(http.StatusMethodNotAllowed, "method %s is not allowed; allowed: %s", scimerror.Quote(r.Method), strings.Join(allowed, ", ")))
}

// resourceType returns the resource type that the path names, or a 404 error.
func (x *exchange) resourceType() (*schema.ResourceType, error) {
	return x.typeByEndpoint("/" + x.PathValue("type"))
}

func (x *exchange) typeByEndpoint(endpoint string) (*schema.ResourceType, error) {
	i := slices.IndexFunc(x.tenant.Types, func(t *schema.ResourceType) bool { return t.Endpoint == endpoint })
	if i < 0 {
		return nil, scimerror.New(http.StatusNotFound, "%s is not the endpoint of a resource type; see /ResourceTypes", scimerror.Quote(endpoint))
	}
	return x.tenant.Types[i], nil
}

// locate returns the URL of a resource; empty if its type is not served.
func (x *exchange) locate(resourceType, id string) string {
	for _, t := range x.tenant.Types {
		if t.Name == resourceType {
			return x.tenant.BaseURL + t.Endpoint + "/" + id
		}
	}
	return ""
}
