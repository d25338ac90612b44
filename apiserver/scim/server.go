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

// BasePath is where the service is served, below an account's base address.
const BasePath = "/api/scim/v2"

// Handles tells whether a canonical path is served here.
func Handles(path string) bool {
	return path == BasePath || strings.HasPrefix(path, BasePath+"/")
}

// Tenant is whose resources are asked for.
type Tenant struct {
	// Name keeps the cursors of tenants apart.
	Name string
	// BaseURL is the address of the service, with BasePath; it comes from configuration.
	BaseURL string
	// Types of resources, with the tenant's own extensions.
	Types []*schema.ResourceType
	// Store keeps the resources.
	Store Store
}

// Caller is who asks.
type Caller struct {
	// User is the id of the caller's own User; empty when it has none.
	User string
	// Manages tells whether it may provision. Without that it may read itself, and no more.
	Manages bool
	// Profile that is configured for its credential; empty to tell it by the client's marks.
	Profile string
	// Wait lets the caller do one more operation of a bulk, at its own rate; nil for any rate.
	Wait func(context.Context) error
}

// Server is the protocol.
type Server struct {
	// Now is the clock that cursors expire by.
	Now func() time.Time
	// Annotate is told the route of each request; may be nil.
	Annotate func(ctx context.Context, route string)
	mux      *http.ServeMux
}

// NewServer makes a server.
func NewServer(now func() time.Time, annotate func(ctx context.Context, route string)) *Server {
	s := &Server{Now: now, Annotate: annotate, mux: http.NewServeMux()}
	for _, r := range routes {
		s.mux.Handle(r.pattern, r)
	}
	return s
}

// ServeHTTP is that of the route's place in the mux, which is only asked for the route.
func (r *route) ServeHTTP(http.ResponseWriter, *http.Request) {}

// access says who may use a route.
type access int

const (
	managers access = iota // who may provision
	self                   // any caller, for its own user
	public                 // everybody: nothing of the tenant but its schemas is shown
)

// route is a line of the table of routes.
type route struct {
	pattern string
	access  access
	answer  func(*exchange) error
}

// routes are all of RFC 7644 table 2. The patterns of paths are below BasePath.
var routes = []*route{
	{"GET /ServiceProviderConfig", public, (*exchange).serviceProviderConfig},
	{"GET /ResourceTypes", public, (*exchange).listResourceTypes},
	{"GET /ResourceTypes/{id}", public, (*exchange).getResourceType},
	{"GET /Schemas", public, (*exchange).listSchemas},
	{"GET /Schemas/{id}", public, (*exchange).getSchema},
	{"GET /Me", self, (*exchange).getMe},
	{"PUT /Me", managers, (*exchange).replaceMe},
	{"PATCH /Me", managers, (*exchange).patchMe},
	{"DELETE /Me", managers, (*exchange).deleteMe},
	{"POST /Bulk", managers, (*exchange).bulk},
	{"GET /{$}", managers, (*exchange).listAll},
	{"POST /.search", managers, (*exchange).searchAll},
	{"GET /{type}", managers, (*exchange).list},
	{"POST /{type}", managers, (*exchange).create},
	{"POST /{type}/.search", managers, (*exchange).search},
	{"GET /{type}/{id}", managers, (*exchange).get},
	{"PUT /{type}/{id}", managers, (*exchange).replace},
	{"PATCH /{type}/{id}", managers, (*exchange).patch},
	{"DELETE /{type}/{id}", managers, (*exchange).delete},
}

// IsPublic tells whether a request is served to those who show no credential (RFC 7643 section 5).
func (s *Server) IsPublic(r *http.Request) bool {
	found, _ := s.route(r)
	return found != nil && found.access == public
}

// exchange is one request with what is known of it.
type exchange struct {
	http.ResponseWriter
	*http.Request
	server *Server
	tenant *Tenant
	caller Caller
	// profile is known when the body was read: nothing else needs it.
	profile *Profile
}

// ServeHTTP answers a request whose tenant and caller are known; for a public route the caller
// may be the empty one. The path is canonical.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request, tenant *Tenant, caller Caller) {
	found, inner := s.route(r)
	if found == nil {
		s.noRoute(w, r)
		return
	}
	if s.Annotate != nil {
		s.Annotate(r.Context(), BasePath+strings.TrimSuffix(found.pattern[strings.Index(found.pattern, "/"):], "/{$}"))
	}
	x := &exchange{ResponseWriter: w, Request: inner, server: s, tenant: tenant, caller: caller}
	if found.access == managers && !caller.Manages {
		WriteError(w, r, scimerror.New(http.StatusForbidden, "the credential does not hold the permission ScimManage, or is confined to certain deployments"))
		return
	}
	if err := found.answer(x); err != nil {
		WriteError(w, r, err)
	}
}

// route finds the line of the table for a request, and the request as that line sees it.
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

// reserved are the endpoints that no resource type can have.
var reserved = []string{"ServiceProviderConfig", "ResourceTypes", "Schemas", "Me", "Bulk", ".search"}

// noRoute answers 405 when the path is served with other methods, else 404.
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
	WriteError(w, r, scimerror.New(http.StatusMethodNotAllowed, "method %s is not served here; allowed: %s", scimerror.Quote(r.Method), strings.Join(allowed, ", ")))
}

// resourceType is the one that the path names.
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

// locate is the address of a resource.
func (x *exchange) locate(resourceType, id string) string {
	for _, t := range x.tenant.Types {
		if t.Name == resourceType {
			return x.tenant.BaseURL + t.Endpoint + "/" + id
		}
	}
	return ""
}
