// Package rest serves the documented control plane: the paths below /api/v1 and
// /build/api/v1, reading and writing the custom resources.
//
// A family of resources is a file: its wire types, a table of routes, and the functions that
// answer them. From a route come the permission that is asked for, the check of parameters
// and body, and the OpenAPI document; nothing is said twice.
package rest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/serving"
)

// Region is a place where deployments can run.
type Region struct {
	// Name by which a deployment is made there.
	Name string
	// Title shown to people.
	Title string
}

// Options are what the API needs.
type Options struct {
	// Kube reads the cache, which has the indexes of AddIndexes, and the API server.
	Kube *kube.Client
	// Deployments is that cache's informer.
	Deployments toolscache.SharedIndexInformer
	// Region of this cluster.
	Region Region
	// Version of quoin, for the document.
	Version string
	// AuditLog is what is exported; nil without a database.
	AuditLog AuditLog
	// Patience is how long an answer waits for what it has caused, such as the number of a
	// new deployment; 20 s when zero.
	Patience time.Duration
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Random is the source of keys; crypto/rand when nil.
	Random io.Reader
}

// API answers the documented paths.
type API struct {
	Options
	catalog  *catalog
	hooks    *hookTurns
	mux      *http.ServeMux
	api      huma.API
	document []byte
	page     []byte
	// repeatable has operation?parameter for each parameter that is a list.
	repeatable map[string]bool
}

// families are all routes, in the order of the document.
var families = []family{deployments, settings, versions, environments, tokens, branches, variables, regions, apiKeys, users, auditLogs, document}

// New builds the API.
func New(o Options) (*API, error) {
	if o.Patience == 0 {
		o.Patience = 20 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	a := &API{Options: o, hooks: newHookTurns(clock.RealClock{}), mux: http.NewServeMux(), repeatable: map[string]bool{}}
	var err error
	if a.catalog, err = newCatalog(o.Deployments); err != nil {
		return nil, err
	}
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Quoin Platform API", Version: o.Version,
				Description: "Deployments, their environments, branches, versions, variables and keys. The server is the tenant host that answers.",
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", schemaName),
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
	a.api = humago.New(a.mux, config)
	for _, f := range families {
		a.api.OpenAPI().Tags = append(a.api.OpenAPI().Tags, &huma.Tag{Name: f.tag, Description: f.about})
		for _, r := range f.routes {
			r.register(r, a, f.tag)
		}
	}
	return a, a.write()
}

// ServeHTTP answers a request whose account and principal are known. The path is canonical:
// decoded, without a trailing slash, empty or dotted segments.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request, account *v1alpha1.Account, p *auth.Principal) {
	handler, pattern := a.mux.Handler(r)
	if pattern == "" {
		a.noRoute(w, r)
		return
	}
	ctx := withScope(auth.With(r.Context(), p), &scope{account: account, principal: p})
	_ = handler // the mux itself sets the path values
	a.mux.ServeHTTP(w, r.WithContext(ctx))
}

// noRoute answers 405 when the path is served with other methods, else 404.
func (a *API) noRoute(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := r.Clone(context.Background())
		other.Method = method
		if _, pattern := a.mux.Handler(other); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		writeError(w, http.StatusNotFound, "no such path")
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	writeError(w, http.StatusMethodNotAllowed, fmt.Sprintf("method %s is not served here; allowed: %s", clip(r.Method), strings.Join(allowed, ", ")))
}

// family is a group of resources: a file of this package.
type family struct {
	tag, about string
	routes     []route
}

// route is a line of a family's table.
type route struct {
	method, path string
	// name is the operation's id in the document, that of the upstream document where it has one.
	name, summary string
	// needs is the permission that is asked for; the empty one is held by everybody.
	needs v1alpha1.Permission
	// mediaType of the answer; JSON when empty.
	mediaType string
	register  func(r route, a *API, tag string)
}

// answering makes a route answer with another media type than JSON.
func (r route) answering(mediaType string) route {
	r.mediaType = mediaType
	return r
}

// on makes a route from typed functions: In has the parameters and the body, Out the answer.
func on[In, Out any](method, path, name string, needs v1alpha1.Permission, summary string, answer func(*API, context.Context, *In) (*Out, error)) route {
	r := route{method: method, path: path, name: name, summary: summary, needs: needs}
	r.register = func(r route, a *API, tag string) {
		huma.Register(a.api, huma.Operation{
			OperationID: name, Method: method, Path: path, Summary: summary, Tags: []string{tag},
			Description: permissionNote(needs),
			Errors:      documentedErrors(method),
			Responses:   documentedAnswer(r.mediaType),
			Middlewares: huma.Middlewares{a.enter(r)},
		}, func(ctx context.Context, in *In) (*Out, error) {
			out, err := answer(a, ctx, in)
			if err != nil {
				return nil, toProblem(ctx, err)
			}
			return out, nil
		})
	}
	return r
}

func permissionNote(needs v1alpha1.Permission) string {
	if needs == "" {
		return "Needs no permission."
	}
	return fmt.Sprintf("Needs the permission %s.", needs)
}

// documentedAnswer describes an answer that has no schema.
func documentedAnswer(mediaType string) map[string]*huma.Response {
	if mediaType == "" {
		return nil
	}
	return map[string]*huma.Response{"200": {
		Description: "OK", Content: map[string]*huma.MediaType{mediaType: {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
}

func documentedErrors(method string) []int {
	codes := []int{400, 401, 403, 404, 429, 500, 503}
	if method != http.MethodGet {
		codes = append(codes, 409, 413, 415)
	}
	return codes
}

// enter is what every route does before its parameters are read: the permission, and the
// deployment in the path, which must be the account's and in the principal's scope.
func (a *API) enter(r route) func(huma.Context, func(huma.Context)) {
	inDeployment := strings.Contains(r.path, "{deploymentId}")
	return func(hc huma.Context, next func(huma.Context)) {
		s := scopeOf(hc.Context())
		serving.Annotate(hc.Context(), serving.AnnotationRoute, r.path)
		fail := func(err error) {
			p := toProblem(hc.Context(), err)
			_ = huma.WriteErr(a.api, hc, p.GetStatus(), p.Error())
		}
		if !s.principal.May(r.needs) {
			fail(forbidden("%s %q does not hold the permission %s", s.principal.Kind, s.principal.Name, r.needs))
			return
		}
		if r.needs == mayAdmin && s.principal.Deployments != nil {
			// What needs Admin concerns the whole account: a key that is confined would get out.
			fail(forbidden("%s %q is confined to certain deployments", s.principal.Kind, s.principal.Name))
			return
		}
		if err := a.checkQuery(r.name, hc.URL()); err != nil {
			fail(err)
			return
		}
		if inDeployment {
			d, err := a.deployment(hc.Context(), hc.Param("deploymentId"))
			if err != nil {
				fail(err)
				return
			}
			s.deployment = d
		}
		next(hc)
	}
}

// checkQuery refuses a query that readers would not all read in the same way.
func (a *API) checkQuery(name string, u url.URL) error {
	if u.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return badRequest("query: %s", clip(err.Error()))
	}
	for parameter, values := range query {
		if len(values) > 1 && !a.repeatable[name+"?"+parameter] {
			return badRequest("%s: is there %d times; allowed: once", clip(parameter), len(values))
		}
	}
	return nil
}

// scope is what is known of a request before its route is: whose it is.
type scope struct {
	account    *v1alpha1.Account
	principal  *auth.Principal
	deployment *v1alpha1.Deployment
}

func (s *scope) namespace() string { return s.account.Spec.Namespace }

type scopeKey struct{}

func withScope(ctx context.Context, s *scope) context.Context {
	return context.WithValue(ctx, scopeKey{}, s)
}

func scopeOf(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// errTooSlow says that something that was written has not had its effect in time.
var errTooSlow = errors.New("not yet")

// await polls until done, an error, or the patience is at an end (errTooSlow).
func (a *API) await(ctx context.Context, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, a.Patience)
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		ok, err := done(ctx)
		if ok || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errTooSlow
		case <-time.After(pause):
		}
	}
}
