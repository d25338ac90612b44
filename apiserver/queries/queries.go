// Package queries runs stored queries over REST for the caller of a request, as docs/decisions/0084-queries-of-people.md describes.
//
//	queries.go   the service and its limits
//	run.go       one run: its token, its end when the caller's credential ends
//	respond.go   the response: which format, which status
//	formats.go   the formats of results
//	gateway.go   the connection to quoin gateway
//
// It knows no reports: groups of the REST API call it with a query.
package queries

import (
	"context"
	"net/http"
	"time"

	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/datatokens"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/query"
	"github.com/quoin-dev/quoin/internal/query/controls"
	"github.com/quoin-dev/quoin/internal/serving"
)

// Limits of runs.
const (
	// MaxDuration of a run, with all waits for the data plane and for the client.
	MaxDuration = 10 * time.Minute
	// MaxRows and maxBytes of a result that is in memory.
	MaxRows  = 50_000
	maxBytes = 16 << 20
	// MaxStreamedRows and maxStreamedBytes of a result that is not.
	MaxStreamedRows  = 1_000_000
	maxStreamedBytes = 1 << 30
	// maxHeld limits all results in memory, and maxHeldOfAccount those of an account, in bytes as they are sent.
	maxHeld          = 32 << 20
	maxHeldOfAccount = 24 << 20
	// Concurrent runs of one person or program, of an account, and of this process.
	maxOfCaller  = 8
	maxOfAccount = 32
	maxAll       = 64
)

// Options configure a service.
type Options struct {
	// HTTP connects to quoin gateway for every host; nil without a gateway.
	HTTP *http.Client
	// Tokens signs the tokens of runs.
	Tokens *datatokens.Issuer
	// Clock is the time.
	Clock clock.WithTicker
}

// Service runs queries.
type Service struct {
	runner            *query.Runner
	tokens            *datatokens.Issuer
	clock             clock.WithTicker
	callers, accounts *serving.Shares[string]
	all               *serving.Shares[struct{}]
}

// New returns a service.
func New(o Options) *Service {
	s := &Service{
		tokens: o.Tokens, clock: o.Clock,
		callers: serving.NewShares[string](maxOfCaller), accounts: serving.NewShares[string](maxOfAccount), all: serving.NewShares[struct{}](maxAll),
	}
	if o.HTTP != nil {
		s.runner = &query.Runner{HTTP: o.HTTP, MaxHeld: maxHeld, MaxHeldOfAccount: maxHeldOfAccount}
	}
	return s
}

// Request is what to run.
type Request struct {
	Query    query.Query
	Controls controls.Controls
	// Accept is the header of the request.
	Accept string
	// Name of the report, for the name of a file.
	Name string
	// Permission of the route: the run ends when the caller loses it.
	Permission v1alpha1.Permission
}

// acquire takes places for a run of the caller. They are released once.
func (s *Service) acquire(ctx context.Context) (release func(), err error) {
	scope := rest.ScopeFrom(ctx)
	caller := scope.Caller()
	if p := scope.Principal; p.User != "" {
		caller = "ScimUser:" + p.User // with all keys and sessions
	}
	account := string(scope.Account.UID)
	own := s.callers.Acquire(account + "/" + caller)
	if own == nil {
		return nil, later(http.StatusTooManyRequests, "%d queries of %q are running; allowed: %d at a time", maxOfCaller, scope.Principal.Name, maxOfCaller)
	}
	ofAccount := s.accounts.Acquire(account)
	if ofAccount == nil {
		own()
		return nil, later(http.StatusTooManyRequests, "%d queries of the account are running; allowed: %d at a time", maxOfAccount, maxOfAccount)
	}
	all := s.all.Acquire(struct{}{})
	if all == nil {
		ofAccount()
		own()
		return nil, later(http.StatusServiceUnavailable, "too many queries are running: try again later")
	}
	return func() { all(); ofAccount(); own() }, nil
}

// contents returns what the token of a run permits: what a token permits that the caller creates. A person who cannot change
// reports chooses SQL and does not write it, so that SQL of others runs without SqlRunnerRead.
func contents(ctx context.Context, r Request) (datatokens.Contents, error) {
	scope := rest.ScopeFrom(ctx)
	p, deployment := scope.Principal, scope.Deployment.Name
	if !p.MayOn(v1alpha1.PermissionDeploymentRead, deployment) {
		return datatokens.Contents{}, datatokens.Lacks(scope, v1alpha1.PermissionDeploymentRead)
	}
	out, err := datatokens.For(ctx, nil)
	if err != nil || out.Permissions == nil || r.Query.SQL == "" {
		return out, err
	}
	if !p.MayOn(v1alpha1.PermissionSqlRunnerRead, deployment) && !p.MayOn(v1alpha1.PermissionReportEdit, deployment) {
		out.Permissions = append(out.Permissions, v1alpha1.PermissionSqlRunnerRead)
	}
	return out, nil
}
