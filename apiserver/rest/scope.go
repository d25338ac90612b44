package rest

import (
	"context"
	"net/url"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/tracing"
)

// Scope is the context of a request in which its handler runs.
type Scope struct {
	Account   *v1alpha1.Account
	Principal *auth.Principal
	// Deployment of the path; nil if the path has none.
	Deployment *v1alpha1.Deployment

	// list identifies the list that is requested, for its cursors.
	list listID
}

// Namespace returns the namespace of the account.
func (s *Scope) Namespace() string { return s.Account.Spec.Namespace }

// Content returns the deployment of the path, in the form of the content database.
func (s *Scope) Content() content.Scope {
	return content.Scope{
		Account:    s.StoreAccount(),
		Deployment: store.Deployment{UID: string(s.Deployment.UID), Namespace: s.Deployment.Namespace, Name: s.Deployment.Name},
	}
}

// StoreAccount returns the account as the content store knows it.
func (s *Scope) StoreAccount() store.Account {
	return store.Account{UID: string(s.Account.UID), Name: s.Account.Name}
}

// Address returns the e-mail address of a principal with an id that has none, in the domain of the account: clients expect one.
func (s *Scope) Address(id string) string {
	domain, _, _ := strings.Cut(string(s.Account.Spec.Host), ":")
	return withoutIssuer(id) + "@" + domain
}

// withoutIssuer returns the subject of a person, whose id is <issuer>#<subject>; other ids as they are.
func withoutIssuer(id string) string {
	if _, subject, isPerson := strings.Cut(id, "#"); isPerson {
		return subject
	}
	return id
}

// Caller returns the principal as <kind>:<id>, which identifies it in the content database.
func (s *Scope) Caller() string { return string(s.Principal.Kind) + ":" + s.Principal.ID }

type scopeKey struct{}

// With returns a context with the scope.
func (s *Scope) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, s)
}

// ScopeFrom returns the scope of a request; nil outside of one.
func ScopeFrom(ctx context.Context) *Scope {
	s, _ := ctx.Value(scopeKey{}).(*Scope)
	return s
}

// deploymentIDParameter is the path parameter that the engine resolves.
const deploymentIDParameter = "deploymentId"

// InDeployment is the path parameter of routes below a deployment. The engine has checked it and
// put the deployment into the Scope.
type InDeployment struct {
	ID string `path:"deploymentId" pattern:"^[0-9]{1,16}$" doc:"Number of the deployment."`
}

// admit returns the middleware of a route. It checks the permission and the query, and resolves the
// deployment of the path, before parameters are read.
func (a *API) admit(op *operation) func(huma.Context, func(huma.Context)) {
	return func(hc huma.Context, next func(huma.Context)) {
		serving.Annotate(hc.Context(), serving.AnnotationRoute, op.route.Path)
		if err := a.check(hc, op); err != nil {
			_, w := humago.Unwrap(hc)
			writeProblem(w, toProblem(hc.Context(), err))
			return
		}
		next(hc)
	}
}

func (a *API) check(hc huma.Context, op *operation) error {
	s, needs := ScopeFrom(hc.Context()), op.route.Permission
	if err := s.may(needs); err != nil {
		return err
	}
	if s.Principal.LimitedFor(needs) {
		return Forbidden("%s %q is limited to certain deployments; the permission %s concerns the whole account", s.Principal.Kind, s.Principal.Name, needs)
	}
	u := hc.URL()
	query, err := op.query(u)
	if err != nil {
		return err
	}
	s.list = newListID(op.route.OperationID, s.Account.UID, u.Path, query)
	if op.inDeployment {
		find := a.deployments.Find
		if op.route.cached {
			find = a.deployments.FindCached
		}
		if s.Deployment, err = a.deployment(hc.Context(), s, hc.Param(deploymentIDParameter), needs, find); err == nil {
			tracing.SetTarget(hc.Context(), s.Account.Name, s.Deployment.Name)
		}
	}
	return err
}

// may returns an error if the principal holds a permission on nothing.
func (s *Scope) may(needs v1alpha1.Permission) error {
	if !s.Principal.May(needs) {
		return Forbidden("%s %q does not hold the permission %s", s.Principal.Kind, s.Principal.Name, needs)
	}
	return nil
}

// mayOn returns an error if the principal does not hold a permission on the deployment with an object name and an id; on all
// deployments if the name is empty.
func (s *Scope) mayOn(needs v1alpha1.Permission, name, id string) error {
	if !s.Principal.MayOn(needs, name) {
		return Forbidden("%s %q does not hold the permission %s on deployment %s", s.Principal.Kind, s.Principal.Name, needs, id)
	}
	return nil
}

// Require returns the error of a route that needs a permission, if the principal does not hold it on the deployment of the
// path: for operations that do what several others do.
func (s *Scope) Require(needs v1alpha1.Permission) error {
	if err := s.may(needs); err != nil {
		return err
	}
	return s.mayOn(needs, s.Deployment.Name, s.Deployment.Labels[v1alpha1.LabelID])
}

// query parses the query of a request. It rejects one that parsers may read in different ways.
func (op *operation) query(u url.URL) (url.Values, error) {
	if u.RawQuery == "" {
		return nil, nil
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, BadRequest("query: malformed; allowed: name=value pairs separated by &, with %% only before two hexadecimal digits")
	}
	for name, values := range query {
		if len(values) > 1 && !op.repeatable[name] {
			return nil, BadRequest("%s: is there %d times; allowed: once", Clip(name), len(values))
		}
	}
	return query, nil
}

var deploymentID = regexp.MustCompile(`^[0-9]{1,16}$`)

// finder is a function of a DeploymentFinder.
type finder func(ctx context.Context, namespace, id string) (*v1alpha1.Deployment, error)

// deployment returns the account's deployment with an id, on which the principal needs a permission.
// For a principal that is limited to certain deployments, another one is 403 whether or not it exists.
func (a *API) deployment(ctx context.Context, s *Scope, id string, needs v1alpha1.Permission, find finder) (*v1alpha1.Deployment, error) {
	if !deploymentID.MatchString(id) {
		return nil, BadRequest("deploymentId: %q is not a number of at most 16 digits", Clip(id))
	}
	d, err := find(ctx, s.Namespace(), id)
	if err != nil {
		return nil, err
	}
	name := "" // of a deployment that does not exist
	if d != nil {
		name = d.Name
	}
	if err := s.mayOn(needs, name, id); err != nil {
		return nil, err
	}
	if d == nil {
		return nil, NotFound("deployment %s does not exist", id)
	}
	return d, nil
}
