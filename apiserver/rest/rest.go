// Package rest is the engine of the documented REST API: the paths below /api/v1 and
// /build/api/v1. It knows no resource.
//
// A Family is a table of routes with their wire types and handlers; related families form a
// group, which is a package below this one. From a route follow the required permission, the
// validation of parameters and body, and the OpenAPI document. A group imports this package and
// never another group.
package rest

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
)

// DeploymentFinder reads the deployments that paths refer to.
type DeploymentFinder interface {
	// Find returns the deployment of a namespace with an id, as fresh as the Kubernetes API server,
	// or nil if there is none.
	Find(ctx context.Context, namespace, id string) (*v1alpha1.Deployment, error)
	// FindCached is Find for a deployment that may be as old as the cache. One that the cache does not
	// have is read from the Kubernetes API server.
	FindCached(ctx context.Context, namespace, id string) (*v1alpha1.Deployment, error)
}

// Options configure an API.
type Options struct {
	// Deployments resolves {deploymentId} in paths.
	Deployments DeploymentFinder
	// Version of quoin, for the OpenAPI document.
	Version string
	// Sections are further sections of the reference, of other APIs of an account.
	Sections []Section
}

// API serves the routes of its families.
type API struct {
	deployments DeploymentFinder
	mux         *router
	// paths has the patterns of mux without their methods; methods are those of a pattern.
	paths   *router
	methods map[string][]string
	huma    huma.API
	// routes are all routes, in the order of the families.
	routes []Route
	// document and page are the OpenAPI document and the reference page.
	document, page []byte
	// sections are further sections of the reference.
	sections []Section
}

// New returns an API with the routes of families, in the order of the OpenAPI document.
func New(o Options, families ...Family) (*API, error) {
	configureLibrary()
	a := &API{deployments: o.Deployments, sections: o.Sections, mux: newRouter(), paths: newRouter(), methods: map[string][]string{}}
	a.huma = humago.New(a.mux, libraryConfig(o.Version))
	for _, f := range append(families, a.documentFamily()) {
		doc := a.huma.OpenAPI()
		doc.Tags = append(doc.Tags, &huma.Tag{Name: f.Tag, Description: f.Description})
		for _, r := range f.Routes {
			if err := a.register(f.Tag, r); err != nil {
				return nil, err
			}
		}
	}
	a.mux.HandleFunc("/", a.serveUnrouted)
	return a, a.render()
}

// register adds a route to the mux and to the document.
func (a *API) register(tag string, r Route) (err error) {
	defer func() {
		// The library panics for types that it cannot describe, and for two types of the same name.
		if reason := recover(); reason != nil {
			err = fmt.Errorf("register %s %s: %v", r.Method, r.Path, reason)
		}
	}()
	op := &operation{route: r, inDeployment: strings.Contains(r.Path, "{"+deploymentIDParameter+"}"), repeatable: map[string]bool{}}
	a.mux.prefers[r.Path], a.paths.prefers[r.Path] = r.preferred, r.preferred
	r.handle(a, tag, op)
	documented := documentedOperation(a.huma.OpenAPI().Paths[r.Path], r.Method)
	if documented == nil {
		return fmt.Errorf("register %s %s: method is not supported", r.Method, r.Path)
	}
	for _, p := range documented.Parameters {
		op.repeatable[p.Name] = p.In == "query" && p.Schema.Type == huma.TypeArray
	}
	if r.document != nil {
		r.document(a.huma.OpenAPI(), documented)
	}
	if len(a.methods[r.Path]) == 0 {
		a.paths.HandleFunc(r.Path, http.NotFound)
	}
	a.routes = append(a.routes, r)
	a.methods[r.Path] = append(a.methods[r.Path], r.Method)
	return nil
}

// ServeHTTP serves a request whose account and principal are known. The path is canonical:
// decoded, without a trailing slash, empty or dotted segments.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request, account *v1alpha1.Account, p *auth.Principal) {
	ctx := (&Scope{Account: account, Principal: p}).With(auth.With(r.Context(), p))
	for _, encoding := range r.Header.Values("Content-Encoding") {
		if encoding != "" && !strings.EqualFold(encoding, "identity") {
			writeProblem(w, NewProblem(http.StatusUnsupportedMediaType, "Content-Encoding: %q is not supported; allowed: identity", Clip(encoding)))
			return
		}
	}
	// The library compares media types with case, which they do not have.
	declared := r.Header.Get("Content-Type")
	if media, _, _ := strings.Cut(declared, ";"); media != strings.ToLower(media) {
		r.Header = r.Header.Clone()
		r.Header.Set("Content-Type", strings.ToLower(media)+declared[len(media):])
	}
	a.mux.ServeHTTP(w, r.WithContext(ctx))
}

// serveUnrouted responds with 405 if the path has a route for another method, else with 404.
func (a *API) serveUnrouted(w http.ResponseWriter, r *http.Request) {
	_, path := a.paths.Handler(r)
	methods := a.methods[path]
	if len(methods) == 0 {
		writeProblem(w, NotFound("no such path"))
		return
	}
	var allowed []string
	for _, method := range routeMethods {
		for _, m := range methods {
			if m == method {
				allowed = append(allowed, method)
			}
		}
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	writeProblem(w, NewProblem(http.StatusMethodNotAllowed, "method %s is not served here; allowed: %s", Clip(r.Method), strings.Join(allowed, ", ")))
}
