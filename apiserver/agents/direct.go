package agents

import (
	"context"

	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/datatokens"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/agent/semantic"
	"github.com/quoin-dev/quoin/internal/query"
)

// Direct returns what tools need that query production of the deployment of the scope for the caller, without an agent. A caller who is
// no person has what its data tokens have.
func (s *Service) Direct(ctx context.Context) (semantic.Options, error) {
	of := rest.ScopeFrom(ctx)
	asker, err := caller(ctx, of)
	if err != nil {
		return semantic.Options{}, err
	}
	target, err := s.target(ctx, asker, "")
	if err != nil {
		return semantic.Options{}, err
	}
	return semantic.Options{
		Runner: s.runner, Target: target, Limits: query.Limits{Rows: maxRows, Bytes: maxBytes, Duration: queryTimeout}, SQL: asker.MayUseSQL(), NewID: uuid.NewString,
	}, nil
}

// caller returns the caller of a request.
func caller(ctx context.Context, of *rest.Scope) (*Asker, error) {
	if of.Principal.User != "" || of.Principal.Kind == auth.KindUser {
		return self(of)
	}
	contents, err := datatokens.For(of.With(ctx), nil)
	return &Asker{Owner: of.Caller(), scope: of, contents: contents, needed: v1alpha1.PermissionDeploymentRead}, err
}
