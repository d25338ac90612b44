package queries

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/datatokens"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/query"
)

const (
	// tokenLifetime is that of the token of a run. It is renewed when less than tokenMargin is left.
	tokenLifetime = 5 * time.Minute
	tokenMargin   = time.Minute
	// checkInterval is how often the caller's credential is checked while a query runs.
	checkInterval = 5 * time.Second
)

// target returns where the query of a run goes, and with which tokens.
func (s *Service) target(ctx context.Context, r Request) (query.Target, error) {
	production, err := s.production(ctx)
	if err != nil {
		return query.Target{}, err
	}
	permitted, err := contents(ctx, r)
	if err != nil {
		return query.Target{}, err
	}
	t := &tokens{service: s, environment: production, contents: permitted}
	if _, err := t.token(ctx); err != nil {
		return query.Target{}, err
	}
	account := string(rest.ScopeFrom(ctx).Account.UID)
	return query.Target{URL: production.Status.APICredentials.REST.URL, Identity: t.current.Identity, Account: account, Token: t.token}, nil
}

// production returns the production environment of the deployment.
func (s *Service) production(ctx context.Context) (*v1alpha1.Environment, error) {
	d, e := rest.ScopeFrom(ctx).Deployment, &v1alpha1.Environment{}
	err := s.tokens.Kube.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: v1alpha1.ProductionName(d.Name)}, e)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, err
	case err != nil || e.Status.APICredentials == nil || e.Status.CredentialsSecret == "":
		return nil, rest.Conflict("the deployment has no production environment yet")
	}
	return e, nil
}

// tokens are those of a run.
type tokens struct {
	service     *Service
	environment *v1alpha1.Environment
	contents    datatokens.Contents

	mu      sync.Mutex
	current *datatokens.Token
}

// token returns a token that is valid for some time.
func (t *tokens) token(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != nil && t.current.ExpiresAt.Sub(t.service.clock.Now()) > tokenMargin {
		return t.current.JWT, nil
	}
	next, err := t.service.tokens.Sign(ctx, t.environment, t.contents, tokenLifetime)
	switch {
	case err != nil:
		return "", err
	case t.current != nil && next.Identity != t.current.Identity:
		return "", rest.Conflict("what the caller may see has changed while the query was running: run it again")
	}
	t.current = next
	return next.JWT, nil
}

// errEnded is the end of a run whose caller is no longer authenticated.
var errEnded = rest.NewProblem(http.StatusUnauthorized, "the credential was revoked or has expired while the query was running")

// whileAllowed returns a context that ends when the caller's credential does, or its permission.
func (s *Service) whileAllowed(ctx context.Context, r Request) (_ context.Context, stop func()) {
	ctx, end := context.WithCancelCause(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := s.clock.NewTicker(checkInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C():
			}
			if err := s.check(ctx, r.Permission); err != nil {
				end(err)
			}
		}
	}()
	return ctx, func() {
		end(context.Canceled)
		<-stopped
	}
}

// check returns an error if the caller may not run queries any more.
func (s *Service) check(ctx context.Context, needed v1alpha1.Permission) error {
	p, err := auth.Again(ctx)
	switch {
	case errors.Is(err, auth.ErrNoCredential), errors.Is(err, auth.ErrForbidden):
		return errEnded
	case err != nil: // it cannot be checked now
		if ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "The credential of a running query cannot be checked")
		}
		return nil
	}
	scope := rest.ScopeFrom(ctx)
	for _, permission := range []v1alpha1.Permission{needed, v1alpha1.PermissionDeploymentRead} {
		if !p.MayOn(permission, scope.Deployment.Name) {
			return datatokens.Lacks(scope, permission)
		}
	}
	return nil
}
